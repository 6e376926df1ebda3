"""The vLLM engine in the training process as planned: TRL gives it no dtype, no revision and not the recipe's seed."""

import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import set_seed

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import module_with_engine, vllm_engine
from grpo_recipes.worker._shared.planned import model_revision
from grpo_recipes.worker.completions.random_state import kept_random_state


def seed_of_engine(seed: int, group: int) -> int:
    """The seed of the engine of one group of processes that compute together, in 31 bits."""
    return _seed(f"{seed} vllm {group}")


def seed_of_generation(seed: int, group: int, step: int, call: int) -> int:
    """The seed of one call of the engine. step: optimizer steps so far; call: counted within the step."""
    return _seed(f"{seed} vllm {group} {step} {call}")


@contextmanager
def planned_engine(plan: Plan) -> Iterator[None]:
    """While it is open, an LLM that TRL builds gets the plan's dtype, revision, seed and engine keywords."""
    module = None if plan.vllm is None else module_with_engine()
    if module is None:
        yield
        return
    build = module.LLM

    @functools.wraps(build)
    def build_planned(*given: Any, **named: Any) -> Any:
        return build(*given, **engine_keywords(plan, named))

    module.LLM = build_planned  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.LLM = build  # type: ignore[attr-defined]


def engine_keywords(plan: Plan, of_trl: dict[str, Any]) -> dict[str, Any]:
    """The keywords of TRL with those of the plan, which win. TRL's own seed is the number of the group."""
    assert plan.vllm is not None
    seed = int(plan.arguments.GRPOConfig["seed"])  # type: ignore[call-overload]
    planned: dict[str, Any] = {"dtype": plan.vllm.dtype, "seed": seed_of_engine(seed, of_trl.get("seed", 0))}
    revision = model_revision(plan)
    if revision is not None:
        planned |= {"revision": revision, "tokenizer_revision": revision}
    return {**of_trl, **planned, **plan.vllm.engine}


def seed_generations(trainer: Any) -> None:
    """Lets the engine in this process draw from the recipe's seed, whatever the training drew before.

    vLLM takes its random numbers from this process's generators. Processes that share one model have to draw the
    same ones, and would not: each is seeded by its rank, and the dropout of a step takes as many as its batch needs.
    """
    engine = vllm_engine(trainer)
    if engine is None:
        return
    generate = engine.generate
    seed, calls = trainer.args.seed, _Calls()
    group = trainer.accelerator.process_index // (getattr(trainer.args, "vllm_tensor_parallel_size", None) or 1)

    @functools.wraps(generate)
    def seeded(*given: Any, **named: Any) -> Any:
        step = trainer.state.global_step
        with kept_random_state():
            set_seed(seed_of_generation(seed, group, step, calls.count(step)))
            return generate(*given, **named)

    engine.generate = seeded


def close_engine(trainer: Any) -> None:
    """Ends the engine in this process while the group of processes is there, without which it ends in a traceback."""
    core: Any = getattr(getattr(vllm_engine(trainer), "llm_engine", None), "engine_core", None)
    if hasattr(core, "shutdown"):
        core.shutdown()


class _Calls:
    """Counts calls from 0 within each step, so that a resumed run counts as the first one did."""

    def __init__(self) -> None:
        self._step, self._calls = -1, 0

    def count(self, step: int) -> int:
        self._step, self._calls = step, self._calls + 1 if step == self._step else 0
        return self._calls


def _seed(words: str) -> int:
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big") >> 1
