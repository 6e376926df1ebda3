"""Adds what only a launch determines: the content of large folders, and the current commits on the hub."""

import dataclasses
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.integrity.used_run import check_used_folder, check_used_run, how_to_mend
from grpo_recipes.contract.plan import CODE_OF, Data, Model, Plan, Reward
from grpo_recipes.contract.plan_sections import Ancestor, weights_sha256
from grpo_recipes.contract.tasks.task_rows import NotInstalled, NotMade, make_rows
from grpo_recipes.trust.code import brings_remote_code
from grpo_recipes.user_files.digests import CONFIGURATIONS, data_folder_content, folder_content, repositories_in
from grpo_recipes.user_files.model_config import commit_in_cache, snapshot_in_cache

Part = TypeVar("Part", Data, Reward)


def with_pinned_code(plan: Plan, *, is_pinned: bool = False) -> Plan:
    """The plan with its remote code pinned, before consent is asked: the digest of the model's whole folder or its
    commit, and the commits of the repositories that its configurations name. Other plans are returned unchanged.

    is_pinned: as for `complete_plan`. Raises Refusal for a file that cannot be read.
    """
    if not brings_remote_code(plan):
        return plan
    try:
        model = _model(plan.model, is_pinned)
    except OSError as problem:
        raise Refusal.of(f"{problem.filename} cannot be read", because=str(problem.strerror or problem)) from None
    folder: str | None = model.path
    if model.source == "hub":
        fetch_configurations(model.path, model.commit)
        snapshot = snapshot_in_cache(model.path, model.commit)
        folder = None if snapshot is None else str(snapshot)
    names = {} if model.commit is None else {model.path: model.commit}
    for name in [] if folder is None else repositories_in(folder):
        known = plan.verified.get(f"{CODE_OF}{name}") if is_pinned else None
        commit = known if isinstance(known, str) else _commit(name, None, "models")
        names |= {} if commit is None or name in names else {name: commit}
    return replace(plan, model=model, verified=plan.verified | {f"{CODE_OF}{name}": at for name, at in names.items()})


def complete_plan(plan: Plan, *, is_pinned: bool = False, is_code_pinned: bool = False) -> Plan:
    """The plan with the digest of each folder, the commit of each hub id if it can be determined, and the values that
    the worker must find. Reads whole folders, and queries the hub unless that is disabled.

    is_pinned: keep the plan's commits, whatever the hub has now. is_code_pinned: keep those of remote code. Raises
    Refusal for a file that cannot be read.
    """
    if not is_code_pinned:
        plan = with_pinned_code(plan, is_pinned=is_pinned)
    try:
        whole = _whole(plan, is_pinned)
    except OSError as problem:
        raise Refusal.of(f"{problem.filename} cannot be read", because=str(problem.strerror or problem)) from None
    return replace(whole, verified={**values_to_verify(whole), **plan.verified})


def _whole(plan: Plan, is_pinned: bool) -> Plan:
    evaluation, sources = plan.evaluation, tuple(_data(data, is_pinned) for data in plan.sources)
    if plan.ancestor is None or os.path.dirname(plan.model.path) != plan.ancestor.run:
        _refuse_damaged_folder(plan.model.path)
    return replace(
        plan,
        model=_model(plan.model, is_pinned or brings_remote_code(plan)),
        data=sources[0] if sources else _data(plan.data, is_pinned),
        sources=sources,
        evaluation=None if evaluation is None else evaluation.with_data(lambda part: _data(part.data, is_pinned)),
        rewards=tuple(_folder(reward, reward.kind == "model") for reward in plan.rewards),
        ancestor=None if plan.ancestor is None else _ancestor(plan.ancestor, plan.model),
    )


def values_to_verify(plan: Plan) -> dict[str, object]:
    """The values that the worker must find, by the keys of worker/_shared/verified.py, if the plan knows them for
    certain.
    """
    held_out = () if plan.evaluation is None else plan.evaluation.sets
    own_template = plan.tokenizer.chat_template_path is None
    known = {
        **{f"{where}.rows": data.rows for where, data in plan.training_data.items()},
        **{f"{part.section}.rows": part.data.rows for part in held_out},
        # a copy of the model has no commit
        "model.commit": None if plan.trains_a_copy else plan.model.commit,
        # the tokenizer chooses among a model's own templates
        "chat_template": None if own_template else plan.tokenizer.chat_template_sha256,
    }
    return {key: value for key, value in known.items() if value is not None}


