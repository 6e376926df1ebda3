"""Where completions end in a real run: stops with transformers, in training and in evaluation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, planned_reward, record, train

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]

# Keeps each text with its tokens, of the training and of the evaluation alike.
KEEPING = """
import json, pathlib

def kept(completions, completion_ids, **columns):
    with open(pathlib.Path(__file__).parents[2] / "texts.jsonl", "a") as file:
        for completion, ids in zip(completions, completion_ids):
            file.write(json.dumps([completion[0]["content"], ids]) + "\\n")
    return [float(len(ids)) for ids in completion_ids]
"""
STOP, STOP_ID, LIMIT = ["7", "ab", "+"], 5, 12
END_TOKENS = (2, STOP_ID)


@pytest.fixture
def stopping(
    make_plan: Callable[..., Changes],
    make_run: Callable[..., Path],
    held_out: Callable[..., Changes],
    sha256_of_text: Callable[[str], str],
) -> Callable[..., Path]:
    """Run folders of two steps whose plan has the stops. shims: as in the plan."""

    def make(shims: Changes) -> Path:
        reward = planned_reward("user.py:kept", kind="python", name="kept", sha256=sha256_of_text(KEEPING))
        plan = make_plan(
            arguments={"max_steps": 2, "max_completion_length": LIMIT},
            rewards=[reward],
            evaluation=held_out(sampling={"temperature": 1.0}),
            shims=shims,
        )
        plan["expect"] |= {"stop": STOP, "stop_token_ids": [STOP_ID]}
        return make_run(plan, user={"user.py": KEEPING})

    return make


def test_training_and_evaluation_end_at_the_stops(stopping: Callable[..., Path]) -> None:
    folder = stopping({"completion_ends": True})
    code, output = train(folder)
    assert code == 0, output
    written: list[tuple[str, list[int]]] = [
        json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()
    ]
    assert len(written) == 11 + 2 * 16 + 11
    assert not any(stop in text[:-1] for text, _ in written for stop in STOP)
    assert not any(end in ids[:-1] for _, ids in written for end in END_TOKENS)
    by_text = [(text, ids) for text, ids in written if text.endswith(tuple(STOP))]
    by_token = [(text, ids) for text, ids in written if ids[-1] in END_TOKENS]
    assert all(len(ids) == LIMIT for text, ids in written if (text, ids) not in by_text + by_token)
    assert min(len(by_text), len(by_token), len(written) - len(by_text) - len(by_token)) > 0
    shown = {proof["id"]: proof["shown"] for proof in record(folder)["proofs"]}["PRF008"]
    assert "completions end at eos or a stop, nothing after" in shown and "trl logs" not in shown
    assert record(folder)["shims"] == {"completion_ends": "2 tokens and 3 texts end a completion"}


def test_log_probabilities_of_vllm_end_with_their_tokens(make_plan: Callable[..., Changes], tmp_path: Path) -> None:
    """A vLLM whose tokenizer lacks the token of a stop generates past it; a turn of the trainer stands for it."""
    from grpo_recipes.worker._shared.planned import read_plan
    from grpo_recipes.worker.data.dataset import prepare_rows
    from grpo_recipes.worker.ends.ends import Ends
    from grpo_recipes.worker.model.build_trainer import build_trainer, training_arguments
    from grpo_recipes.worker.shims.completion_ends import end_completions

    (tmp_path / "plan.json").write_text(json.dumps(make_plan()))
    plan = read_plan(tmp_path)
    rows = prepare_rows(plan.data, "dataset", tmp_path / "cache", 0)
    trainer = build_trainer(plan, training_arguments(plan, tmp_path), rows, [lambda **_: []], tmp_path)
    tokens, log_probs = [[4, STOP_ID, 6, 7], [4, 6]], [[-0.1, -0.2, -0.3, -0.4], [-0.5, -0.6]]
    trainer.seams.change("turn is generated", "redrawn groups", lambda *_, **__: (tokens, log_probs))
    end_completions(trainer, Ends(END_TOKENS, (), trainer.processing_class))
    assert trainer.seams.whole("turn is generated")([[3], [3]], None, {}) == (
        [[4, STOP_ID], [4, 6]],
        [[-0.1, -0.2], [-0.5, -0.6]],
    )


def test_without_the_shim_the_proof_finds_what_follows_a_stop(stopping: Callable[..., Path]) -> None:
    folder = stopping({})
    code, output = train(folder)
    assert code == 3, output
    assert "tokens after its end are trained" in record(folder)["message"]


@pytest.mark.parametrize("shims", [{}, {"completion_ends": True}])
def test_a_pad_that_was_written_last_is_truncated(
    make_plan: Callable[..., Changes], make_run: Callable[..., Path], tiny_model: Path, shims: Changes
) -> None:
    tokens = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    arguments = {"max_steps": 1, "max_completion_length": 3, "mask_truncated_completions": True}
    arguments["generation_kwargs"] = {"suppress_tokens": list(range(8, tokens))}
    folder = make_run(make_plan(arguments=arguments, shims=shims))
    code, output = train(folder)
    assert code == 0, output
    proofs = {proof["id"]: proof["shown"] for proof in record(folder)["proofs"]}
    assert ("a generated PAD last" in proofs["PRF008"]) == (not shims), proofs["PRF008"]


def test_a_turn_that_trl_cuts_after_a_pad_is_truncated(make_plan: Callable[..., Changes], tmp_path: Path) -> None:
    """TRL cuts the turn after a tool's reply to the length that is left, and looks at its last token then."""
    from grpo_recipes.worker._shared.planned import read_plan
    from grpo_recipes.worker.data.dataset import prepare_rows
    from grpo_recipes.worker.ends.ends import Ends
    from grpo_recipes.worker.model.build_trainer import build_trainer, training_arguments
    from grpo_recipes.worker.shims.completion_ends import end_completions

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [float(ids.count(0)) for ids in completion_ids]

    (tmp_path / "plan.json").write_text(json.dumps(make_plan()))
    plan = read_plan(tmp_path)
    rows = prepare_rows(plan.data, "dataset", tmp_path / "cache", 0)
    trainer = build_trainer(plan, training_arguments(plan, tmp_path), rows, [reward], tmp_path)
    written = [[4, 0, 6, 0], [4, 0, STOP_ID, 7]]
    trainer.seams.change("turn is generated", "redrawn groups", lambda *_, **__: (written, None))
    end_completions(trainer, Ends(END_TOKENS, (), trainer.processing_class))
    turns, _ = trainer.seams.whole("turn is generated")([[3], [3]], None, {})
    is_truncated = [[row[count - 1] not in (2, 0) for count in range(2, len(row) + 1)] for row in turns]
    assert is_truncated == [[True, True, True], [True, False]], "the stop alone is an end"
    judged = trainer.seams.whole("rewards are given")([{}, {}], ["", ""], ["", ""], turns)
    assert judged.flatten().tolist() == [2.0, 1.0], "a reward gets plain tokens"


