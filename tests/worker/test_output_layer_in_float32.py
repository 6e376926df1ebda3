"""Trainings whose output layer computes in float32 beside weights in half precision."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiny_models import write_tiny_model
from worker_runs import Changes, Trained, plan_of

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_tiny_model(tmp_path_factory.mktemp("models") / "untied")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    return folder


def half(plan: Changes, *, is_cast: bool = True) -> Changes:
    """The plan with weights in bfloat16."""
    plan["arguments"]["GRPOConfig"] |= {"cast_lm_head_to_fp32": is_cast, "max_steps": 2}
    plan["arguments"]["model_init_kwargs"]["dtype"] = "bfloat16"
    plan["expect"]["weights_dtype"] = "bfloat16"
    plan["expect"]["arguments"]["beta"] = plan["arguments"]["GRPOConfig"]["beta"]
    return plan


@pytest.mark.parametrize(
    ("mode", "beta", "is_tied"),
    [("full", 0.0, True), ("full", 0.1, True), ("full", 0.1, False), ("lora", 0.0, False)],
)
def test_a_cast_output_layer_is_trained(
    mode: str,
    beta: float,
    is_tied: bool,
    trained: Callable[..., Trained],
    tiny_model: Path,
    untied_model: Path,
    sums: Path,
) -> None:
    plan = half(plan_of(tiny_model if is_tied else untied_model, sums, mode, arguments={"beta": beta}))
    run = trained(plan)
    assert run.exit_code == 0, run.output
    proofs = run.proofs()
    assert all(proofs[identity]["ok"] for identity in ("PRF006", "PRF007")), proofs


@pytest.mark.parametrize(
    ("fault", "identity"), [("head_stays_in_half_precision", "PRF015"), ("weights_in_single_precision", "PRF006")]
)
def test_other_dtypes_beside_a_cast_output_layer_are_found(
    fault: str, identity: str, trained: Callable[..., Trained], untied_model: Path, sums: Path
) -> None:
    run = trained(half(plan_of(untied_model, sums)), fault)
    assert run.exit_code == 3, run.output
    assert identity in run.output


def test_a_layer_in_float32_that_was_not_cast_is_found(
    trained: Callable[..., Trained], untied_model: Path, sums: Path
) -> None:
    run = trained(half(plan_of(untied_model, sums), is_cast=False), "head_in_single_precision")
    assert run.exit_code == 3, run.output
    assert "live 'bfloat16, float32'" in run.output