def _model(model: Model, is_pinned: bool) -> Model:
    if model.source == "hub":
        known = model.commit if is_pinned else None
        return replace(model, commit=known or _commit(model.path, model.revision, "models"))
    content = folder_content(model.path) if model.sha256 is None and os.path.isdir(model.path) else None
    return model if content is None else replace(model, sha256=content.sha256, files=content.files)


def _ancestor(ancestor: Ancestor, model: Model) -> Ancestor:
    if ancestor.run is not None:
        _refuse_damaged(ancestor, ancestor.run, model)
    else:
        _refuse_damaged_folder(ancestor.path)
    if ancestor.source == "hub" or ancestor.files:
        return ancestor
    content = folder_content(ancestor.path)
    assert content is not None  # without a limit everything is read
    return replace(ancestor, files=content.files, weights_sha256=weights_sha256(content.files))


def _refuse_damaged(ancestor: Ancestor, run: str, model: Model) -> None:
    """Raises Refusal if the run to start from differs from what was written; reads all of its weights."""
    own, name = os.path.split(model.path)
    fault = check_used_run(Path(run), os.path.relpath(ancestor.path, run), own_model=name if own == run else None).fault
    if fault is not None:
        raise Refusal.of(f"{ancestor.named}: {fault.words}", because=f"it {fault.because}", fix=how_to_mend(fault))


def _refuse_damaged_folder(path: str) -> None:
    """Raises Refusal if a folder differs from its grpo-run manifest; ignores hub ids."""
    fault = check_used_folder(Path(path)).fault if os.path.isdir(path) else None
    if fault is not None:
        raise Refusal.of(f"{path}: {fault.words}", because=f"it {fault.because}", fix=how_to_mend(fault, is_run=False))


def _data(data: Data, is_pinned: bool) -> Data:
    if data.source == "hub":
        known = data.commit if is_pinned else None
        return replace(data, commit=known or _commit(data.path, data.revision, "datasets"))
    if data.made is not None and "reasoning_gym" in data.made:
        return _generate_rows(data, data.made["reasoning_gym"])
    return _folder(data, data.source == "folder")


def _generate_rows(data: Data, made: Any) -> Data:
    """The data with digests of its rows and of their scorers, if the package is installed here. Raises Refusal."""
    try:
        generated = make_rows(made)
    except NotInstalled:
        return data  # a rule reports it for the training machine
    except NotMade as problem:
        raise Refusal.of("the rows of reasoning_gym cannot be generated", because=str(problem)) from None
    known: dict[str, object] = {"reasoning_gym": {**made, "scorers": generated.scorers}}
    return replace(data, sha256=generated.sha256, rows=len(generated.rows), made=known)


def _folder(part: Part, is_folder: bool) -> Part:
    if not is_folder or part.sha256 is not None or part.path is None or not os.path.isdir(part.path):
        return part
    read = data_folder_content if isinstance(part, Data) else folder_content
    content = read(part.path)
    return part if content is None else dataclasses.replace(part, sha256=content.sha256)


def _commit(name: str, revision: str | None, kind: str) -> str | None:
    """The commit of a revision: the revision itself if it is one, or from the hub or its local cache."""
    known = commit_in_cache(name, revision, kind)
    return known if known is not None and known == revision else hub_commit(name, revision, kind) or known


TIMEOUT_S = 5.0


def hub_commit(name: str, revision: str | None, kind: str = "models") -> str | None:
    """The commit of a model or a data set, None if the hub cannot be queried or does not answer.

    kind: "models" or "datasets". Respects the client's settings: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE. Does nothing
    without the client, which comes with the training stack.
    """
    if _is_offline():
        return None  # do not import the slow client only to learn this
    try:
        from huggingface_hub import HfApi
    except ImportError:
        return None
    hub = HfApi()
    ask = hub.model_info if kind == "models" else hub.dataset_info
    try:
        return ask(name, revision=revision, timeout=TIMEOUT_S).sha
    except Exception:  # no network, no such model, no permission: loading it reports which, in the client's own words
        return None


def fetch_configurations(name: str, commit: str | None) -> None:
    """Downloads the small files that show whose code a model runs into the hub's local cache, if possible."""
    if commit is None or _is_offline():
        return
    try:
        from huggingface_hub import snapshot_download

        snapshot_download(name, revision=commit, allow_patterns=list(CONFIGURATIONS), etag_timeout=TIMEOUT_S)
    except Exception:  # the worker stops at code of a repository that was not known before
        return


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
