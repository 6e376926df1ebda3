"""Asks one vLLM engine in this process everything that test_options.py wants to know, and prints the answers as JSON.

python asked_of_vllm.py FOLDER    a model of small_models.write_chains
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from small_models import START, ids_of

PATTERNS = ("[0-9]+", "(?<x>a)", r"\p{L}+", "a**", r"[\b]", "(", ")", "[a", "*a", "a{3,1}", "[z-a]")
PATTERNS += ("(?=a)b", "b(?!a)", "(?<=a)b", r"(a)\1", r"\bab")


def _answer(ask: Callable[[], Any]) -> Any:
    """What was answered, or the name of what was raised."""
    try:
        return ask()
    except Exception as error:
        return type(error).__name__


def main(folder: str) -> None:
    """Builds the engine as TRL does, and asks."""
    from vllm import LLM, EngineArgs, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    engine = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        distributed_executor_backend="external_launcher",
        max_model_len=64,
        logprobs_mode="processed_logprobs",
    )
    prompt = {"prompt_token_ids": ids_of([START])}

    def said(count: int = 1, **sampling: Any) -> list[list[int]]:
        asked = SamplingParams(**{"max_tokens": 6, "temperature": 1.0, **sampling})
        found = engine.generate([prompt] * count, sampling_params=asked, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in found]

    # The model says nothing of these, so that each is as likely as the others.
    anything = {"allowed_token_ids": ids_of("0123456789")}
    answers = {
        "patterns": {
            pattern: _answer(lambda one=pattern: bool(said(structured_outputs=StructuredOutputsParams(regex=one))))
            for pattern in PATTERNS
        },
        "seeded": said(4, seed=7, **anything),
        "unseeded": said(4, **anything),
        "chain": said(max_tokens=12),
        "stopped": said(max_tokens=12, stop=["c"]),
        "stopped too early": said(max_tokens=12, stop=["c"], min_tokens=6),
        "stopped by id too early": said(max_tokens=12, stop_token_ids=ids_of("c"), min_tokens=6),
        "unknown key": _answer(lambda: said(frequency_penaltyy=1.0)),
        "hot": _answer(lambda: said(temperature=2.5)),
        "shortest above longest": _answer(lambda: said(max_tokens=3, min_tokens=4)),
        "text as an id": _answer(lambda: said(logit_bias={"20": 1.0})),
        "fields": [one.name for one in dataclasses.fields(EngineArgs) if not one.name.startswith("_")],
        "unknown argument": _answer(lambda: EngineArgs(model=folder, enforce_eagr=True)),
        "dtype": str(EngineArgs(model=folder).create_model_config().dtype),
    }
    print("answers", json.dumps(answers))


if __name__ == "__main__":
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    main(sys.argv[1])
