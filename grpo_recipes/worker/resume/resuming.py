"""From where a run goes on: the newest whole checkpoint, if it is one of this run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.integrity.checkpoints import judged_checkpoints, strange_pickles
from grpo_recipes.contract.integrity.manifest import WITHOUT_DIGESTS, Manifest, NotWhole, faults, refuse, stated
from grpo_recipes.contract.integrity.seal import SOMEBODY_ELSE, NoKey, allowed_digests, user_key
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.checkpoints.checkpoint import installed

Found = TypeVar("Found")
_SHOWN = 6
LENGTHS = ("GRPOConfig.max_steps", "GRPOConfig.num_train_epochs")
# A longer run has more episodes of the same sequence.
_EPISODES = ("data.made.episodes", "data.rows")


def checkpoint_to_resume(folder: Path, plan: Plan, *, contents: bool = True) -> tuple[Path | None, list[str]]:
    """The checkpoint that --resume goes on from, None to begin anew; with what has to be said of it.

    contents: its files are read and compared with their digests, which one process does for all; the others follow
    agreed. Raises Refused where there are checkpoints and none is whole, where the run has become another
    one, and where reading a checkpoint would run code of somebody else.
    """
    skipped: list[tuple[str, str]] = []
    for judged in judged_checkpoints(folder / "checkpoints", contents=contents):
        checkpoint, manifest = judged.folder, judged.manifest
        if manifest is not None:
            said = _of_this_run(checkpoint, manifest, folder, plan, contents=contents)
            left_out = [f"skipped {name}: {reason}" for name, reason in skipped]
            return checkpoint, [*left_out, *said, f"resumed from {checkpoint.name}"]
        skipped.append((checkpoint.name, str(judged.reason)))
    if skipped:
        raise Refused.of(
            "none of the checkpoints is whole, so there is nothing to go on from",
            because=[f"{name}: {reason}" for name, reason in skipped],
            fix=f"bring one back, or remove {folder / 'checkpoints'} and begin anew with --resume",
        )
    return None, ["no checkpoint was written yet: the training begins anew"]


def checkpoint_to_extend(folder: Path, plan: Plan, *, contents: bool = True) -> tuple[Path, list[str]]:
    """The checkpoint of the run that this one makes longer, with what has to be said of it. Nothing there is changed.

    contents: as for checkpoint_to_resume. Raises Refused where it is not whole, not the one of the plan, or not of the
    same run but for its length.
    """
    assert plan.extends is not None
    checkpoint = Path(plan.extends.path)
    try:
        manifest = stated(checkpoint)
        refuse(faults(checkpoint, manifest.files, contents=contents))
    except NotWhole as problem:
        raise Refused.of(
            f"{checkpoint} of {plan.extends.name} is not whole, and the run goes on from there",
            because=str(problem),
            fix="bring it back, or make the run longer once more",
        ) from problem
    digests = {name: digest.sha256 for name, digest in manifest.files.items() if digest.sha256 is not None}
    if digests != plan.extends.files:
        raise Refused.of(f"{checkpoint} is another checkpoint than when the plan was made", fix="plan again")
    besides = LENGTHS if plan.data.made is None else (*LENGTHS, *_EPISODES)
    said = _of_this_run(checkpoint, manifest, folder, plan, contents=contents, besides=besides)
    return checkpoint, [*said, f"makes {plan.extends.name} longer, from {checkpoint.name}"]


def agreed(found: Found) -> Found:
    """What the first rank found, such as a whole checkpoint; all ranks call it once they have found each other."""
    from accelerate.utils import broadcast_object_list

    of_first: list[Found] = broadcast_object_list([found], from_process=0)
    return of_first[0]


def why_unsigned() -> str | None:
    """Why what this run writes tells nobody that this user wrote it, None where it does."""
    try:
        user_key(make=True)
    except NoKey as problem:
        return f"checkpoints are not signed, so --resume may ask for --allow-code: {problem}"
    return None


def _of_this_run(
    checkpoint: Path, manifest: Manifest, folder: Path, plan: Plan, *, contents: bool, besides: tuple[str, ...] = ()
) -> list[str]:
    """What has to be said of a checkpoint that the run goes on from. Raises Refused where it may not.

    besides: values of the plan that may be others.
    """
    name, count, planned = checkpoint.name, manifest.world_size, plan.expect.world_size
    if count != planned:
        raise Refused.of(
            f"{name} was written by {_processes(count)}, the plan has {_processes(planned)}",
            because="each process has a part of its own in a checkpoint",
            fix=f"go on with {count}, or begin anew in another folder",
        )
    said = _other_experiment(name, manifest, folder, is_accepted=plan.accept_drift, besides=besides)
    now = installed()
    others = [
        f"{package} {was} -> {now[package]}"
        for package, was in manifest.stack.items()
        if package in now and was != now[package]
    ]
    if others:
        said.append(f"another stack than that of {name}, so not bit for bit the same run: {', '.join(others)}")
    if contents and manifest.format == WITHOUT_DIGESTS:
        said.append(
            f"{name} carries no content hashes, of an older grpo-run: only the sizes of its files were compared"
        )
    if contents:
        _refuse_strange_pickles(checkpoint, manifest)
    return said


def _refuse_strange_pickles(checkpoint: Path, manifest: Manifest) -> None:
    """Raises Refused for files that may run code when they are read and that this user neither wrote nor allowed."""
    found = strange_pickles(checkpoint, manifest)
    if found is None or found[1] in allowed_digests():
        return
    names, sha256 = found
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise Refused.of(
        f"{checkpoint.name} was not written by you, and reading it may run code",
        because=f"{', '.join(names[:_SHOWN])}{more} are pickles, {_signed(manifest)}",
        fix=f"if you trust who wrote them, grpo-run {checkpoint.parents[1]} --resume --allow-code {sha256}",
    )


def _signed(manifest: Manifest) -> str:
    """Why nobody knows that this user wrote it."""
    try:
        key = user_key(make=False)
    except NoKey as problem:
        return f"and there is no key of yours to tell: {problem}"
    what = "signature is not" if manifest.signer == SOMEBODY_ELSE else "manifest has no signature"
    return f"and its {what} of your key {key.id}"


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def _other_experiment(
    name: str, manifest: Manifest, folder: Path, *, is_accepted: bool, besides: tuple[str, ...]
) -> list[str]:
    """What is said of a different experiment that was accepted. Raises Refused for one that was not."""
    was, now = (
        {key: value for key, value in values.items() if key not in besides}
        for values in (manifest.experiment, experiment(folder))
    )
    differences = list(changed(was, now))
    if not differences:
        return []
    more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    text = f"{'; '.join(differences[:_SHOWN])}{more}"
    if is_accepted:
        return [f"a different experiment than that of {name}, which was accepted: {text}"]
    raise Refused.of(
        f"plan.json is not what it was when {name} was written",
        because=text,
        fix="bring the old plan.json back, or begin anew in another folder",
    )


# What of plan.json decides the weights, so that a run goes on as the one that it was.


# Of world, model, data and rewards: what says where something lies, and not what it is.
_PLACES = ("path", "engine", "num_nodes", "main_process_ip", "main_process_port", "files")
# Of GRPOConfig: what is written and told while it trains. The planner sets these; no setting says their kind.
_TOLD = ("save_strategy", "eval_strategy", "report_to", "run_name", "disable_tqdm")
_MADE_WITH = ("tools", "environment_class", "rollout")
_WHOLE = ("tokenizer", "shims", "deepspeed", "data", "rewards", "world", "model", "vllm", *_MADE_WITH)


def experiment(folder: Path) -> dict[str, Any]:
    """The values of a run folder's plan.json that decide its weights, by their names in it."""
    content = cast("dict[str, Any]", read_json(folder, "plan.json"))
    settings = content.get("settings", [])
    bookkeeping = {row["key"] for row in settings if row.get("kind") == "bookkeeping"}
    found: dict[str, Any] = {}
    for taker, values in content["arguments"].items():
        named = values.items() if isinstance(values, dict) else [("", values)]
        for key, value in named:
            name = f"{taker}.{key}".rstrip(".")
            if name not in bookkeeping and not (taker == "GRPOConfig" and key in _TOLD):
                found[name] = value
    for part in _WHOLE:
        found |= _flat(part, content.get(part))
    for part in ("stop", "stop_token_ids"):
        found |= _flat(f"expect.{part}", content["expect"].get(part))
    return found


def _flat(name: str, value: Any) -> dict[str, Any]:
    """One entry for each value below a name; what lies elsewhere and has a digest is named by that."""
    if isinstance(value, list):
        value = {str(place): one for place, one in enumerate(value)}
    if not isinstance(value, dict):
        return {name: value}
    is_known = value.get("sha256") is not None or name == "world"
    found: dict[str, Any] = {}
    for key, one in value.items():
        if not (is_known and key in _PLACES):
            found |= _flat(f"{name}.{key}", one)
    return found


def changed(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What is not as it was: `GRPOConfig.beta 0.0 -> 0.04`."""
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            yield f"{name} {_shown(was.get(name))} -> {_shown(now.get(name))}"


def _shown(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:12]}...{text[-12:]}"
