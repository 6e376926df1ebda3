"""Completions of an evaluation in which tools are called, held against those that TRL makes in training."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

CALCULATOR = Path(__file__).resolve().parents[2] / "recipes" / "calculator"
QUESTIONS = [f"{a}*{b}=" for a in (12, 34, 47, 58, 83, 99) for b in (13, 38, 61, 76)]
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
PROMPTS = [[{"role": "user", "content": question}] for question in QUESTIONS]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trainer of the calculator's model, which calls its tool in 3 of 10 completions."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    sys.path.insert(0, str(CALCULATOR))
    try:
        from calculator import calculate
    finally:
        sys.path.remove(str(CALCULATOR))
    arguments = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("calculator")),
        per_device_train_batch_size=8,
        max_completion_length=40,
        top_k=0,
        max_tool_calling_iterations=1,
        bf16=False,
        use_cpu=True,
        report_to=[],
    )

    def nothing(completions: list[Any], **kwargs: Any) -> list[float]:
        return [0.0 for _ in completions]

    rows = Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS])
    return GRPOTrainer(str(CALCULATOR / "model"), nothing, arguments, rows, tools=[calculate])


def sampled(trainer: Any, batch_size: int, draws: list[tuple[int, int]] | None) -> tuple[list[Any], list[list[int]]]:
    """What the held-out prompts are answered."""
    from grpo_recipes.contract.plan import Evaluation
    from grpo_recipes.worker.completions.generation import answers
    from grpo_recipes.worker.completions.undisturbed import undisturbed
    from grpo_recipes.worker.ends.ends import Ends

    how = Evaluation(None, True, 0, False, batch_size, SAMPLING, None)  # type: ignore[arg-type]
    ends = Ends((trainer.processing_class.eos_token_id,), (), trainer.processing_class)
    with undisturbed(trainer):
        return answers(trainer, PROMPTS, how, ends, lambda: None, draws)


def test_completions_are_those_of_the_training(trainer: Any) -> None:
    import inspect

    from grpo_recipes.worker.completions.undisturbed import undisturbed

    before = dict(vars(trainer))
    completions, tokens = sampled(trainer, len(PROMPTS), None)
    assert vars(trainer) == before

    calls = {tool.__name__: tool for tool in trainer.tools if not inspect.iscoroutinefunction(tool)}
    trainer._sync_tool_dicts, trainer._async_tool_dicts = [calls] * len(PROMPTS), [{}] * len(PROMPTS)
    with undisturbed(trainer):
        _, own_tokens, _, own_completions, *_ = trainer._generate(PROMPTS)

    assert tokens == own_tokens
    assert completions == own_completions
    assert {len(messages) for messages in completions} == {1, 3}


def test_the_reply_of_a_tool_stands_between_call_and_answer(trainer: Any) -> None:
    completions, tokens = sampled(trainer, 7, [(row, 0) for row in range(len(PROMPTS))])
    called = [place for place, messages in enumerate(completions) if len(messages) > 1]
    assert called
    for place in called:
        call, reply, answer = completions[place]
        (asked,) = call["tool_calls"]
        assert asked["function"]["name"] == reply["name"] == "calculate"
        assert reply["content"] == str(eval(asked["function"]["arguments"]["expression"]))
        text = trainer.processing_class.decode(tokens[place])
        assert text.endswith(
            f"<|im_end|>\n<|im_start|>tool\n{reply['content']}<|im_end|>\n"
            f"<|im_start|>assistant\n{answer['content']}<|im_end|>"
        )


def test_turns_are_drawn_by_row_in_batches_of_any_size(trainer: Any) -> None:
    draws = [(row, 1) for row in range(len(PROMPTS))]
    assert sampled(trainer, 5, draws) == sampled(trainer, 24, draws)
    assert sampled(trainer, 5, draws) != sampled(trainer, 5, [(row, 2) for row, _ in draws])
