"""What a plan does not know before a launch: the content of large folders, and the commits that the hub has now."""

import dataclasses
import os
from dataclasses import replace
from typing import TypeVar

from grpo_recipes.errors import Refusal
from grpo_recipes.facts.digests import folder_content
from grpo_recipes.facts.model_config import cached_commit
from grpo_recipes.lock.hub import hub_commit
from grpo_recipes.plan import Data, Model, Plan, Reward

Part = TypeVar("Part", Data, Reward)


def completed(plan: Plan, *, is_pinned: bool = False) -> Plan:
    """The plan with the digest of each folder, the commit of each hub id as far as it can be known, and with what
    the worker must find. Reads folders whole, and asks the hub unless this is switched off.

    is_pinned: a commit that the plan has stays, whatever the hub has by now.
    Raises Refusal for a file that cannot be read.
    """
    try:
        whole = _whole(plan, is_pinned)
    except OSError as problem:
        raise Refusal(f"{problem.filename} cannot be read\n  = because: {problem.strerror or problem}") from None
    return replace(whole, verified={**expected(whole), **plan.verified})


def _whole(plan: Plan, is_pinned: bool) -> Plan:
    evaluation = plan.evaluation
    return replace(
        plan,
        model=_model(plan.model, is_pinned),
        data=_data(plan.data, is_pinned),
        evaluation=None if evaluation is None else replace(evaluation, data=_data(evaluation.data, is_pinned)),
        rewards=tuple(_folder(reward, reward.kind == "model") for reward in plan.rewards),
    )


def expected(plan: Plan) -> dict[str, object]:
    """What the worker must find, by the keys of worker/verified.py, as far as the plan knows it for certain."""
    held_out = None if plan.evaluation is None else plan.evaluation.data.rows
    own_template = plan.tokenizer.chat_template_path is None
    known = {
        "dataset.rows": plan.data.rows,
        "evaluation.rows": held_out,
        # add_tokens trains a copy of the model, which has no commit
        "model.commit": None if plan.tokenizer.add_tokens else plan.model.commit,
        # which of a model's own templates is taken is its tokenizer's choice
        "chat_template": None if own_template else plan.tokenizer.chat_template_sha256,
    }
    return {key: value for key, value in known.items() if value is not None}


def _model(model: Model, is_pinned: bool) -> Model:
    if model.source == "hub":
        known = model.commit if is_pinned else None
        return replace(model, commit=known or _commit(model.path, model.revision, "models"))
    content = folder_content(model.path) if model.sha256 is None and os.path.isdir(model.path) else None
    return model if content is None else replace(model, sha256=content.sha256, files=content.files)


def _data(data: Data, is_pinned: bool) -> Data:
    if data.source == "hub":
        known = data.commit if is_pinned else None
        return replace(data, commit=known or _commit(data.path, data.revision, "datasets"))
    return _folder(data, data.source == "folder")


def _folder(part: Part, is_folder: bool) -> Part:
    if not is_folder or part.sha256 is not None or part.path is None or not os.path.isdir(part.path):
        return part
    content = folder_content(part.path)
    return part if content is None else dataclasses.replace(part, sha256=content.sha256)


def _commit(name: str, revision: str | None, kind: str) -> str | None:
    """The commit of a revision: it is one itself, or the hub says, or the local cache of the hub does."""
    known = cached_commit(name, revision, kind)
    return known if known is not None and known == revision else hub_commit(name, revision, kind) or known
