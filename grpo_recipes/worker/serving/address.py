"""Where the vLLM server of a training is, and whether a server that somebody else runs is the right one."""

import json
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.planned import model_path
from grpo_recipes.worker.serving import health
from grpo_recipes.worker.serving.health import free_port

URL = "GRPO_RUN_VLLM_URL"
_POLL_S = 1.0
# It was up a moment ago.
_TIMEOUT_S = 60.0
# What two models have in common whose weights fit into each other.
_SHAPE = ("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def server_arguments(plan: Plan, fields: Collection[str]) -> dict[str, Any]:
    """The arguments of GRPOConfig that name the run's own server, {} without one. fields: what the release has.

    Raises Refused when it was not started. The port of the group in which weights are handed over is a free one, so
    that two runs on one machine do not meet.
    """
    if plan.vllm is None or plan.vllm.server is None:
        return {}
    url = os.environ.get(URL)
    if url is None:
        raise Refused.of("no vLLM server was started", because=f"{URL} is not set", fix="start with launch.sh")
    host, _, port = url.rpartition("/")[2].rpartition(":")
    named: dict[str, Any] = {"vllm_server_timeout": _TIMEOUT_S}
    if "vllm_server_base_url" in fields:
        named["vllm_server_base_url"] = url
    else:
        named |= {"vllm_server_host": host, "vllm_server_port": int(port)}
    if "vllm_group_port" in fields:
        named["vllm_group_port"] = free_port("")
    return {name: value for name, value in named.items() if name not in plan.arguments.GRPOConfig}


def check_other_server(plan: Plan, arguments: Any, folder: Path) -> str | None:
    """What the server of somebody else serves, None where there is none. arguments: the GRPOConfig.

    TRL takes whatever the server has, and hands the weights over to it. Raises Refused when nobody answers within
    vllm_server_timeout, when it serves another model, or one that is too short for a completion.
    """
    if plan.vllm is None or plan.vllm.mode != "server" or plan.vllm.server is not None:
        return None
    url = getattr(arguments, "vllm_server_base_url", None)
    url = url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
    _wait(url, float(arguments.vllm_server_timeout))
    listed = health.models(url)
    if not listed:
        return f"vLLM server at {url}, which does not say what it serves"
    first = listed[0]
    _refuse_another_model(url, first, model_path(plan, folder))
    length, longest = first.get("max_model_len"), arguments.max_completion_length
    if isinstance(length, int) and length <= longest:
        raise Refused.of(
            f"the vLLM server at {url} ends a completion after {length - 1} tokens or less",
            because=f"its --max-model-len is {length}, max_completion_length is {longest}",
            fix="start it with more, or with a smaller max_completion_length here",
        )
    return f"vLLM server at {url} serves {first.get('id')}, {length} tokens at most"


def _wait(url: str, timeout_s: float) -> None:
    give_up = time.monotonic() + timeout_s
    while not health.is_healthy(url):
        if time.monotonic() > give_up:
            raise Refused.of(
                f"no vLLM server answers at {url}",
                because=f"it was asked for its health for {timeout_s:g} seconds",
                fix="start it first, or leave its address out: then the run starts one itself",
            )
        time.sleep(_POLL_S)


def _refuse_another_model(url: str, served: dict[str, Any], wanted: str) -> None:
    """A server may call the model anything and have it anywhere: what it is made of decides, where that can be read."""
    names = [str(served[key]) for key in ("root", "id") if served.get(key)]
    ours = _shape(wanted)
    theirs = next((shape for name in names if (shape := _shape(name)) is not None), None)
    if ours is not None and theirs is not None:
        because = next((f"{key} is {theirs[key]}, not {ours[key]}" for key in _SHAPE if theirs[key] != ours[key]), None)
    else:
        is_named = any(_last(name) == _last(wanted) for name in names)
        because = None if is_named else "a server takes the weights of the model that it was started with, no others"
    if because is not None:
        raise Refused.of(
            f"the vLLM server at {url} serves {names[0] if names else 'nothing'}, the run trains {wanted}",
            because=because,
            fix=f"vllm serve {wanted}, or let the run start its server",
        )


def _shape(name: str) -> dict[str, Any] | None:
    """The sizes in the config.json of a folder, None where it cannot be read here."""
    try:
        content = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {key: content.get(key) for key in _SHAPE} if isinstance(content, dict) else None


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()
