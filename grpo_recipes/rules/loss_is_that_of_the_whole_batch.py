"""A loss that depends on how the batch is cut is computed in one piece, or in the cut that the recipe sets.

loss_type bnpo divides by the tokens of the micro-batch, and top_entropy_quantile below 1 takes its threshold from the
tokens of the micro-batch. With accumulation, or with bnpo in several processes, the same recipe has a different
gradient on a different machine (measured: up to a fifth) and on a different release, since releases fill micro-batches
in different orders. So both are refused beyond one process and one accumulation step, unless `training.cut` makes the
cut part of the experiment. Since trl 0.23, the threshold is taken over the micro-batches of all processes, so without
accumulation any number of them has the gradient of one; trl 0.21 and 0.22 gather different numbers of entropies, which
hangs. `per_device_train_batch_size: auto` takes all completions of a step at once if that helps, and, in one process,
also if the target does not know dapo, which is then the same as bnpo.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH, has_cut
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.losses import LOSS, QUANTILE, WHOLE, depends_on_the_cut
from grpo_recipes.rules._shared.settings import Setting

ID = "LOS001"
OWNS = ("batch.in_one_piece",)
READS = ("world.num_processes",)
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"
# Releases that take the threshold of entropies over all processes.
GATHERED = ">=0.23"


def _knows_dapo(context: Context) -> bool:
    fields = context.facts.fields("GRPOConfig")
    if fields is None:
        return True
    known = fields["loss_type"].allowed if "loss_type" in fields else ()
    return known is None or "dapo" in known


def _pieces_of(context: Context, key: str | None) -> int:
    """The number of processes that each compute their own part of a step."""
    version = context.stack.version("trl")
    if key == QUANTILE and version is not None and is_within(version, GATHERED):
        return 1
    return context.whole("world.num_processes")


def decide(context: Context) -> Iterator[Setting]:
    key = depends_on_the_cut(context)
    if _pieces_of(context, key) != 1 or has_cut(context):
        return
    if key is not None:
        why = f"{key.partition('.')[2]} {context.value(key)} depends on the micro-batch, which is the whole batch"
        yield rule_setting(OWNS[0], True, why)
    elif context.value(LOSS) == "dapo" and not _knows_dapo(context):
        why = "this TRL computes dapo as bnpo, which is the same on a batch in one piece"
        yield rule_setting(OWNS[0], True, why)


def check(context: Context) -> Iterator[Finding]:
    key = depends_on_the_cut(context)
    processes, accumulation = context.whole("world.num_processes"), context.whole(ACCUMULATION)
    if key is None or has_cut(context) or _pieces_of(context, key) * accumulation == 1:
        return
    name, value, size = key.partition(".")[2], context.value(key), context.whole(MICRO_BATCH)
    cut = {"processes": processes, "per_device_train_batch_size": size}
    yield context.wrong(
        f"{name} {value} depends on the micro-batch",
        key,
        f"{processes} process{'' if processes == 1 else 'es'} x {accumulation} accumulation steps of {size}"
        " completions have a different gradient than one batch",
        cut,
        at=("training", "cut"),
        fix=f"training.cut: {{processes: {processes}, per_device_train_batch_size: {size}}}, if this cut is part of"
        f" the experiment; or {_whole(context, key)}",
    )


def _whole(context: Context, key: str) -> str:
    """The change that removes the dependence."""
    if key == LOSS and _knows_dapo(context):
        return "loss_type: dapo, which divides by the tokens of the whole step"
    if key == LOSS:
        return "loss_type: dapo with trl==0.22.2, which divides by the tokens of the whole step"
    return f"{key.partition('.')[2]}: {WHOLE[key]}"
