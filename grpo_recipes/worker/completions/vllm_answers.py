"""Answers held-out prompts with the run's vLLM, each with its own random seed.

TRL's own method generates, so sampling, stops, the length limit, vLLM's sleep and process groups match the training.
Each prompt's seed depends on the recipe's seed, row and sample, not on other prompts or earlier generations. vLLM in
this process draws from this process's generators, which an evaluation restores; the seeds of the training's own calls
are not counted here.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.worker._shared.library import gather_for_engine, seed_of, vllm_client, vllm_engine
from grpo_recipes.worker._shared.replacing import replace_temporarily

AT_ONCE = 64
"""Minimum prompts per process and call, and the number of concurrent requests to a server."""


def seed_of_answer(seed: int, row: int, sample: int) -> int:
    """Returns the 31-bit seed of one completion."""
    return seed_of(f"{seed} vllm row {row} sample {sample}") >> 1


@contextmanager
def given_the_policy(trainer: Any, *, greedy: bool) -> Iterator[None]:
    """Gives vLLM the current weights; greedy: take the most likely token. All processes must enter it.

    The trainer still believes that vLLM has the weights of its last generation, whose completions it may still train
    on, and syncs before the next one, which also clears vLLM's prompt cache.
    """
    generation = trainer.vllm_generation
    generation.sync_weights()
    of_greedy = {"temperature": 0.0} if greedy else {}
    with replace_temporarily(generation, "generation_kwargs", {**generation.generation_kwargs, **of_greedy}):
        yield


def continued_by_vllm(trainer: Any, prompts: list[list[int]], seeds: list[int]) -> list[list[int]]:
    """Returns the new tokens of each prompt. All processes must call it with equally many prompts."""
    engine, client = vllm_engine(trainer), vllm_client(trainer)
    seeded: Callable[..., Any] | None = None
    if engine is not None:
        seeded = _seeded_engine(engine, gather_for_engine(trainer, seeds))
    else:
        of_all = gather_object(seeds)
        seeded = None if client is None else _seeded_client(client, of_all)  # only the first process has one
    with nullcontext() if seeded is None else replace_temporarily(engine or client, "generate", seeded):
        _, tokens, *_ = trainer.vllm_generation.generate(prompts=prompts, images=None, num_generations=1)
    return [list(row) for row in tokens]


def _seeded_engine(engine: Any, seeds: Sequence[int]) -> Callable[..., Any]:
    def generate(prompts: Any, *, sampling_params: Any, **named: Any) -> Any:
        each = [sampling_params.clone() for _ in seeds]
        for parameters, seed in zip(each, seeds, strict=True):
            parameters.seed = seed
        # Not the wrapper on this engine, which seeds and counts the training's generations.
        return type(engine).generate(engine, prompts, sampling_params=each, **named)

    return generate


def _seeded_client(client: Any, seeds: Sequence[int]) -> Callable[..., Any]:
    """Returns a generate that sends one request per prompt, since a vLLM server takes one seed per request."""
    ask = client.generate

    def generate(prompts: Any, *, generation_kwargs: dict[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        def answer_prompt(prompt: Any, seed: int) -> Any:
            return ask(prompts=[prompt], generation_kwargs={**(generation_kwargs or {}), "seed": seed}, **named)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            answers = list(threads.map(answer_prompt, prompts, seeds))
        names = ("prompt_ids", "completion_ids")
        return {name: [row for answer in answers for row in answer[name]] for name in names} | {"logprobs": None}

    return generate
