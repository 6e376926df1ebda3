"""Compares a plan with the present, line by line: first the experiment, then the machine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.plan import Data, Model, Plan, Reward
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.lock.read_lock import Lock, Places
from grpo_recipes.stack.stack import PACKAGES, from_json_value
from grpo_recipes.trust.user_code import UserFile, user_files
from grpo_recipes.user_files.model_config import snapshot_in_cache

State = Literal["same", "differs", "cannot be verified"]
Kind = Literal["experiment", "machine", "bookkeeping"]
MISSING = "missing"
WORLD = ("world.num_processes", "world.device", "distributed.strategy")


@dataclass(frozen=True, slots=True)
class DriftLine:
    """One compared item. old, new: its values, None if unknown. why: further explanation."""

    what: str
    state: State
    old: object
    new: object
    kind: Kind
    why: str = ""


def changes_the_experiment(lines: Iterable[DriftLine]) -> bool:
    """Whether anything about the experiment has changed."""
    return any(line.state == "differs" and line.kind == "experiment" for line in lines)


def drift(lock: Lock, new: Plan | None, places: Places) -> list[DriftLine]:
    """All lines for the plan of a lock and the same recipe planned now.

    new: None if the recipe is refused on this stack; then only missing files are listed.
    """
    if new is None:
        return [
            DriftLine(
                part,
                "differs",
                None,
                MISSING,
                "bookkeeping" if part.startswith("evaluation") else "experiment",
                f"it was {path}",
            )
            for part, path in places.missing.items()
        ]
    lines = [_noting(line, places) for line in _contents(lock.plan, new)]
    return [*lines, *_values(lock.plan, new, lines), *_machine(lock.plan, new)]


def _contents(old: Plan, new: Plan) -> Iterator[DriftLine]:
    """Compares model, chat template, data, rewards and tools by content."""
    yield _model(old.model, new.model)
    if old.ancestor is not None:
        yield _ancestor(old.ancestor, new.ancestor)
    template = (old.tokenizer.chat_template_sha256, new.tokenizer.chat_template_sha256)
    yield _line("chat template", *template, "experiment")
    for where, data in old.training_data.items():
        if where in new.training_data:
            yield _data(where, data, new.training_data[where], "experiment")
    if old.evaluation is not None and new.evaluation is not None:
        sets = {part.name: part for part in new.evaluation.sets}
        for of_set in old.evaluation.sets:
            if of_set.name in sets:
                yield _data(of_set.section, of_set.data, sets[of_set.name].data, "bookkeeping")
    rewards = {reward.name: reward for reward in new.rewards}
    for was in old.rewards:
        now = rewards.get(was.name)
        if now is not None and was.kind == now.kind == "model":
            yield _reward(was, now)
    files = {file.part: file for file in user_files(new)}
    for file in user_files(old):
        if file.part in files:
            yield _code(file, files[file.part])


def _line(what: str, old: object, new: object, kind: Kind, why: str = "") -> DriftLine:
    state: State = "cannot be verified" if old is None or new is None else "same" if old == new else "differs"
    return DriftLine(what, state, old, new, kind, why)


def _model(old: Model, new: Model) -> DriftLine:
    if old.source != new.source or (old.source == "hub" and old.path != new.path):
        return DriftLine("model", "differs", old.path, new.path, "experiment")
    if old.source == "hub":
        return _hub(DriftLine("model", "same", old.commit, new.commit, "experiment"), old.path, "models")
    both = dict.fromkeys([*old.files, *new.files]) if old.files and new.files else {}
    changed = [name for name in both if old.files.get(name) != new.files.get(name)]
    return _line("model", old.sha256, new.sha256, "experiment", f"in {', '.join(changed[:4])}" if changed else "")


def _ancestor(old: Ancestor, new: Ancestor | None) -> DriftLine:
    why = f"the trained weights of {old.name}"
    if old.source == "hub":
        return _line("ancestor", old.commit, None if new is None else new.commit, "experiment", why)
    return _line("ancestor", old.weights_sha256, None if new is None else new.weights_sha256, "experiment", why)


def _data(what: str, old: Data, new: Data, kind: Kind) -> DriftLine:
    if old.source != new.source or (old.source == "hub" and old.path != new.path):
        return DriftLine(what, "differs", old.path, new.path, kind)
    if old.source == "hub":
        return _hub(DriftLine(what, "same", old.commit, new.commit, kind), old.path, "datasets")
    both_counted = old.rows is not None and new.rows is not None and old.rows != new.rows
    return _line(what, old.sha256, new.sha256, kind, f"{old.rows} -> {new.rows} rows" if both_counted else "")


def _reward(old: Reward, new: Reward) -> DriftLine:
    why = "" if old.path else f"{old.target}: a reward model of the hub is loaded in its current version"
    return _line(f"rewards.{old.name}", old.sha256, new.sha256, "experiment", why)


def _code(old: UserFile, new: UserFile) -> DriftLine:
    was, now = old.digests, new.digests
    changed = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    shown = changed[0] if changed else next(iter(was))
    why = f"in {', '.join(changed[:4])}" if changed else old.target
    return DriftLine(old.part, "differs" if changed else "same", was.get(shown), now.get(shown), "experiment", why)


def _hub(line: DriftLine, name: str, kind: str) -> DriftLine:
    """A pinned commit is loaded; only the local cache shows whether it is available."""
    if line.old is None:
        return replace(line, state="cannot be verified", why=f"the plan knows no commit of {name}")
    if line.old != line.new:
        return replace(line, state="differs")
    if snapshot_in_cache(name, str(line.old), kind) is not None:
        return line
    return replace(line, state="cannot be verified", why="not in the local cache; a run downloads it from the hub")


def _noting(line: DriftLine, places: Places) -> DriftLine:
    """The line, with a note if an original differs from the copy that is used."""
    if line.what in places.changed and line.state == "same":
        return replace(line, why=f"the run folder's copy; {places.changed[line.what]} has changed since")
    return line


_OF_CONTENT = ("path", "source", "sha256", "weights_sha256", "commit", "format", "imports", "target")


def _is_told(key: str, lines: Iterable[DriftLine]) -> bool:
    """Whether the line of a part already reports a difference."""
    if key == "tokenizer.chat_template":
        return True
    for line in lines:
        if key.startswith(f"{line.what}."):
            name = key.removeprefix(f"{line.what}.").partition(".")[0]
            return name in _OF_CONTENT or (name == "revision" and line.state == "differs")
    return False


def _values(old: Plan, new: Plan, lines: Sequence[DriftLine]) -> Iterator[DriftLine]:
    """Compares the seed, and every other value of the changes."""
    changes = differences(old, new).experiment
    seed = next((change for change in changes if change.key == "seed"), None)
    was = next((row.value for row in old.settings if row.recipe_key == "seed" or row.key == "GRPOConfig.seed"), None)
    yield _line("seed", was, was if seed is None else seed.b, "experiment")
    others = [change for change in changes if change.key != "seed" and not _is_told(change.key, lines)]
    for change in others:
        yield DriftLine(change.key, "differs", change.a, change.b, "experiment", change.why)
    if not others:
        yield DriftLine("other values", "same", None, None, "experiment")


def _machine(old: Plan, new: Plan) -> Iterator[DriftLine]:
    """Compares the world, packages, GPUs and derived values; then grpo-recipes itself."""
    yield _line("world", _world(old), _world(new), "machine")
    rows = [row for row in differences(old, new).machine if row.key not in WORLD]
    python = _line("python", old.stack.get("python"), new.stack.get("python"), "machine")
    if python.state != "same":
        yield python
    known = from_json_value(new.stack)
    for row in rows:
        is_unknown = row.b is None and row.key in PACKAGES and not known.is_known(row.key)
        yield DriftLine(row.key, "cannot be verified" if is_unknown else "differs", row.a, row.b, "machine", row.why)
    if not rows:
        yield DriftLine("packages and GPUs", "same", None, None, "machine")
    for part, what in (("rules", "rules and facts"), ("worker", "training code")):
        yield _line(what, old.made_by.get(part), new.made_by.get(part), "machine", _versions(old, new))


def _versions(old: Plan, new: Plan) -> str:
    was, now = old.grpo_recipes, new.grpo_recipes
    return f"grpo-recipes {was}" + ("" if was == now else f" -> {now}")


def _world(plan: Plan) -> str:
    world = plan.world
    processes = f"{world.num_processes} process{'' if world.num_processes == 1 else 'es'}"
    return f"{processes} on {world.device}, {world.strategy}"
