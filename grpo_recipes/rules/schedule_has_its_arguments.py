"""The learning rate schedule gets the arguments that it needs and takes, and reaches its peak.

transformers creates the schedule after loading the model, and then raises TypeError for an unknown argument, or
ValueError for a missing one. `constant` has no warm-up and silently ignores all arguments, as does
`constant_with_warmup`. reduce_lr_on_plateau and greedy follow a loss of the trainer's own evaluation, which grpo-run
does not use: it evaluates rewards.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.data_fills_a_generation import steps_at_most

ID = "TRN002"
TYPE, KWARGS, WARMUP = "GRPOConfig.lr_scheduler_type", "GRPOConfig.lr_scheduler_kwargs", "GRPOConfig.warmup_steps"
RATE, STEPS = "GRPOConfig.learning_rate", "GRPOConfig.max_steps"
HOME = ("training", "lr_scheduler_kwargs")
WITH_EVALUATION = ("reduce_lr_on_plateau", "greedy")
WITHOUT_ARGUMENTS = ("constant", "constant_with_warmup")
WORDS = {"warmup_type": ("linear", "cosine", "1-sqrt"), "decay_type": ("linear", "cosine", "1-sqrt")}
LOWEST = ("min_lr", "min_lr_rate")
# The default final learning rate of `polynomial`.
POLYNOMIAL_END = 1e-7


@cache
def schedules() -> tuple[str, Mapping[str, list[str]]]:
    """The transformers release of the table, and the arguments of each of its schedules."""
    known = table("schedules")
    return known["transformers"], known["takes"]


def check(context: Context) -> Iterator[Finding]:
    schedule, arguments = context.text(TYPE), context.mapping(KWARGS)
    if schedule in WITH_EVALUATION:
        yield _finding(
            context,
            TYPE,
            f"{schedule} needs the trainer's own evaluation, which grpo-run does not use",
            "TrainingArguments raises ValueError; grpo-run evaluates rewards itself",
            "lr_scheduler_type: constant" + (", and remove lr_scheduler_kwargs" if arguments else ""),
            [Patch(("training", "lr_scheduler_type"), "constant"), Patch(HOME, remove=True)],
        )
    elif schedule in WITHOUT_ARGUMENTS:
        yield from _constant(context, schedule, arguments)
        if schedule != "constant":
            yield from _check_warmup(context)
    else:
        yield from _not_taken(context, schedule, arguments)
        yield from _check_needed(context, schedule, arguments)
        yield from _check_warmup(context)


def _finding(
    context: Context, key: str, message: str, because: str, fix: str, patch: list[Patch], *, mistake: bool = True
) -> Finding:
    return context.finding(
        message, key, because, fix=fix, patch=patch, severity="error" if mistake else "warning", mark=context.mark(key)
    )


def _constant(context: Context, schedule: str, arguments: Mapping[str, object]) -> Iterator[Finding]:
    warmup = context.value(WARMUP)
    if arguments:
        message = f"{schedule} ignores lr_scheduler_kwargs"
        because, fix = "transformers silently drops them", "remove lr_scheduler_kwargs"
        yield _finding(context, KWARGS, message, because, fix, [Patch(HOME, remove=True)], mistake=False)
    if schedule == "constant" and warmup:
        message = f"constant has no warm-up, but warmup_steps is {warmup}"
        because, fix = "it silently starts at the full learning rate", "lr_scheduler_type: constant_with_warmup"
        patch = [Patch(("training", "lr_scheduler_type"), "constant_with_warmup")]
        yield _finding(context, WARMUP, message, because, fix, patch, mistake=False)


def _not_taken(context: Context, schedule: str, arguments: Mapping[str, object]) -> Iterator[Finding]:
    release, takes = schedules()
    known = takes.get(schedule)
    for name, value in arguments.items():
        path = (*HOME, name)
        if known is not None and name not in known:
            near = nearest_words(name, known, cutoff=0.7)
            moved = [Patch((*HOME, word), value) for word in near[:1] if word not in arguments]
            yield _finding(
                context,
                KWARGS,
                f"{schedule} does not take {name}",
                f"transformers {release} raises TypeError after loading the model",
                f"{near[0]}: ..." if near else f"remove {name}",
                [Patch(path, remove=True), *moved],
                # A different release may accept it.
                mistake=context.stack.version("transformers") == release,
            )
        elif name in WORDS and value not in WORDS[name]:
            words = f"it must be one of {', '.join(WORDS[name])}"
            fix, patch = f"{name}: linear", [Patch(path, "linear")]
            yield _finding(context, KWARGS, f"{name} cannot be {value}", words, fix, patch)
        elif name not in WORDS and value is not None and not _number(value):
            because, patch = "the schedule raises when it computes the learning rate", [Patch(path, remove=True)]
            yield _finding(context, KWARGS, f"{name} is not a number", because, f"remove {name}", patch)


def _check_needed(context: Context, schedule: str, arguments: Mapping[str, object]) -> Iterator[Finding]:
    given = [name for name in LOWEST if arguments.get(name) is not None]
    late = "transformers raises when it creates the schedule, after loading the model"
    if "min_lr" in schedule and len(given) == 2:
        message, fix = "min_lr and min_lr_rate cannot both be set", "remove min_lr"
        yield _finding(context, KWARGS, message, late, fix, [Patch((*HOME, "min_lr"), remove=True)])
    elif "min_lr" in schedule and not given:
        message, fix = f"{schedule} needs min_lr or min_lr_rate", "lr_scheduler_kwargs: {min_lr_rate: 0.1}"
        yield _finding(context, TYPE, message, late, fix, [Patch((*HOME, "min_lr_rate"), 0.1)])
    elif schedule == "warmup_stable_decay" and arguments.get("num_decay_steps") is None:
        steps = context.value(STEPS)
        decay = max(1, steps // 10) if isinstance(steps, int) else 100
        fix = f"lr_scheduler_kwargs: {{num_decay_steps: {decay}}}"
        patch = [Patch((*HOME, "num_decay_steps"), decay)]
        yield _finding(context, TYPE, f"{schedule} needs num_decay_steps", late, fix, patch)
    rate = context.value(RATE)
    for name, most in (("min_lr", rate), ("min_lr_rate", 1), ("min_lr_ratio", 1)):
        lowest = arguments.get(name)
        if name in schedules()[1].get(schedule, ()) and _number(lowest) and _number(most) and lowest > most:  # type: ignore[operator]
            message = f"{name} {lowest:g} is above {f'learning_rate {rate:g}' if most is rate else '1'}"
            why = "the learning rate would rise instead of fall"
            better = float(most) / 10  # type: ignore[arg-type]
            fix, patch = f"lr_scheduler_kwargs: {{{name}: {better:g}}}", [Patch((*HOME, name), better)]
            yield _finding(context, KWARGS, message, why, fix, patch, mistake=False)
    end = arguments.get("lr_end", POLYNOMIAL_END)
    if schedule == "polynomial" and _number(rate) and _number(end) and end >= rate:  # type: ignore[operator]
        message, fix = f"lr_end {end:g} is not below learning_rate {rate:g}", "lr_scheduler_kwargs: {lr_end: 0.0}"
        key = KWARGS if "lr_end" in arguments else TYPE
        yield _finding(context, key, message, late, fix, [Patch((*HOME, "lr_end"), 0.0)])


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_warmup(context: Context) -> Iterator[Finding]:
    warmup = context.value(WARMUP)
    bound = steps_at_most(context) if isinstance(warmup, int | float) and warmup >= 1 else None
    if bound is None or not isinstance(warmup, int | float) or warmup < bound[0]:
        return
    steps = bound[0]
    tenth = max(1, steps // 10)
    yield _finding(
        context,
        WARMUP,
        f"warmup_steps is {warmup}, but the run ends after {steps} steps",
        f"the learning rate never reaches learning_rate; steps: {bound[1]}",
        f"warmup_steps: {tenth if steps > 1 else 0}",
        [Patch(("training", "warmup_steps"), tenth if steps > 1 else 0)],
        mistake=False,
    )
