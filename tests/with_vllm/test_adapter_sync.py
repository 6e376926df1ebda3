"""The shim `adapter_sync` (SHM028): vLLM generates under the adapter that is trained, and a broken hand-over is caught.

No stand-in has a part in it: on the CPU, too, vLLM loads an adapter through its own interface.
"""

import signal
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from cpu_weights.broken_adapters import LATER
from digit_first import APART, COLOCATE, SERVER, STEPS, TIMEOUT_S, command, found, proofs, start, train
from small_models import write_random

from grpo_recipes.worker.vllm.sampled import EVERY

pytestmark = pytest.mark.vllm

Record = dict[str, Any]
ADAPTER = {"weight_sync": "adapter"}
LORA = {"lora": {"r": 16, "lora_alpha": 64, "target_modules": "all-linear"}}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model."""
    return write_random(tmp_path_factory.mktemp("models") / "untrained")


IN_TWO = LORA | {"launch": {"num_processes": 2}}
ON_4_BITS = LORA | {"quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}}
TRAININGS = [
    pytest.param(COLOCATE, LORA, 1e-5, id="colocate", marks=pytest.mark.long),
    pytest.param(SERVER, LORA, 1e-5, id="server", marks=pytest.mark.long),
    pytest.param(COLOCATE, IN_TWO, 1e-5, id="colocate in two processes", marks=pytest.mark.long),
    pytest.param(SERVER, IN_TWO, 1e-5, id="server of two processes", marks=pytest.mark.long),
    # TRL keeps the adapter of a quantized model in bfloat16.
    pytest.param(COLOCATE, ON_4_BITS, 1e-2, id="colocate on 4 bits"),
    pytest.param(SERVER, ON_4_BITS, 1e-2, id="server on 4 bits", marks=pytest.mark.long),
    pytest.param(COLOCATE, IN_TWO | ON_4_BITS, 1e-2, id="colocate on 4 bits in two processes", marks=pytest.mark.long),
    pytest.param(SERVER, IN_TWO | ON_4_BITS, 1e-2, id="server on 4 bits of two processes", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("where", "what", "most"), TRAININGS)
def test_vllm_generates_under_the_adapter_that_is_trained(
    where: Record, what: Record, most: float, model: Path, tmp_path: Path
) -> None:
    record, steps = train(tmp_path, model, where | ADAPTER, what)
    assert len(steps) == STEPS
    assert record["shims"]["adapter_sync"] == "vLLM gets the adapter alone"
    assert max(step[APART] for step in steps) < most
    assert (tmp_path / "run" / "dequantized_model" / "model.safetensors").exists() == ("quantization" in what)
    assert {proof["ok"] for proof in record["proofs"]} == {True}
    assert {"PRF010", "PRF011"} <= set(proofs(record))
    rewards = [step["reward"] for step in steps]
    assert fmean(rewards[-5:]) > fmean(rewards[:5]), "it learned"
    folders = list((tmp_path / "run" / "cache").glob("adapter-*"))
    assert len(folders) == (2 if "launch" in what and where is COLOCATE else 1), "one for each engine"
    assert all(len(list(folder.iterdir())) == 1 for folder in folders), "older adapters are gone"


@pytest.mark.long
def test_an_adapter_and_all_weights_train_the_same(model: Path, tmp_path: Path) -> None:
    # Merged weights are rounded otherwise, which sooner or later draws another token: sooner with larger steps.
    slowly = LORA | {"training": {"learning_rate": 1e-3, "max_steps": 10}}
    runs = []
    for sync in ("adapter", "full"):
        (tmp_path / sync).mkdir()
        runs.append(train(tmp_path / sync, model, COLOCATE | {"weight_sync": sync}, slowly)[1])
    adapter, full = runs
    assert [step["reward"] for step in adapter] == [step["reward"] for step in full]
    assert [step["loss"] for step in adapter] == pytest.approx([step["loss"] for step in full], abs=1e-5)


RESUMED = [
    pytest.param(COLOCATE, "adapter", LORA, 1e-5, id="colocate"),
    pytest.param(SERVER, "adapter", LORA, 1e-5, id="server"),
    pytest.param(COLOCATE, "adapter", ON_4_BITS, 1e-2, id="colocate on 4 bits"),
    pytest.param(COLOCATE, "full", LORA, 1e-5, id="all weights"),
]


@pytest.mark.long
@pytest.mark.parametrize(("where", "sync", "what", "most"), RESUMED)
def test_a_resumed_run_samples_with_what_it_had_learned(
    where: Record, sync: str, what: Record, most: float, model: Path, tmp_path: Path
) -> None:
    process = start(tmp_path, model, where | {"weight_sync": sync}, what)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and '"step":7' in metrics.read_text().replace(" ", "")):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 75, said[-6000:]
    process = command(str(tmp_path / "run"), "--resume")
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said[-6000:]
    record, steps = found(tmp_path)
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert max(step[APART] for step in steps) < most
    assert {proof["ok"] for proof in record["proofs"]} == {True}


BROKEN = [
    pytest.param("never", 2, id="never handed over", marks=pytest.mark.long),
    pytest.param("once", 2, id="handed over once", marks=pytest.mark.long),
    pytest.param("name", 2, id="under a name that vLLM knows", marks=pytest.mark.long),
    pytest.param("behind", 3, id="one version behind", marks=pytest.mark.long),
    pytest.param("twice", 2, id="on a base that has it already", marks=pytest.mark.long),
    pytest.param("stale", 3, id="with prompts that were computed before", marks=pytest.mark.long),
    pytest.param("later", EVERY, id="no more after some steps", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("how", "by"), BROKEN)
def test_a_broken_hand_over_of_an_adapter_stops_the_run(how: str, by: int, model: Path, tmp_path: Path) -> None:
    more = LORA | {"training": {"max_steps": EVERY + 10}}
    where = COLOCATE | ADAPTER
    if how == "stale":  # vLLM keeps whole blocks of prompts
        more = more | {"dataset": {"prompt": "{{ question * 48 }}"}}
        where = where | {"vllm_engine": {"enforce_eager": True, "block_size": 32}}
    record, steps = train(tmp_path, model, where, more, code=3, GRPO_TEST_ADAPTER=how)
    assert proofs(record)["PRF011"]["ok"] is False
    assert "the weights did not reach vLLM" in record["message"]
    assert len(steps) < by
    assert how != "later" or len(steps) >= LATER
