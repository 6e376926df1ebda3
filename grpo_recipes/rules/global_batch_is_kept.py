"""The global batch is the same on 1 GPU and on 64, or the recipe is refused.

One optimizer step trains on `prompts_per_step` x `num_generations` completions over all processes. From that and the
number of processes grpo-run computes the micro-batch, the accumulation steps and the steps that one generation feeds.
The micro-batch is the given one, or the largest of at most 16384 completion tokens whose update fits into 0.85 of the
GPU, as `grpo-run fit` estimates; under ZeRO-3 the largest that also leaves room for held-out rows next to the gathered
weights, if possible. On a CPU it has at most 1024 completion tokens: larger ones take longer, need more memory, and
leave fewer micro-batches over which rows can be sorted by their length (SHM025). A loss that depends on the cut, be it
by a bonus for entropy or the loss of a router, which are means over a micro-batch, keeps the larger limit. If the
completions cannot be split evenly, a different batch would be a different experiment, so that is an error and is not
rounded. A recipe that claims its processes and micro-batch with `training.cut` gets these, and its prompts have to fit
them (see BAT006).

TRL's own batch fields may be written under `trl:` instead of `prompts_per_step`; then only TRL's divisibility is
checked (see BAT002).
"""

from collections.abc import Iterator
from itertools import chain
from math import gcd

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import (
    MICRO_BATCH,
    SIZE,
    has_its_micro_batch,
    has_its_processes,
    micro_batch_key,
    number_of_cut,
)
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.fitting import FILLED, IN_AN_UPDATE, answers_fit, share_needed
from grpo_recipes.rules._shared.losses import depends_at_all_on_the_cut
from grpo_recipes.rules._shared.settings import Setting

ID = "BAT001"
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"
STEPS_PER_GENERATION = "GRPOConfig.steps_per_generation"
TRL_FIELDS = (ACCUMULATION, STEPS_PER_GENERATION, "GRPOConfig.generation_batch_size")
OWNS = (MICRO_BATCH, ACCUMULATION, STEPS_PER_GENERATION)
READS = (
    "LoraConfig.exclude_modules",
    "world.all_gpus",
    "world.device",
    "world.num_processes",
    "batch.one_prompt",
    "batch.whole_groups",
    "batch.in_one_piece",
    "distributed.strategy",
    "GRPOConfig.gradient_checkpointing",
    "GRPOConfig.max_prompt_length",
    "GRPOConfig.use_vllm",
    "GRPOConfig.vllm_mode",
)
COMPLETION_TOKENS = 16384
"""A micro-batch holds at most this many completion tokens; more gains no speed and costs activations."""
CPU_TOKENS = 1024
"""The same on a CPU, where a core is busy with the tokens of one row. Measured in benchmarks/padding.md."""
USUAL_PROMPTS = 16
TRIED = 100_000
"""How many smaller micro-batches are tried if one is impossible."""


def _completions(context: Context) -> tuple[int, int, int]:
    """Prompts per step, completions per step, processes. Raises NotJudged without prompts_per_step."""
    prompts = context.whole("training.prompts_per_step")
    return (
        prompts,
        prompts * context.whole("GRPOConfig.num_generations"),
        context.whole("world.num_processes"),
    )


def _most_tokens(context: Context) -> int:
    """The most completion tokens of an automatic micro-batch on this machine."""
    is_on_cpu = context.value("world.device") == "cpu"
    return CPU_TOKENS if is_on_cpu and depends_at_all_on_the_cut(context) is None else COMPLETION_TOKENS


