"""A row's completions are drawn by its own numbers, from the probabilities that the model gives."""

from typing import Any

import numpy
import pytest

pytestmark = pytest.mark.stack


def test_tokens_come_as_often_as_they_are_likely_and_never_without_a_chance() -> None:
    import torch

    from grpo_recipes.worker.completions.row_draws import numbers_of, token_at

    chances = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    numbers = torch.from_numpy(numbers_of(7, 0, 0, 20_000))
    found = token_at(chances.expand(20_000, -1), numbers).squeeze(1)
    shares = torch.bincount(found, minlength=6) / len(found)
    assert shares.tolist() == pytest.approx(chances.tolist(), abs=0.02)
    assert shares[[0, 2, 5]].tolist() == [0, 0, 0]

    ends = torch.tensor([0.0, 1 - 1e-16, 0.5], dtype=torch.float64)
    assert token_at(chances.expand(3, -1), ends).squeeze(1).tolist() == [1, 4, 3]


def test_numbers_are_of_seed_row_and_sample() -> None:
    from grpo_recipes.worker.completions.row_draws import numbers_of

    first = numbers_of(7, 3, 1, 4)
    assert first.tolist() == numbers_of(7, 3, 1, 4).tolist() == numbers_of(7, 3, 1, 8)[:4].tolist()
    others = [numbers_of(*other, 4).tolist() for other in ((8, 3, 1), (7, 4, 1), (7, 3, 2))]
    assert first.tolist() not in others


def generated(model: Any, prompts: list[list[int]], rows: list[int]) -> list[list[int]]:
    """What `generate` samples for prompts, padded left, by the numbers of their rows, without the padding after it."""
    import torch

    from grpo_recipes.worker.completions.row_draws import drawn_with, numbers_of

    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with drawn_with([numbers_of(7, row, 0, 12) for row in rows]):
        found = model.generate(
            input_ids=ids, attention_mask=mask, do_sample=True, top_k=50, max_new_tokens=12, pad_token_id=0
        )
    return [[token for token in row[width:] if token] for row in found.tolist()]


def test_a_row_is_drawn_alike_in_every_batch(tiny_model: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    original = torch.multinomial
    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    prompts = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
    together = generated(model, prompts, [0, 1, 2])
    assert len({tuple(row) for row in together}) == 3
    for place in (2, 0, 1):
        assert generated(model, [prompts[place]], [place]) == [together[place]]
    assert torch.multinomial is original


def test_a_release_that_draws_otherwise_is_noticed() -> None:
    import torch

    from grpo_recipes.worker.completions.row_draws import drawn_with

    with pytest.raises(RuntimeError, match=r"did not call torch\.multinomial"), drawn_with([numpy.zeros(1)]):
        torch.rand(1)


def test_rows_and_samples_have_seeds_of_their_own_for_vllm() -> None:
    from grpo_recipes.worker.completions.vllm_answers import seed_of_answer

    seeds = {seed_of_answer(seed, row, sample) for seed in (7, 8) for row in range(500) for sample in range(8)}
    assert len(seeds) > 2 * 500 * 8 - 3, "31 bits: two may meet"
    assert min(seeds) >= 0
    assert max(seeds) < 2**31
    assert seed_of_answer(7, 1, 2) == 1190107006
