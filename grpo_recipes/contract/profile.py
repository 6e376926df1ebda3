"""The columns that `grpo-run profile` adds to rows, and the model and settings that they describe."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from grpo_recipes.contract.plan import Plan

RATES = ("pass_rate", "reward_mean", "reward_std")
PROFILE = "profile"
ASKED = "asked"
"""The digest in PROFILE of everything that determines a row's rates."""
OTHER = "the rows were profiled with a different model or chat template, so pass_rate is not this model's"
OF_A_SERVER = "of a server"
_SHOWN = 12
# Paths, and how much of a model is used: the answer to a row does not depend on them.
_PLACES = ("path", "max_rows", "rows", "source", "format", "revision")
_GENERATION = ("seed", "max_completion_length", "max_tool_calling_iterations", "chat_template_kwargs")


def profile_of(plan: Plan, served: str | None = None) -> dict[str, object]:
    """The column PROFILE for all rows of a plan; its evaluation says how they are answered.

    served: the model that a server used instead of the plan's, which may be a different one.
    """
    how = plan.evaluation
    assert how is not None
    arguments = plan.arguments
    generation = {name: arguments.GRPOConfig.get(name) for name in _GENERATION}
    own_template = plan.tokenizer.chat_template_path is not None
    model, template = (_model(plan), _template(plan)) if served is None else (served, OF_A_SERVER)
    weights = [_model(plan), plan.expect.weights_dtype, arguments.BitsAndBytesConfig, plan.tokenizer.add_tokens]
    asked = {
        "model": weights if served is None else [served],
        "template": plan.tokenizer.chat_template_sha256 if own_template else None,
        "data": [plan.data.sha256 or plan.data.commit or plan.data.path, _content(asdict(plan.data))],
        "judged_by": [
            _content([asdict(reward) for reward in plan.rewards]),
            asdict(how.passes) if how.passes else None,
        ],
        "turns": _content(
            [
                [asdict(tool) for tool in plan.tools],
                asdict(plan)["environment_class"],
                *([] if not plan.environment_classes else [asdict(plan)["environment_classes"]]),
            ]
        ),
        "generation": [how.samples, how.generated_by, how.sampling, how.max_prompt_length, generation],
        "ends": [plan.expect.stop, plan.expect.stop_token_ids],
    }
    words = {**{name: value for name, value in how.sampling.items() if value is not None}, **generation}
    return {
        "model": model,
        "template": template,
        "samples": how.samples,
        "sampling": " ".join(
            f"{name}={words[name]}" for name in ("temperature", "top_p", "top_k", "seed") if name in words
        ),
        ASKED: hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:_SHOWN],
    }


def other_profile(plan: Plan, row: Mapping[str, Any] | None) -> list[str]:
    """Differences between a plan's model and chat template and those that a row was profiled with, one per line.

    Empty for a row without a profile; values that only one side knows are not compared.
    """
    recorded = profile_in_row(row or {})
    if recorded is None:
        return []
    pairs = [("model", _model(plan)), ("chat template", _template(plan))]
    known = [(what, recorded.get(what.rpartition(" ")[2]), now) for what, now in pairs]
    return [f"{what} {old} then, {now} now" for what, old, now in known if old and now and old != now]


def profile_in_row(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The profile in the column PROFILE of a row; None without one, or if the user's own data has such a column."""
    value = row.get(PROFILE)
    return value if isinstance(value, Mapping) and isinstance(value.get(ASKED), str) else None


def _model(plan: Plan) -> str | None:
    """The commit or digest of the policy's initial weights, shortened; None if unknown."""
    own, ancestor = plan.model.commit or plan.model.sha256, plan.ancestor
    if ancestor is None or ancestor.use == "weights" or own is None:
        return own and own[:_SHOWN]
    adapter = ancestor.commit or ancestor.weights_sha256
    return adapter and hashlib.sha256(f"{own} {adapter}".encode()).hexdigest()[:_SHOWN]


def _template(plan: Plan) -> str | None:
    known = plan.tokenizer.chat_template_sha256
    return known and known[:_SHOWN]


def _content(value: Any) -> Any:
    """A part of a plan without paths; digests are kept."""
    if isinstance(value, dict):
        return {name: _content(inner) for name, inner in value.items() if name not in _PLACES}
    return [_content(inner) for inner in value] if isinstance(value, list | tuple) else value
