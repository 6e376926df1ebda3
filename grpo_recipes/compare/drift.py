"""What is different now from when a plan was made: line by line, the experiment and then the machine."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.plan import Data, Model, Plan, Reward
from grpo_recipes.contract.plan_sections import Ancestor, weights_sha256
from grpo_recipes.lock.places import Places, Read, data_reader, digest_or_none
from grpo_recipes.lock.read_lock import Lock
from grpo_recipes.stack.stack import PACKAGES, from_json_value
from grpo_recipes.trust.user_code import UserFile, user_files, with_changed
from grpo_recipes.user_files.ancestor import StartingPoint, read_ancestor
from grpo_recipes.user_files.digests import file_content, folder_content, text_content
from grpo_recipes.user_files.model_config import cached_snapshot

State = Literal["same", "differs", "cannot be verified"]
Kind = Literal["experiment", "machine", "bookkeeping"]
MISSING = "missing"
WORLD = ("world.num_processes", "world.device", "distributed.strategy")


@dataclass(frozen=True, slots=True)
class DriftLine:
    """One thing that is compared. old, new: what it was and is, None where it is not known. why: more about it."""

    what: str
    state: State
    old: object
    new: object
    kind: Kind
    why: str = ""


def changes_the_experiment(lines: Iterable[DriftLine]) -> bool:
    """Whether something of the experiment is another one."""
    return any(line.state == "differs" and line.kind == "experiment" for line in lines)


def drift(lock: Lock, new: Plan | None, places: Places) -> list[DriftLine]:
    """All lines for the plan of a lock and the same recipe planned now.

    new: None where the recipe is refused on this stack, and nothing but the files can be compared.
    """
    now = reread(lock.plan, places) if new is None else _in_the_same_way(lock.plan, new, places)
    lines = [_noting(line, places) for line in _contents(lock.plan, now)]
    if new is None:
        return lines
    return [*lines, *_values(lock.plan, now, lines), *_machine(lock.plan, new)]


def _in_the_same_way(old: Plan, new: Plan, places: Places) -> Plan:
    """The new plan with digests of its data folders that are made as those of the old plan."""
    read = data_reader(old)

    def again(part: str, data: Data) -> Data:
        place = places.found.get(part)
        return data if data.source != "folder" or place is None else replace(data, sha256=digest_or_none(read, place))

    if old.made_by.get("digests") == new.made_by.get("digests"):
        return new
    evaluation = new.evaluation
    if evaluation is not None:
        part = "evaluation" if "evaluation" in places.found else "dataset"
        evaluation = replace(evaluation, data=again(part, evaluation.data))
    return replace(new, data=again("dataset", new.data), evaluation=evaluation)


def reread(plan: Plan, places: Places) -> Plan:
    """The plan with what its files contain now; None for what is not there."""

    def digest(part: str, read: Read) -> str | None:
        return digest_or_none(read, places.found[part]) if part in places.found else None

    def reread_data(part: str, data: Data) -> Data:
        read = file_content if data.source == "file" else data_reader(plan)
        return data if data.source in ("hub", "made") else replace(data, sha256=digest(part, read))

    model, tokenizer, evaluation = plan.model, plan.tokenizer, plan.evaluation
    if model.source == "folder":
        model = replace(model, sha256=digest("model", folder_content), files={})
    if tokenizer.chat_template_path is not None:
        tokenizer = replace(tokenizer, chat_template_sha256=digest("chat template", text_content))
    if evaluation is not None:
        part = "evaluation" if {"evaluation"} & (places.found.keys() | places.missing.keys()) else "dataset"
        evaluation = replace(evaluation, data=reread_data(part, evaluation.data))
    ancestor = plan.ancestor
    if ancestor is not None and ancestor.source == "folder":
        place = places.found.get("ancestor")
        found = None if place is None else read_ancestor(place, os.curdir)
        held = weights_in(found.weights) if isinstance(found, StartingPoint) else None
        ancestor = replace(ancestor, weights_sha256=held)
    data, rewards = reread_data("dataset", plan.data), []
    for reward in plan.rewards:
        is_folder = reward.kind == "model" and reward.path is not None
        now = digest(f"rewards.{reward.name}", folder_content) if is_folder else reward.sha256
        rewards.append(replace(reward, sha256=now))
    again = replace(
        plan,
        model=model,
        tokenizer=tokenizer,
        data=data,
        evaluation=evaluation,
        rewards=tuple(rewards),
        ancestor=ancestor,
    )
    return with_changed(again, lambda file: {"sha256": digest(file.part, file_content)})


def weights_in(folder: str) -> str | None:
    """The digest of the weights in a folder, None where it cannot be read."""
    try:
        content = folder_content(folder)
    except OSError:
        return None
    return None if content is None else weights_sha256(content.files)


def _contents(old: Plan, new: Plan) -> Iterator[DriftLine]:
    """Model, chat template, data, rewards and tools, by what is in them."""
    yield _model(old.model, new.model)
    if old.ancestor is not None:
        yield _ancestor(old.ancestor, new.ancestor)
    template = (old.tokenizer.chat_template_sha256, new.tokenizer.chat_template_sha256)
    yield _line("chat template", *template, "experiment")
    yield _data("dataset", old.data, new.data, "experiment")
    if old.evaluation is not None and new.evaluation is not None:
        yield _data("evaluation", old.evaluation.data, new.evaluation.data, "bookkeeping")
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
    why = "" if old.path else f"{old.target}: a reward model of the hub is loaded as it is by then"
    return _line(f"rewards.{old.name}", old.sha256, new.sha256, "experiment", why)


def _code(old: UserFile, new: UserFile) -> DriftLine:
    was, now = old.digests, new.digests
    changed = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    shown = changed[0] if changed else next(iter(was))
    why = f"in {', '.join(changed[:4])}" if changed else old.target
    return DriftLine(old.part, "differs" if changed else "same", was.get(shown), now.get(shown), "experiment", why)


def _hub(line: DriftLine, name: str, kind: str) -> DriftLine:
    """A commit that is pinned is loaded; whether it is to be had is known of the local cache alone."""
    if line.old is None:
        return replace(line, state="cannot be verified", why=f"the plan knows no commit of {name}")
    if line.old != line.new:
        return replace(line, state="differs")
    if cached_snapshot(name, str(line.old), kind) is not None:
        return line
    return replace(line, state="cannot be verified", why="not in the local cache of the hub, which is asked for it")


def _noting(line: DriftLine, places: Places) -> DriftLine:
    """The line with where a file is missing, or has another original than the copy that is taken."""
    if line.what in places.missing and line.new is None:
        return replace(line, state="differs", new=MISSING, why=f"it was {places.missing[line.what]}")
    if line.what in places.changed and line.state == "same":
        return replace(line, why=f"the run folder's copy; {places.changed[line.what]} is another one now")
    return line


_OF_CONTENT = ("path", "source", "sha256", "weights_sha256", "commit", "format", "imports", "target")


def _is_told(key: str, lines: Iterable[DriftLine]) -> bool:
    """Whether the line of a part says a difference already."""
    if key == "tokenizer.chat_template":
        return True
    for line in lines:
        if key.startswith(f"{line.what}."):
            name = key.removeprefix(f"{line.what}.").partition(".")[0]
            return name in _OF_CONTENT or (name == "revision" and line.state == "differs")
    return False


def _values(old: Plan, new: Plan, lines: Sequence[DriftLine]) -> Iterator[DriftLine]:
    """The seed, and every other value of the experiment that differs."""
    found = differences(old, new).experiment
    seed = next((one for one in found if one.key == "seed"), None)
    was = next((row.value for row in old.settings if row.recipe_key == "seed" or row.key == "GRPOConfig.seed"), None)
    yield _line("seed", was, was if seed is None else seed.b, "experiment")
    others = [one for one in found if one.key != "seed" and not _is_told(one.key, lines)]
    for one in others:
        yield DriftLine(one.key, "differs", one.a, one.b, "experiment", one.why)
    if not others:
        yield DriftLine("other values", "same", None, None, "experiment")


def _machine(old: Plan, new: Plan) -> Iterator[DriftLine]:
    """The world, the packages, the GPUs and what follows from them; then grpo-recipes itself."""
    yield _line("world", _world(old), _world(new), "machine")
    found = [one for one in differences(old, new).machine if one.key not in WORLD]
    python = _line("python", old.stack.get("python"), new.stack.get("python"), "machine")
    if python.state != "same":
        yield python
    known = from_json_value(new.stack)
    for one in found:
        is_unknown = one.b is None and one.key in PACKAGES and not known.is_known(one.key)
        yield DriftLine(one.key, "cannot be verified" if is_unknown else "differs", one.a, one.b, "machine", one.why)
    if not found:
        yield DriftLine("packages and GPUs", "same", None, None, "machine")
    for part, what in (("rules", "rules and facts"), ("worker", "what trains")):
        yield _line(what, old.made_by.get(part), new.made_by.get(part), "machine", _versions(old, new))


def _versions(old: Plan, new: Plan) -> str:
    was, now = old.grpo_recipes, new.grpo_recipes
    return f"grpo-recipes {was}" + ("" if was == now else f" -> {now}")


def _world(plan: Plan) -> str:
    world = plan.world
    processes = f"{world.num_processes} process{'' if world.num_processes == 1 else 'es'}"
    return f"{processes} on {world.device}, {world.strategy}"
