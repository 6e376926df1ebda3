"""The five failures as experiments with TRL alone, and what each outcome is called."""

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from laboratory import Laboratory, Outcome

EXACT = 1e-4  # of a float32 log-probability; what is right is right to 1e-6
EQUAL_LENGTHS = ["2+3=", "4+5=", "1+1=", "7+2="] * 2
UNEQUAL_LENGTHS = ["2+3=", "42+555=", "1+1=", "7+2222="] * 2

FAILURES = {
    0: "0 logits",
    1: "1 ZeRO-3",
    2: "2 nf4",
    3: "3 LoRA and gradient checkpointing, use_reentrant",
    4: "4 stop",
}


def _in_short(text: str) -> str:
    return textwrap.shorten(text, 80, placeholder=" ...")


def error(outcome: Outcome) -> str:
    """The exception of an outcome in a few words."""
    return f"{outcome.told.raised}: {_in_short(outcome.told.text)}"


def logits(outcome: Outcome) -> str:
    """Which logits reach TRL: those of the completion, all, or none; and wrong whenever the log-probs are."""
    if outcome.told.raised == "AttributeError" and outcome.told.text.startswith("module transformers has no"):
        return "no such class"
    if outcome.told.raised:
        return error(outcome)
    seen = outcome.result
    if not seen["error"] < EXACT:
        return "silently wrong"
    if seen["shape"] is None:
        return "right, none built"
    rows = {seen["completion"] + 1: "right, completion only", seen["sequence"]: "right, full sequence"}
    return rows[seen["shape"][1]]


def zero3(outcome: Outcome) -> str:
    """Whether two processes train with sharded parameters, and evaluate."""
    if outcome.told.raised:
        return error(outcome)
    seen = outcome.result
    assert seen["processes"] == 2 and seen["sharded"] >= seen["tensors"] - 1, seen
    return "trains and evaluates" if seen["evaluations"] else "trains"


def _adapter(seen: Mapping[str, Any]) -> str:
    if seen["moved"] == seen["all"] > 0:
        return "trains"
    return f"silently untrained: {seen['moved']} of {seen['all']} lora_B move"


def nf4(outcome: Outcome) -> str:
    """Whether a 4-bit model loads or trains, and with a quantized reference model."""
    if outcome.told.raised:
        return error(outcome)
    if isinstance(outcome.result, int):
        return "loads"
    seen = outcome.result
    told = _in_short(seen["error"]) or _adapter(seen)
    return told if seen["reference"] == "none" else f"{told}, {seen['reference']} reference model"


def checkpointing(outcome: Outcome) -> str:
    """Whether every adapter matrix moves."""
    return error(outcome) if outcome.told.raised else _adapter(outcome.result)


def stop(outcome: Outcome) -> str:
    """What became of completions with the stop token."""
    if outcome.told.raised:
        return error(outcome)
    seen = outcome.result
    assert seen["with_stop"] > 2, seen
    if seen["ended"] == 0:
        return "ignored"
    assert seen["ended"] == seen["with_stop"], seen
    return {0: "ends, padding in the mask", seen["ended"]: "ends, mask right"}[seen["masked_there"]]


@dataclass(frozen=True, slots=True)
class RawExperiment:
    """An experiment with TRL alone. read: the outcome in words."""

    function: str
    arguments: dict[str, Any]
    read: Callable[[Outcome], str]
    ranks: int = 1

    def outcome(self, laboratory: Laboratory, stack: str) -> str:
        """What it shows on a stack, in words."""
        return self.read(laboratory.run(stack, self.function, ranks=self.ranks, **self.arguments))


def _logits(model: str, prompts: list[str]) -> RawExperiment:
    return RawExperiment("raw_logits.observe", {"model": model, "prompts": prompts}, logits)


def _zero3(adapter: bool, beta: float, evaluate: bool) -> RawExperiment:
    arguments = {"adapter": adapter, "beta": beta, "evaluate": evaluate}
    return RawExperiment("raw_zero3.train", arguments, zero3, ranks=2)


def _nf4(adapter: str) -> RawExperiment:
    return RawExperiment("raw_quantized.train", {"adapter": adapter, "beta": 0.04}, nf4)


def _checkpointing(use_reentrant: bool | None) -> RawExperiment:
    arguments = {"checkpointing": True, "use_reentrant": use_reentrant}
    return RawExperiment("raw_checkpointing.train", arguments, checkpointing)


def _stop(generation_config: bool = False, **generation_kwargs: Any) -> RawExperiment:
    arguments = {"generation_kwargs": generation_kwargs, "generation_config": generation_config}
    return RawExperiment("raw_stop.train", arguments, stop)


RAW: dict[int, dict[str, RawExperiment]] = {
    0: {
        **{kind: _logits(kind, EQUAL_LENGTHS) for kind in ("Qwen2", "Llama", "Qwen3", "GPT2")},
        "Qwen2 with left-padded prompts": _logits("Qwen2", UNEQUAL_LENGTHS),
    },
    1: {
        "full": _zero3(False, 0.04, False),
        "full with evaluation": _zero3(False, 0.04, True),
        "LoRA": _zero3(True, 0.0, False),
    },
    2: {
        "on a CPU": RawExperiment("raw_quantized.load", {}, nf4),
        "without adapter": _nf4(""),
        "peft_config": _nf4("config"),
        "PeftModel": _nf4("instance"),
    },
    3: {"not given": _checkpointing(None), "True": _checkpointing(True), "False": _checkpointing(False)},
    4: {
        "generation_kwargs stop_strings": _stop(stop_strings=["5"]),
        "generation_kwargs stop": _stop(stop=["5"]),
        "generation_kwargs eos_token_id": _stop(eos_token_id=[2, 8]),
        "generation_config.json eos_token_id": _stop(generation_config=True),
    },
}