def _micro_batch(context: Context, per_process: int, processes: int, tokens: int) -> int | None:
    """The micro-batch of a process, None if the target has none.

    The largest divisor of the process' completions whose tokens fit. If the target asks for whole groups, the smallest
    that has them rather than None; one prompt, or all completions, if that does not change the experiment.
    """
    generations, cut = context.whole("GRPOConfig.num_generations"), number_of_cut(context, SIZE)
    if cut is not None:
        return cut
    if context.value("batch.one_prompt") is True:
        return generations if per_process % generations == 0 else None
    if context.value("batch.in_one_piece") is True:
        return per_process
    smallest = _smallest(context, processes)
    if per_process % smallest:
        return None
    limit = max(1, tokens // context.whole("GRPOConfig.max_completion_length"))
    sizes = (smallest * count for count in range(min(limit, per_process) // smallest, 0, -1))
    fitting = (size for size in sizes if per_process % size == 0 and _fits(context, size))
    largest = next(fitting, smallest)
    return next(
        (size for size in chain([largest], fitting) if answers_fit(context, {MICRO_BATCH: size}, READS)), largest
    )


def _fits(context: Context, size: int) -> bool:
    """Whether an update with such a micro-batch fits into the GPU; True if unknown."""
    share = share_needed(context, {MICRO_BATCH: size}, READS, IN_AN_UPDATE)
    return share is None or share <= FILLED


def largest_micro_batch(context: Context, tokens: int) -> int | None:
    """The largest micro-batch of this many completion tokens; None if impossible or if TRL's fields set it."""
    if context.value("training.prompts_per_step") is None or _trl_fields(context):
        return None
    _, completions, processes = _completions(context)
    everywhere = context._replace(stack=context.stack._replace(gpus=None))
    return None if completions % processes else _micro_batch(everywhere, completions // processes, processes, tokens)


def _smallest(context: Context, processes: int) -> int:
    """The smallest micro-batch that the target accepts; all others are multiples of it."""
    groups = context.whole("GRPOConfig.num_generations") if context.value("batch.whole_groups") is True else 1
    return groups // gcd(groups, processes)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("training.prompts_per_step") is None:
        yield from _from_trl_fields(context)
        return
    prompts, completions, processes = _completions(context)
    if completions % processes or _trl_fields(context):
        return
    per_process = completions // processes
    size = context.value(MICRO_BATCH)
    if size == "auto":
        size = _micro_batch(context, per_process, processes, _most_tokens(context))
        if size is None:
            return
        yield rule_setting(MICRO_BATCH, size, _why(context, size, per_process))
    if not isinstance(size, int) or per_process % size:
        return
    accumulation = per_process // size
    steps = accumulation * context.whole("grpo.optimizer_steps_per_generation")
    why = f"{prompts} prompts x {completions // prompts} generations / {processes} processes / {size} in a micro-batch"
    yield rule_setting(ACCUMULATION, accumulation, why)
    why = f"{accumulation} accumulation steps x {context.value('grpo.optimizer_steps_per_generation')} optimizer steps"
    yield rule_setting(STEPS_PER_GENERATION, steps, why)


def _why(context: Context, size: int, per_process: int) -> str:
    """Why the micro-batch has this size."""
    if number_of_cut(context, SIZE) is not None:
        return f"{SIZE} is {size}"
    for key in ("batch.one_prompt", "batch.in_one_piece"):
        if context.value(key) is True:
            return context.settings[key].why
    of = f"divisor of {per_process} completions per process"
    whole = " in whole groups" if context.value("batch.whole_groups") is True else ""
    needed = share_needed(context, {MICRO_BATCH: size}, READS, IN_AN_UPDATE)
    share = "" if needed is None else f"; an update needs {needed:.0%} of the GPU, by an estimate"
    tokens = _most_tokens(context)
    if size * context.whole("GRPOConfig.max_completion_length") > tokens or (needed or 0) > FILLED:
        return f"smallest {of}{whole}{share}"
    fitting = " that fits the GPU," if size != largest_micro_batch(context, tokens) else ""
    beyond = "; more take longer on a CPU" if tokens == CPU_TOKENS and size < per_process else ""
    return f"largest {of}{whole}{fitting} within {tokens} completion tokens{share}{beyond}"


def _trl_fields(context: Context) -> list[str]:
    """TRL's own batch fields that the user wrote; null counts as not written."""
    return [key for key in TRL_FIELDS if context.is_given(key) and context.settings[key].value is not None]


def _from_trl_fields(context: Context) -> Iterator[Setting]:
    if context.value(MICRO_BATCH) == "auto":
        one_prompt, cut = context.value("batch.one_prompt") is True, number_of_cut(context, SIZE)
        size = cut or (context.whole("GRPOConfig.num_generations") if one_prompt else 8)
        why = context.settings["batch.one_prompt"].why if one_prompt else "TRL's own default"
        why = why if cut is None else f"{SIZE} is {size}"
        yield rule_setting(MICRO_BATCH, size, why)
    if context.value(ACCUMULATION) is None:
        yield rule_setting(ACCUMULATION, 1, "TRL's own default")


def check(context: Context) -> Iterator[Finding]:
    trl_fields = _trl_fields(context)
    if context.value("training.prompts_per_step") is None:
        if not trl_fields and not _sets_trl_field(context):
            yield _missing(context)
        return
    for key in [key for key in trl_fields if not context.settings[key].refused]:
        message = f"{context.recipe_key(key)} and training.prompts_per_step both set the batch size"
        because = "accumulation follows from prompts_per_step and the processes"
        yield context.wrong(message, key, because)
    if not trl_fields and has_its_processes(context) and has_its_micro_batch(context):
        yield from _split(context)


def _sets_trl_field(context: Context) -> bool:
    """Whether the recipe sets a batch field of TRL in addition to the micro-batch."""
    written = context.source.values.get("training")
    return isinstance(written, dict) and any(written.get(key.partition(".")[2]) is not None for key in TRL_FIELDS)


def _missing(context: Context) -> Finding:
    """The finding for a batch of unknown size."""
    size, generations = context.value(MICRO_BATCH), context.whole("GRPOConfig.num_generations")
    at_once = context.whole("world.num_processes") * (size if isinstance(size, int) else 1)
    least = at_once // gcd(at_once, generations)
    prompts = -(-USUAL_PROMPTS // least) * least
    because = "nothing else sets the batch size"
    return context.wrong("`training` lacks prompts_per_step", "training.prompts_per_step", because, prompts)


def _split(context: Context) -> Iterator[Finding]:
    _, completions, processes = _completions(context)
    size, cut = context.value(MICRO_BATCH), number_of_cut(context, SIZE)
    if cut is not None and completions % (processes * cut):
        yield _not_of_the_cut(context, cut)
    elif completions % processes:
        yield _not_shared(context)
    elif isinstance(size, int) and completions // processes % size:
        yield _not_cut(context, size)


def _not_of_the_cut(context: Context, size: int) -> Finding:
    """The finding for a step that is not a whole number of micro-batches in each process of the claimed cut."""
    prompts, completions, processes = _completions(context)
    at_once, generations = processes * size, completions // prompts
    least = at_once // gcd(at_once, generations)
    better, smaller = -(-prompts // least) * least, []
    if completions % processes == 0:
        smaller = [f"{SIZE}: {_nearest_below(context, completions // processes, processes, size)}"]
    return context.wrong(
        f"{completions} completions per step cannot be split into micro-batches of {size} in {_processes(processes)}",
        micro_batch_key(context),
        [
            _product_text(context, prompts, generations),
            f"{SIZE} {size} ({context.origin(SIZE)}) x {_processes(processes)} are {at_once} at a time",
        ],
        better,
        at=("training", "prompts_per_step"),
        fix=", or ".join([f"prompts_per_step: {better}", *smaller]),
    )


def _not_shared(context: Context) -> Finding:
    """The finding for completions that cannot be split evenly over the processes."""
    prompts, completions, processes = _completions(context)
    generations = completions // prompts
    least = processes // gcd(processes, generations)
    better = -(-prompts // least) * least
    fewer = next(number for number in range(min(processes - 1, completions), 0, -1) if completions % number == 0)
    return context.wrong(
        f"{completions} completions per step cannot be split over {processes} processes",
        "training.prompts_per_step",
        [
            _product_text(context, prompts, generations),
            f"{processes} processes: {context.settings['world.num_processes'].why}",
        ],
        better,
        fix=f"prompts_per_step: {better}, or launch.num_processes: {fewer} for the same experiment",
    )


def _not_cut(context: Context, size: int) -> Finding:
    """The finding for a micro-batch that does not divide a process' completions."""
    prompts, completions, processes = _completions(context)
    per_process = completions // processes
    better = _nearest_below(context, per_process, processes, size)
    made_of = _product_text(context, prompts, completions // prompts).partition(" = ")[2]
    message = f"{per_process} completions per process cannot be split into micro-batches of {size}"
    return context.wrong(message, MICRO_BATCH, f"{per_process} = {made_of} / {_processes(processes)}", better)


def _nearest_below(context: Context, per_process: int, processes: int, size: int) -> int:
    """The largest possible micro-batch up to a size: a larger one may not fit where this one did."""
    if context.value("batch.one_prompt") is True or context.value("batch.in_one_piece") is True:
        return _micro_batch(context, per_process, processes, COMPLETION_TOKENS) or per_process
    smallest = _smallest(context, processes)
    if per_process % smallest:
        return per_process
    most = min(size, per_process) // smallest
    sizes = (smallest * count for count in range(most, max(0, most - TRIED), -1))
    return next((size for size in sizes if per_process % size == 0), smallest)


def _product_text(context: Context, prompts: int, generations: int) -> str:
    """ "32 = prompts_per_step 4 (line 3) x num_generations 8 (line 5)"."""
    return (
        f"{prompts * generations} = prompts_per_step {prompts} ({context.origin('training.prompts_per_step')})"
        f" x num_generations {generations} ({context.origin('GRPOConfig.num_generations')})"
    )


def _processes(processes: int) -> str:
    return f"{processes} process{'' if processes == 1 else 'es'}"
