"""One update traced through the installed libraries, in a process of its own, beside what the formulas say of it."""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from grpo_recipes.contract.host.surroundings import absolute_places
from grpo_recipes.errors import Refusal
from grpo_recipes.facts.output_layer import output_layer
from grpo_recipes.memory.moments import Moments, moments
from grpo_recipes.memory.needs import MemoryNeeds
from grpo_recipes.memory.update import Output, Update
from grpo_recipes.user_files.architecture import read_architecture

LONGEST_S = 900
_DTYPES = {2: "bfloat16", 4: "float32"}
_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused")
_NOT_OF_THE_SIZES = ("architectures", "auto_map", "dtype", "quantization_config", "torch_dtype", "transformers_version")


class TracedUpdate(NamedTuple):
    """Bytes of one update of one process, by the name of a term or "peak": by the formulas, and as traced.

    trl: the release that was traced, the installed one.
    """

    trl: str
    terms: Mapping[str, tuple[int, int]]


def traced_update(needs: MemoryNeeds) -> TracedUpdate:
    """The second of two updates with two micro-batches at most, on fake tensors, with whole weights.

    Takes seconds to minutes and some hundred MB, whatever the size of the model. Raises Refusal where the libraries
    are not installed, for what cannot be traced, and with the end of the output of a trace that fails.
    """
    missing = [name for name in ("torch", "transformers", "trl", "peft") if importlib.util.find_spec(name) is None]
    if missing:
        raise Refusal.of(f"--trace needs {', '.join(missing)}", fix="pip install 'grpo-recipes[train]'")
    architecture = None if needs.config is None else read_architecture(needs.config)
    if needs.config is None or architecture is None:
        raise Refusal.of("this model cannot be traced", because="its config.json is not here or not of a known kind")
    update = needs.update
    asked = {"config": _sizes(needs.config), **_asked(update)}
    trl = importlib.metadata.version("trl")
    output = cast(Output | None, output_layer(trl))
    if output is None:
        raise Refusal.of(f"trl {trl}, which is installed, cannot be traced", fix="trl==1.16.0")
    computed = moments(architecture, update._replace(output=output))
    if computed is None:
        raise Refusal.of(f"the optimizer {update.optimizer} cannot be traced")
    return _beside(trl, computed, _answer(asked))


def _sizes(config: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in config.items() if key not in _NOT_OF_THE_SIZES}


def _asked(update: Update) -> dict[str, object]:
    """The request that `python -m grpo_recipes.tracing` reads. Raises Refusal for an update that it cannot make."""
    if update.optimizer not in _OPTIMIZERS:
        raise Refusal.of(f"the optimizer {update.optimizer} cannot be traced", fix=f"optim: {_OPTIMIZERS[1]}")
    adapter, four_bits = update.adapter, update.four_bits
    return {
        "dtype": _DTYPES[update.weight_width],
        "autocast": None if update.autocast_width is None else _DTYPES[update.autocast_width],
        "quantization": None if four_bits is None else "nf4",
        "compute_dtype": "float32" if four_bits is None else _DTYPES[four_bits.compute_width],
        "double_quant": four_bits is not None and four_bits.is_double,
        "lora": None if adapter is None else {"r": adapter.r, "targets": adapter.targets},
        "checkpointing": update.is_checkpointing,
        "attention": update.attention,
        "batch": update.batch,
        "prompt": update.prompt,
        "completion": update.completion,
        "accumulation": min(update.accumulation, 2),
        "beta": 0.0,
        "optimizer": update.optimizer,
        "device": update.device,
    }


def _answer(asked: Mapping[str, object]) -> dict[str, Any]:
    """What the tracing process says."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "grpo_recipes.tracing"],
            input=json.dumps(asked) + "\n",
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            env=absolute_places(os.environ)[0] | {"HF_HUB_OFFLINE": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refusal.of(f"the trace took more than {LONGEST_S} s", fix="a smaller micro-batch") from None
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
    if done.returncode != 0 or line is None:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise Refusal.of("the installed libraries could not be traced", because=last[0])
    answer: dict[str, Any] = json.loads(line)
    return answer


def _beside(trl: str, computed: Moments, traced: Mapping[str, Any]) -> TracedUpdate:
    terms = traced["terms"]
    return TracedUpdate(
        trl,
        {
            "weights": (computed.weights + computed.adapter, terms["weights"]),
            "gradients": (computed.gradients, terms["gradients"]),
            "optimizer": (computed.optimizer, terms["optimizer"]),
            "activations": (computed.activations, terms["activations"]),
            "peak": (computed.peak(), traced["peak"]),
        },
    )
