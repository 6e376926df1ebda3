"""Runs the vLLM engine in the training process as planned; TRL passes no dtype, revision or recipe seed."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import set_seed

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import module_with_engine, sampling_of_vllm, seed_of, vllm_client, vllm_engine
from grpo_recipes.worker._shared.planned import model_of_sampler
from grpo_recipes.worker._shared.replacing import replace_temporarily
from grpo_recipes.worker.completions.undisturbed import kept_random_state
from grpo_recipes.worker.ends.ends import end_tokens, tokenizer_of
from grpo_recipes.worker.proofs.before_training.compared import VllmTokens
from grpo_recipes.worker.vllm.sampled import engine_dtype


def seed_of_engine(seed: int, group: int) -> int:
    """Returns the 31-bit engine seed for a group of processes that share a model."""
    return seed_of(f"{seed} vllm {group}") >> 1


def seed_of_generation(seed: int, group: int, step: int, call: int) -> int:
    """Returns the seed of one engine call. step: optimizer steps so far; call: counted within the step."""
    return seed_of(f"{seed} vllm {group} {step} {call}") >> 1


@contextmanager
def build_as_planned(plan: Plan, folder: Path) -> Iterator[None]:
    """Gives any LLM that TRL builds inside the block the plan's model, dtype, revision, seed and engine arguments."""
    module = None if plan.vllm is None else module_with_engine()
    if module is None:
        yield
        return
    build = module.LLM

    @functools.wraps(build)
    def build_planned(*given: Any, **named: Any) -> Any:
        return build(*given, **engine_keywords(plan, named, folder))

    with replace_temporarily(module, "LLM", build_planned):
        yield


