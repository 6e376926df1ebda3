"""Which scores of generate belong to which tokens of a completion."""

import math

import pytest

pytestmark = pytest.mark.stack
NAN = None  # no row has drawn the token


def known(scores: list[float]) -> list[float | None]:
    return [None if math.isnan(score) else score for score in scores]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([([1, 2], [5, 6, 7])], [0, 1, NAN, NAN, NAN, NAN], id="the first turn, until they differ"),
        pytest.param(
            [([1, 2], [5, 6]), ([1, 2, 5, 6, 8, 9], [3])], [0, 1, NAN, NAN, 0, NAN], id="a turn after a reply"
        ),
        pytest.param([([1, 2], [5, 6, 0, 0, 0])], [0, 1, NAN, NAN, NAN, NAN], id="padding after its end"),
        pytest.param([([1, 4], [5, 6])], [NAN] * 6, id="another prompt"),
        pytest.param([([2], [5, 6])], [NAN] * 6, id="a shorter prompt"),
        pytest.param([([1, 2], [5, 6, 7, 7, 7, 7, 7])], [0, 1, NAN, NAN, NAN, NAN], id="a longer row"),
        pytest.param([([1, 2], [4, 6])], [NAN] * 6, id="another completion"),
    ],
)
def test_a_score_belongs_to_a_token_after_the_same_tokens(
    rows: list[tuple[list[int], list[int]]], expected: list[float | None]
) -> None:
    from grpo_recipes.worker.callbacks.draw_recorder import Drawn, drawn_scores

    drawn = [Drawn(context, ids, [float(at) for at in range(len(ids))], []) for context, ids in rows]

    assert known(drawn_scores(drawn, [1, 2], [5, 6, 8, 9, 3, 4])) == expected


def steps_of(tokens: list[list[int]], more: int = 0) -> tuple[object, object]:
    """The passes of a call that drew tokens (B, C), with more passes after the end, and the tokens."""
    import torch

    from grpo_recipes.worker.callbacks.draw_recorder import DrawnSteps

    class Output:
        def __init__(self, at: int) -> None:
            self.logits = torch.eye(9)[[at] * len(tokens)][:, None]

    drawn, steps = torch.tensor(tokens), DrawnSteps()
    steps.note(None, None, {"input_ids": torch.full((len(tokens), 4), 7)}, Output(0))
    for at in range(1, drawn.shape[1] + more):
        newest = drawn[:, min(at, drawn.shape[1]) - 1 :][:, :1]
        steps.note(None, None, {"input_ids": newest}, Output(at))
    return steps, drawn


@pytest.mark.parametrize("more", [0, 3])
def test_each_token_has_the_score_of_the_pass_before_it_also_when_a_process_waits_for_others(more: int) -> None:
    import torch

    steps, drawn = steps_of([[0, 1, 2], [0, 5, 2]], more)
    scores = steps.scores_of(drawn)  # type: ignore[attr-defined]

    high, low = torch.eye(9)[0].log_softmax(-1)[:2].tolist()
    assert scores.flatten().tolist() == pytest.approx([high, high, high, high, low, high])


def test_passes_that_do_not_fit_the_tokens_have_no_scores() -> None:
    steps, drawn = steps_of([[0, 1, 2]])
    assert steps.scores_of(drawn.flip(1)) is None  # type: ignore[attr-defined]
    assert steps.scores_of(drawn.repeat(1, 2)) is None  # type: ignore[attr-defined]


def test_the_longest_completions_are_compared() -> None:
    """A model that loses its cache draws the first token rightly, and may end with it."""
    import torch

    from grpo_recipes.worker.vllm.sampled import SAMPLED, some_rows

    lengths = torch.tensor([1, 3, 0, 4, 1])
    mask = (torch.arange(4) < lengths[:, None]).long()
    prompts = {"prompt_ids": torch.ones(5, 2, dtype=torch.long), "prompt_mask": torch.ones(5, 2, dtype=torch.long)}
    inputs = {**prompts, "completion_ids": mask, "completion_mask": mask, SAMPLED: torch.zeros(5, 4)}
    assert [len(row.completion) for row in some_rows(inputs, 0, most=2)] == [4, 3]
