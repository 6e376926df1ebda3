"""vLLM loads what is exported, and says of completions what the trained model says."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from vllm_servers import environment, warm

pytestmark = pytest.mark.vllm

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
SMALL = ("training.max_steps=4", "training.learning_rate=1e-2", "training.save_steps=0", "evaluation.max_rows=8")
TIMEOUT_S = 900


def _done(*words: object) -> str:
    done = subprocess.run(
        [warm(), *map(str, words)], capture_output=True, text=True, env=environment(), timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA run of the quickstart."""
    folder = tmp_path_factory.mktemp("exports") / "run"
    options = [word for value in SMALL for word in ("--set", value)]
    _done("-m", "grpo_recipes.cli.main", RECIPE, "--out", folder, *options)
    return folder


def _trained(run: Path) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens of sums with their answers, and what PEFT's model says of them."""
    import torch
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run / "final")
    model: Any = AutoPeftModelForCausalLM.from_pretrained(run / "final").eval()
    texts = [tokenizer(f"{a}+{b}={a + b}")["input_ids"] for a, b in ((17, 25), (48, 57), (93, 8))]
    said = []
    for ids in texts:
        with torch.no_grad():
            every = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        said.append([every[place - 1, token].item() for place, token in enumerate(ids) if place])
    return texts, said


@pytest.mark.parametrize("what", [pytest.param("--merge", marks=pytest.mark.long), "--adapter"])
def test_vllm_loads_an_export_and_agrees_with_the_trained_model(what: str, run: Path, tmp_path: Path) -> None:
    place = tmp_path / "exported"
    _done("-m", "grpo_recipes.cli.main", "export", run, what, "-o", place)
    texts, said = _trained(run)
    base = json.loads((run / "plan.json").read_text())["model"]["path"]
    words = (place, json.dumps(texts)) if what == "--merge" else (base, json.dumps(texts), place)
    lines = _done("-Xwarm", Path(__file__).with_name("log_probs_of.py"), *words).splitlines()  # vLLM prints there too
    found = json.loads(next(line for line in lines if line.startswith("[[")))
    for ours, theirs in zip(said, found, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-3)
