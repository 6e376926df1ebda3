"""The run cuts its batch as `training.cut` says, or the recipe is refused.

`training.cut` says how many processes share the batch and how many completions each takes at a time. Losses that depend
on it (loss_type bnpo, top_entropy_quantile; see LOS001) are right only for this cut: with four times the processes the
same recipe has a different gradient. So other numbers of processes and other micro-batches are refused. A recipe
without such a loss has the same gradient for every cut, and does not need `training.cut`.

TRL 0.16, which has no loss_type, averages over the tokens of a micro-batch as bnpo does, and 0.17 to 0.21 do so by
default. To reproduce a run from one of these releases, write `loss_type: bnpo` with its cut: the gradients of 0.16 and
0.17 are bit for bit the same. Since 0.18, TRL shuffles completions over the micro-batches of a generation: 0.19 to 1.16
share one gradient, which was 5 % off that of 0.17 for the same cut.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.batch_cut import (
    MICRO_BATCH,
    PROCESSES,
    SIZE,
    has_its_micro_batch,
    has_its_processes,
    number_of_cut,
)
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import WHOLE, depends_on_the_cut
from grpo_recipes.rules._shared.machines import has_server_node

ID = "BAT006"
WORLD = "world.num_processes"


def check(context: Context) -> Iterator[Finding]:
    processes, size = number_of_cut(context, PROCESSES), number_of_cut(context, SIZE)
    if processes is not None and not has_its_processes(context):
        made = context.whole(WORLD)
        instead = "remove training.cut"
        key = depends_on_the_cut(context)
        if key is not None:
            name = key.partition(".")[2]
            instead += f" and write {name}: {WHOLE[key]}, since {name} {context.value(key)} depends on it"
        asked = _with_processes(context, processes)
        so_many = f"{'.'.join(map(str, asked.path))}: {asked.value}" if asked else f"{processes} GPUs to train on"
        yield context.finding(
            f"the batch is cut for {processes} process{'' if processes == 1 else 'es'}, but {made} would train",
            PROCESSES,
            [
                f"{processes} is {PROCESSES} ({context.origin(PROCESSES)}), part of the experiment",
                f"{made}: {context.settings[WORLD].why}",
            ],
            fix=f"{so_many}; or, to run elsewhere, {instead}",
            patch=[asked] if asked else [],
        )
    if size is not None and not has_its_micro_batch(context):
        own = context.value(MICRO_BATCH)
        message = f"training.per_device_train_batch_size is {own}, but training.cut says {size}"
        because = "they contradict each other, and the cut is part of the experiment"
        yield context.wrong(message, MICRO_BATCH, because, fix=f"remove per_device_train_batch_size, or {SIZE}: {own}")


def _with_processes(context: Context, processes: int) -> Patch | None:
    """A fix that makes this many processes train, None if it takes other machines."""
    gpus, nodes = context.whole("world.gpus"), context.whole("world.num_nodes")
    if context.is_given("launch.num_processes") and gpus in (0, processes):
        return Patch(("launch", "num_processes"), processes)
    if context.value("launch.num_processes") == "auto" and gpus > processes and processes % nodes == 0:
        server = 0 if has_server_node(context) else context.whole("world.server_gpus")
        return Patch(("launch", "gpus_per_node"), processes // nodes + server)
    return None
