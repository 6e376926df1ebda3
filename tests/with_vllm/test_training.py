"""GRPO trains with vLLM on what vLLM sampled, both agree about its probability, and a vLLM that stays behind is caught.

Each run is the command's, as a user starts it. TRL cannot hand weights over without a GPU; cpu_weights does it here.
"""

import json
from pathlib import Path
from statistics import fmean

import pytest
from digit_first import APART, COLOCATE, SERVER, STEPS, Record, proofs, train
from small_models import write_random
from vllm_servers import serving

pytestmark = pytest.mark.vllm

# Of an untrained model little can be reached but by its output layer.
STOPS = ["U", "xy"]  # one of which vLLM gets as a token
LORA = {"r": 16, "lora_alpha": 64, "target_modules": "all-linear", "modules_to_save": ["lm_head"]}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model whose output layer is its embedding."""
    return write_random(tmp_path_factory.mktemp("models") / "untrained")


TRAININGS = [
    pytest.param(COLOCATE, {}, 1e-5, id="colocate"),
    pytest.param(COLOCATE, {"training": {"bf16": True}}, 2e-2, id="colocate in bfloat16", marks=pytest.mark.long),
    pytest.param({**SERVER, "stop": STOPS}, {"lora": LORA}, 1e-5, id="server with LoRA and stops"),
]


@pytest.mark.parametrize(("generation", "more", "most"), TRAININGS)
def test_it_trains_on_what_vllm_samples_from_the_policy(
    generation: Record, more: Record, most: float, model: Path, tmp_path: Path
) -> None:
    record, steps = train(tmp_path, model, generation, more)
    assert len(steps) == STEPS
    assert max(step[APART] for step in steps) < most
    rewards = [step["reward"] for step in steps]
    assert fmean(rewards[-5:]) > fmean(rewards[:5]) + 0.2, "it learned"
    assert {proof["ok"] for proof in record["proofs"]} == {True}
    assert {"PRF010", "PRF011"} <= set(proofs(record))
    for step in steps:
        assert sum(step[f"completions/ended_by_{what}"] for what in ("stop", "eos", "length")) == pytest.approx(1)
        assert step["completions/with_tokens_after_end"] == 0
        # TRL takes a last PAD that the model wrote itself for an end.
        assert step["completions/clipped_ratio"] <= step["completions/ended_by_length"] + 1e-6
    assert any(step["completions/ended_by_stop"] for step in steps) == ("stop" in generation)
    assert "far_from_sampler" not in {guard["name"] for guard in record["guards"]}


def test_a_hand_over_that_does_nothing_is_caught_however_little_moves(model: Path, tmp_path: Path) -> None:
    slowly = {"training": {"learning_rate": 1e-6}}
    record, steps = train(tmp_path, model, COLOCATE, slowly, code=3, GRPO_TEST_WEIGHTS="broken")
    assert proofs(record)["PRF010"]["ok"] is True, "until the policy moves, both are the base model"
    assert "hand-over: the proof failed in step " in record["message"]
    assert "the weights did not reach vLLM" in record["message"]
    assert "grpo-run explain PRF011" in record["message"]
    assert len(steps) < STEPS
    assert steps[-1][APART] < 1e-3, "less than any bound that leaves room for rounding"


@pytest.mark.long
def test_a_server_with_other_weights_or_another_tokenizer_is_refused(model: Path, tmp_path: Path) -> None:
    other = _with_two_letters_exchanged(write_random(tmp_path / "other", seed=1))
    with serving(other, tmp_path / "server.log", "--max-model-len", "64") as url:
        there = {"trl": {"vllm_server_base_url": url}}

        folder = tmp_path / "weights"
        folder.mkdir()
        record, steps = train(folder, model, {"vllm_mode": "server"}, there, code=3, GRPO_TEST_WEIGHTS="broken")
        assert "sampler: the proof failed in step 1 [PRF010]" in record["message"]
        assert "vLLM has different weights" in record["message"]
        assert not steps

        folder = tmp_path / "tokens"
        folder.mkdir()
        record, steps = train(folder, model, {"vllm_mode": "server", "stop": ["ab"]}, there, code=3)
        assert "stop as vLLM spells it: plan 'ab', live 'ba'" in record["message"]
        assert "the vLLM server has a different tokenizer" in record["message"]
        assert not steps


def _with_two_letters_exchanged(model: Path) -> Path:
    path = model / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return model


def test_it_samples_from_what_a_warm_start_trained(model: Path, tmp_path: Path) -> None:
    """Before the first step vLLM has answered held-out rows with the untrained weights, at the same step 0."""
    (tmp_path / "held_out.jsonl").write_text('{"question": "i"}\n{"question": "j"}\n')
    more = {
        "warm_start": {"steps": 40, "answer": "7{{ question }}", "learning_rate": 1e-2},
        "evaluation": {"path": str(tmp_path / "held_out.jsonl"), "at_start": True, "use_vllm": True},
    }
    record, steps = train(tmp_path, model, COLOCATE, more)
    known = record["evaluation"]
    assert known["before"]["reward"] < 0.5 < 0.9 < known["warm_start"]["reward"]
    assert steps[0]["reward"] > 0.9
    assert steps[0][APART] < 1e-5
    assert proofs(record)["PRF010"]["ok"] is True