def test_a_stop_ends_with_the_token_that_completes_it(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    from grpo_recipes.worker.ends.ends import Ends

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    ids = tokenizer("1+2=3abc=")["input_ids"]
    letter = tokenizer.convert_tokens_to_ids("b")

    def first(texts: tuple[str, ...] = (), tokens: tuple[int, ...] = ()) -> int | None:
        return Ends(tokens, texts, tokenizer).first(ids)

    assert first() is None
    assert first(("xyz",), (2,)) is None
    assert first(("3ab",)) == 7
    assert first(("abc=", "=")) == 4
    assert first(("3ab",), (letter,)) == 7
    assert first(("abc",), (letter,)) == 7
    assert first(("12",)) is None


def test_a_stop_has_the_space_before_the_first_word() -> None:
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    from grpo_recipes.worker.ends.ends import Ends

    words = ["</s>", "▁so", "▁it", "▁is"]
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.decoder = decoders.Metaspace()
    tokens.add_special_tokens(["</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="</s>")
    assert tokenizer.decode([1, 2, 3]) == "so it is"
    assert Ends((0,), (" so",), tokenizer).first([1, 2, 3]) == 1
    assert Ends((0,), ("so it",), tokenizer).first([1, 2, 3]) == 2
    assert Ends((0,), ("  so", "</s>"), tokenizer).first([1, 2, 3]) is None


def test_added_tokens_that_hold_a_stop_are_known_by_id(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    from grpo_recipes.worker.ends.ends import Ends

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    first = len(tokenizer)
    tokenizer.add_tokens(["<search>", "</search>", "</search>!"])
    assert Ends((2,), ("</search>", "7"), tokenizer).added_tokens_with_text() == [first + 1, first + 2]
    assert Ends((2,), (), tokenizer).added_tokens_with_text() == []


def test_the_tokens_that_trl_compares_are_plain_numbers_elsewhere(tiny_model: Path) -> None:
    import copy

    import torch
    from transformers import AutoTokenizer

    from grpo_recipes.worker.ends.ends import Ends
    from grpo_recipes.worker.shims.completion_ends import EndToken, LastToken

    ends = Ends((2, 9), ("3a",), AutoTokenizer.from_pretrained(tiny_model))
    end: Any = EndToken(2, ends)
    assert (end, end + 1, json.dumps([end]), type(copy.deepcopy(end))) == (2, 3, "[2]", int)
    assert torch.full((1, 2), end).tolist() == [[2, 2]]
    assert (torch.tensor([2, 9]) == end).tolist() == [True, False]
    row = ends.tokenizer("13ab")["input_ids"]
    assert (torch.tensor([row, [4, 9, 2, 9], [4, 4, 4, 4]]) == end).tolist() == [
        [False, False, True, False],
        [False, True, False, False],
        [False, False, False, False],
    ]
    last = LastToken(9, 2)
    assert last in [2, 0] and last == 9 and last not in [0, 4]
    assert (torch.tensor([last]).tolist(), json.dumps(last), type(copy.deepcopy(last))) == ([9], "9", int)
