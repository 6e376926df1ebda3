"""vLLM in the training process answers the held-out rows, and the training is the one without them, bit for bit.

Each run is made by the command and trained by the worker, all with one engine, which so goes on from what the runs
before left in it. Two optimizer steps share a generation: every second evaluation falls between them.
"""

import hashlib
import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_models import write_random, write_rows
from vllm_servers import environment, serving, warm

from grpo_recipes.cli.main import main

pytestmark = pytest.mark.vllm

STEPS, TIMEOUT_S = 6, 600
# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
PROMPTS = [a + b for a in "abcdefghij" for b in ("", "x", "yz")]
STOP = "U"
COLOCATE = {"vllm_mode": "colocate", "vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True}}
EVALUATIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "sampled": {"greedy": False, "samples": 4},
    "one sample": {"greedy": False},
    "greedy": {},
    "transformers": {"use_vllm": False},
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a finished run for each of EVALUATIONS."""
    folder = tmp_path_factory.mktemp("held-out")
    model = write_random(folder / "model")
    found = {name: _run_folder(folder, model, name, more) for name, more in EVALUATIONS.items()}
    _train(*found.values(), VLLM_ENABLE_V1_MULTIPROCESSING="0", ENGINE_MODEL=str(model))
    return found


@pytest.fixture(scope="session")
def server_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """As runs, each with a server of its own that is asked."""
    folder = tmp_path_factory.mktemp("served")
    model = write_random(folder / "model")
    found = {}
    for name in ("one sample", "greedy"):
        asked = {**(EVALUATIONS[name] or {}), "use_vllm": True}
        with serving(model, folder / f"{name}.log", "--max-model-len", "64", "--max-num-seqs", "1") as url:
            found[name] = _run_folder(folder, model, name, asked, url)
            _train(found[name], GRPO_RUN_VLLM_URL=url)
    return found


def _train(*folders: Path, **variables: str) -> None:
    done = subprocess.run(
        [warm(), "-Xwarm", Path(__file__).parent / "many_runs.py", *folders],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def _run_folder(folder: Path, model: Path, name: str, more: dict[str, Any] | None, url: str | None = None) -> Path:
    held_out = write_rows(folder / "held-out.jsonl", [{"question": prompt} for prompt in PROMPTS])
    recipe = {
        "recipe": 1,
        "name": "digit-first",
        "seed": 1,
        "model": {"model_name_or_path": str(model)},
        "dataset": {
            "path": str(write_rows(folder / "rows.jsonl", [{"question": one} for one in "klmnopqr"])),
            "prompt": "{{ question }}",
        },
        "rewards": [{"name": "regex_match", "options": {"pattern": "[0-9].*", "full": True}}],
        "generation": {
            "use_vllm": True,
            "max_completion_length": 12,
            "stop": [STOP],
            **(COLOCATE if url is None else {"vllm_mode": "server"}),
        },
        "trl": {} if url is None else {"vllm_server_base_url": url},
        "grpo": {"num_generations": 8, "optimizer_steps_per_generation": 2},
        "training": {"prompts_per_step": 4, "max_steps": STEPS, "learning_rate": 3e-3, "save_steps": 0},
    }
    if more is not None:
        recipe["evaluation"] = {"path": str(held_out), "every_steps": 1, **more}
    path, run = folder / f"{name}.yaml", folder / name.replace(" ", "-")
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--dry-run", "--out", str(run), *ACCEPTED])
    assert ended.value.code in (0, None)
    return run


def _trained_on(run: Path) -> list[list[int]]:
    """The completions of all losses."""
    found: list[list[int]] = json.loads((run / "inputs.json").read_text())["ids"]
    return found


def _weights(run: Path) -> str:
    return hashlib.sha256((run / "final" / "model.safetensors").read_bytes()).hexdigest()


def _answers(run: Path, step: int) -> dict[tuple[int, int], str]:
    """The completions of an evaluation, by row and sample."""
    lines = (run / "evaluation" / f"step-{step}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {(row["row"], row["sample"]): row["completion"] for row in rows}


@pytest.mark.parametrize("name", [name for name in EVALUATIONS if name != "none"])
def test_the_training_is_the_one_without_an_evaluation(name: str, runs: dict[str, Path]) -> None:
    alone, beside = _trained_on(runs["none"]), _trained_on(runs[name])
    assert alone == beside
    assert len(alone) == STEPS * 4 * 8
    assert _weights(runs["none"]) == _weights(runs[name])


def test_vllm_answers_with_the_weights_of_each_step(runs: dict[str, Path]) -> None:
    """As transformers, which always has them; so stops and lengths are the same too."""
    by_vllm, by_transformers = runs["greedy"], runs["transformers"]
    plans = [json.loads((run / "plan.json").read_text())["evaluation"] for run in (by_vllm, by_transformers)]
    assert [plan["generated_by"] for plan in plans] == ["vllm", "transformers"]
    answers = [_answers(by_vllm, step) for step in range(STEPS + 1)]
    assert answers == [_answers(by_transformers, step) for step in range(STEPS + 1)]
    assert all(len(one) == len(PROMPTS) for one in answers)
    assert all(one != after for one, after in pairwise(answers)), "each step moves some answers"
    texts = [text for one in answers for text in one.values()]
    assert any(text.endswith(STOP) for text in texts)
    assert not any(STOP in text[:-1] for text in texts)
    assert any(len(text) == 12 for text in texts), "some reach the longest length"


def test_a_completion_does_not_depend_on_what_is_drawn_beside_it(runs: dict[str, Path]) -> None:
    """Of four samples of a row the first is the one that is drawn alone."""
    for step in range(STEPS + 1):
        several, alone = _answers(runs["sampled"], step), _answers(runs["one sample"], step)
        assert len(several) == 4 * len(PROMPTS)
        assert {draw: text for draw, text in several.items() if draw[1] == 0} == alone
        assert len({several[0, sample] for sample in range(4)}) > 1


@pytest.mark.long
def test_a_server_answers_with_the_same_seeds(runs: dict[str, Path], server_runs: dict[str, Path]) -> None:
    for name in ("one sample", "greedy"):
        plan = json.loads((server_runs[name] / "plan.json").read_text())
        assert (plan["vllm"]["mode"], plan["evaluation"]["generated_by"]) == ("server", "vllm")
        assert _answers(server_runs[name], 0) == _answers(runs[name], 0)
        assert _answers(server_runs[name], STEPS) != _answers(server_runs[name], 0)