def engine_keywords(plan: Plan, of_trl: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Merges TRL's arguments with the plan's, which win. TRL's seed is the number of the group."""
    assert plan.vllm is not None
    seed = int(plan.arguments.GRPOConfig["seed"])  # type: ignore[call-overload]
    planned: dict[str, Any] = {"dtype": plan.vllm.dtype, "seed": seed_of_engine(seed, of_trl.get("seed", 0))}
    model, revision = model_of_sampler(plan, folder)
    if plan.samples_a_copy:
        planned |= {"model": model, "quantization": None}
    if revision is not None:
        planned |= {"revision": revision, "tokenizer_revision": revision}
    return {**of_trl, **planned, **plan.vllm.engine}


def seed_generations(trainer: Any) -> None:
    """Seeds each call of the engine in this process from the recipe, independently of training.

    vLLM uses this process's random generators. Processes that share a model must draw the same numbers, but would not,
    because each is seeded by its rank, and dropout draws a different number of values on each.
    """
    if vllm_engine(trainer) is None:
        return
    seed, calls = trainer.args.seed, Counter[int]()
    group = trainer.accelerator.process_index // (getattr(trainer.args, "vllm_tensor_parallel_size", None) or 1)

    def seed_and_generate(generate: Callable[..., Any], *given: Any, **named: Any) -> Any:
        step = trainer.state.global_step
        with kept_random_state():
            set_seed(seed_of_generation(seed, group, step, calls[step]))
            calls[step] += 1  # within the step, so that a resumed run counts like an uninterrupted one
            return generate(*given, **named)

    trainer.seams.change("engine generates", "seeds", seed_and_generate)


def images_given_to_vllm(trainer: Any, prompts: Any, answers: Any) -> dict[str, Any]:
    """Returns the arguments for transformers for the images that vLLM got, with vLLM's answer appended."""
    images = [prompt["multi_modal_data"]["image"] for prompt in prompts if "multi_modal_data" in prompt]
    if not images:
        return {}
    each = [image if isinstance(image, list) else [image] for image in images]
    pixels = trainer.processing_class.image_processor(images=each, return_tensors="pt")["pixel_values"]
    tokens = [torch.tensor([*answer.prompt_token_ids, *answer.outputs[0].token_ids]) for answer in answers]
    ids, mask = (pad_sequence(rows, True) for rows in (tokens, [torch.ones_like(row) for row in tokens]))
    return {"pixel_values": pixels, "input_ids": ids, "attention_mask": mask}


def close_engine(trainer: Any) -> None:
    """Shuts the engine down while the process group exists; later it would end in a traceback."""
    core: Any = getattr(getattr(vllm_engine(trainer), "llm_engine", None), "engine_core", None)
    if hasattr(core, "shutdown"):
        core.shutdown()


TIMEOUT_S = 60
NO_TOKEN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Known:
    """vLLM's tokens. vocabulary: rows of its model; text: how it decodes tokens; None if unknown."""

    vocabulary: int | None
    text: Callable[[Sequence[int]], str | None]


def dtype_seen(plan: Plan, trainer: Any) -> str | None:
    """Returns vLLM's compute dtype, None if unknown."""
    if plan.vllm is None:
        return None
    client = vllm_client(trainer)
    return engine_dtype(trainer) if client is None else _server_dtype(client)


def tokens_seen(plan: Plan, trainer: Any) -> VllmTokens | None:
    """Returns the tokens that vLLM must know; None if there is no vLLM or this process cannot reach it."""
    known = _vocabulary_of(trainer)
    if known is None:
        return None
    tokenizer = tokenizer_of(trainer)
    beyond = _beyond(plan, trainer, known.vocabulary)
    return VllmTokens(
        known.vocabulary,
        tuple(f"{token} {tokenizer.convert_ids_to_tokens(token)!r}" for token in beyond),
        tuple(_stops(plan, trainer, known)),
        spells=not plan.expect.stop or known.text([0]) is not None,
    )


def _beyond(plan: Plan, trainer: Any, vocabulary: int | None) -> list[int]:
    """Returns the needed tokens that are outside vLLM's vocabulary."""
    if vocabulary is None:
        return []
    added = tokenizer_of(trainer).convert_tokens_to_ids(list(plan.tokenizer.add_tokens))
    needed = {*end_tokens(trainer), *plan.expect.stop_token_ids, *added, *_stop_ids(trainer)}
    return sorted(token for token in needed if token >= vocabulary)


def _stops(plan: Plan, trainer: Any, known: _Known) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Returns each stop that vLLM must match as text, its ids, and how vLLM decodes them."""
    tokenizer, passed = tokenizer_of(trainer), _stop_ids(trainer)
    for stop in plan.expect.stop:
        ids = tokenizer.encode(stop, add_special_tokens=False)
        text = known.text(ids)
        if text is not None and not (ids and ids[-1] in passed):
            yield stop, tuple(ids), text


def _stop_ids(trainer: Any) -> set[int]:
    """Returns the stops that vLLM gets as token ids."""
    return {int(token) for token in sampling_of_vllm(trainer).get("stop_token_ids") or ()}


def _vocabulary_of(trainer: Any) -> _Known | None:
    engine, client = vllm_engine(trainer), vllm_client(trainer)
    if engine is not None:
        tokenizer = engine.get_tokenizer()
        size = getattr(engine.llm_engine.model_config, "get_vocab_size", lambda: None)()
        return _Known(size, lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False)))
    if client is not None:
        return _Known(_server_vocabulary(client), lambda ids: _server_text(client, ids))
    return None


def _server_vocabulary(client: Any) -> int | None:
    """Returns the rows of the server's model, from its error for an invalid stop id; None if it reports none.

    The refused request generates nothing.
    """
    body = {"prompt": [0], "max_tokens": 1, "stop_token_ids": [NO_TOKEN], "model": getattr(client, "model", None)}
    answer = _post(client, "/v1/completions", body)
    match = re.search(r"Vocabulary size: (\d+)", answer.text) if answer is not None else None
    return None if match is None else int(match[1])


def _server_text(client: Any, ids: Sequence[int]) -> str | None:
    answer = _post(client, "/detokenize", {"tokens": list(ids), "model": getattr(client, "model", None)})
    return str(answer.json()["prompt"]) if answer is not None and answer.status_code == 200 else None


def _server_dtype(client: Any) -> str | None:
    """Uses the development endpoints, which TRL needs for its weights."""
    if not hasattr(client, "get_server_info"):
        return None
    dtype = client.get_server_info().get("model_config", {}).get("dtype")
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _post(client: Any, path: str, body: dict[str, Any]) -> Any:
    """Returns the answer of vLLM's own server; None for TRL's, up to 1.10, which lacks these paths."""
    url = getattr(client, "base_url", None)
    if url is None:
        return None
    given = {name: value for name, value in body.items() if value is not None}
    answer = client.session.post(f"{url}{path}", json=given, timeout=TIMEOUT_S)
    return None if answer.status_code == 404 else answer
