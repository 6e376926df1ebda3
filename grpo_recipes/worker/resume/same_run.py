"""What of plan.json decides the weights, so that a run goes on as the one that it was."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import read_json

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
