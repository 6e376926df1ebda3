"""The package reasoning_gym has each task of `dataset.reasoning_gym`, and accepts its configuration.

The package raises ValueError for an unknown task and TypeError for an unknown key, when it generates the rows; a value
of the wrong type raises partway through, or generates different rows. The rule knows the names, keys and types of the
tested release, and does not check what other releases add. The package itself checks which values a task allows, when
preflight or a launch generates the rows.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, Severity
from grpo_recipes.contract.findings.wording import flow, nearest_words
from grpo_recipes.contract.tasks import PACKAGE
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.plain_values import WORDS, expected_type
from grpo_recipes.rules._shared.training_rows import makes_rows

ID = "DAT010"
SECTION = ("dataset", "reasoning_gym")


def check(context: Context) -> Iterator[Finding]:
    if not makes_rows(context):
        return
    name, config = context.value(f"{'.'.join(SECTION)}.name"), context.mapping(f"{'.'.join(SECTION)}.config")
    listed = context.items(f"{'.'.join(SECTION)}.tasks")
    if (name is None) == (not listed):
        message = "both name and tasks" if listed else "neither name nor tasks"
        yield _finding(
            context, SECTION, f"dataset.reasoning_gym has {message}", "it takes one task or a list of tasks", None
        )
        return
    if listed and config:
        because = "each item of tasks has its own config"
        yield _finding(context, (*SECTION, "config"), "config is for one task, but there are several", because, None)
    if not listed:
        yield from _task(context, SECTION, str(name), config)
    names = [task.get("name") for task in listed]
    for index, task in enumerate(listed):
        path = (*SECTION, "tasks", index)
        fault = _fault(task, names[:index])
        if fault is not None:
            yield _finding(
                context, path, f"tasks[{index}] {fault}", "a task is {name: ..., weight: 1, config: {...}}", None
            )
        else:
            yield from _task(context, path, task["name"], task.get("config") or {})


def _fault(task: Mapping[str, object], before: list[object]) -> str | None:
    """The mistake in one of several tasks."""
    weight, more = task.get("weight", 1), sorted(set(task) - {"name", "weight", "config"})
    if more:
        return f"has an unknown key {more[0]}"
    if not isinstance(task.get("name"), str):
        return "has no name"
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
        return f"has weight {flow(weight)}, which is not a number above 0"
    if not isinstance(task.get("config", {}), dict):
        return f"has config {flow(task['config'])}, which is not a map"
    return f"repeats {task['name']}, which the package allows only once" if task["name"] in before else None


def _task(context: Context, path: Path, name: str, config: Mapping[str, object]) -> Iterator[Finding]:
    from grpo_recipes.facts.released import history as facts

    installed = context.stack.version(PACKAGE)
    is_other = installed not in (None, facts.gym_release())
    of = f"{PACKAGE} {facts.gym_release()}"
    known = facts.config_keys(name)
    if known is None:
        near = nearest_words(name, facts.task_names(), cutoff=0.6)
        fix = f"name: {near[0]}" if near else "grpo-run explain reasoning_gym lists the tasks"
        patch = [Patch((*path, "name"), near[0])] if near else []
        yield _or_not_checked(context, (*path, "name"), f"{of} has no task {name}", fix, patch, is_other)
        return
    for key, value in config.items():
        key_path = (*path, "config", key)
        if key in ("seed", "size"):
            because = f"all tasks use the {key} of dataset.reasoning_gym"
            yield _finding(context, key_path, f"config of {name} cannot set {key}", because, f"remove {key}")
        elif key not in known:
            near = nearest_words(key, [each for each in known if each not in config], cutoff=0.6)
            fix = f"{near[0]}: {flow(value)}" if near else f"one of its keys: {', '.join(known)}"
            patch = [Patch(key_path, remove=True), Patch((*path, "config", near[0]), value)] if near else []
            yield _or_not_checked(context, key_path, f"{name} of {of} has no key {key}", fix, patch, is_other)
        elif (wanted := _type_wanted(known[key].type, value)) is not None:
            fix = f"{key}: {flow(known[key].default)}, the default"
            yield _or_not_checked(context, key_path, f"{name}: {key} is {flow(value)}, not {wanted}", fix, [], is_other)


def _type_wanted(declared: str, value: object) -> str | None:
    """What a value should be, None if it is right or nothing is known; a recipe writes a tuple as a list."""
    is_optional = declared.startswith("Optional[")
    kind = declared.removeprefix("Optional[").partition("[")[0].rstrip("]").replace("tuple", "list")
    return expected_type(kind, value) if value is not None else None if is_optional else WORDS.get(kind)


def _or_not_checked(
    context: Context, path: Path, message: str, fix: str, patch: list[Patch], is_other: bool
) -> Finding:
    """An error, or a note that it was not checked if a different release than the table's is installed."""
    if is_other:
        because = f"{context.stack.version(PACKAGE)} is installed; preflight generates the rows with it"
        return _finding(context, path, f"not checked: {message}", because, None, severity="not-checked")
    return _finding(context, path, message, "the package raises when it generates the rows", fix, patch)


def _finding(
    context: Context,
    path: Path,
    message: str,
    because: str,
    fix: str | None,
    patch: list[Patch] | None = None,
    severity: Severity = "error",
) -> Finding:
    mark = context.source.mark(path)
    key = ".".join(map(str, path[:3]))
    return context.finding(message, key, because, fix=fix, patch=patch or (), severity=severity, mark=mark)
