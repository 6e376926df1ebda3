"""A step's figures are those of its trained tokens, however it is cut, and of completions that count as cut alike."""

import functools
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import environment

pytestmark = pytest.mark.stack
LONGEST = 12  # completions of this length are cut
CUT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "num_iterations": 2}
MASKED = {**CUT, "mask_truncated_completions": True}
NOTHING = {**MASKED, "lengths": [12], "writes_pads": False}
LENGTHS = [12, 12, 12, 12, 3, 9, 12, 12, 5, 12, 12, 7, 12]
CASES: dict[str, dict[str, Any]] = {
    "bnpo": {**MASKED, "loss_type": "bnpo", "shim": "packed"},
    "entropy quantile": {**MASKED, "loss_type": "dapo", "top_entropy_quantile": 0.5, "shim": "packed"},
    "entropy bonus": {**MASKED, "loss_type": "grpo", "entropy_coef": 0.1, "shim": "packed"},
    "unlisted family": {**MASKED, "loss_type": "grpo", "kind": "GPT2", "shim": "sorted"},
    "without less padding": {**MASKED, "loss_type": "dapo"},
    "sorted": {**MASKED, "loss_type": "dapo", "shim": "sorted"},
    "sequence ratios": {**MASKED, "loss_type": "grpo", "importance_sampling_level": "sequence"},
    "nothing trained": {**NOTHING, "loss_type": "grpo"},
    "nothing trained, vespo": {**NOTHING, "loss_type": "vespo"},
    "nothing trained, sorted": {**NOTHING, "loss_type": "dr_grpo", "shim": "sorted"},
}


def _random_cases() -> dict[str, dict[str, Any]]:
    draw, cases = random.Random(7), {}
    for number in range(11):
        size = draw.choice([1, 2, 4, 8])
        cases[f"random {number}"] = {
            "loss_type": draw.choice(["grpo", "bnpo", "dr_grpo", "dapo"]),
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": 16 // size,
            "num_iterations": draw.choice([1, 2]),
            "mask_truncated_completions": draw.choice([True, True, False]),
            "importance_sampling_level": draw.choice(["token", "token", "sequence"]),
            "beta": draw.choice([0.0, 0.1]),
            "epsilon": draw.choice([0.01, 0.2]),
            "shim": draw.choice([None, "packed", "sorted"]),
            "lengths": draw.sample(LENGTHS, 9),
        }
    return cases


RANDOM = _random_cases()


@pytest.fixture(scope="module")
def found_of(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What figure_experiments.py finds for a case, with all that are random or all others."""

    @functools.cache
    def compared(is_random: bool) -> dict[str, dict[str, Any]]:
        cases = {name: {"lengths": LENGTHS, **case} for name, case in (RANDOM if is_random else CASES).items()}
        return _compared(cases, warm_python, tmp_path_factory.mktemp("figures"))

    return lambda name: compared(name in RANDOM)[name]


def _compared(cases: dict[str, dict[str, Any]], warm_python: Path, folder: Path) -> dict[str, dict[str, Any]]:
    script = Path(__file__).parents[1] / "stacks" / "figure_experiments.py"
    command = [str(warm_python / "python"), "-Xwarm", str(script), str(folder)]
    done = subprocess.run([*command, json.dumps(cases)], env=environment(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND"))
    found: dict[str, dict[str, Any]] = json.loads(line.removeprefix("FOUND"))
    return found


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.long) for name in RANDOM)])
def test_the_figures_are_those_of_the_rows(name: str, found_of: Callable[[str], dict[str, Any]]) -> None:
    found = found_of(name)
    assert len(found["logged"]) == 4
    for logged, rows in zip(found["logged"], found["rows"], strict=True):
        own = {
            key: value
            for key, value in logged.items()
            if key in ("entropy", "kl") or key.startswith(("clip_ratio/", "vespo/"))
        }
        assert own.keys() >= rows.keys()
        assert {key: own[key] for key in rows} == pytest.approx(rows, rel=1e-4, abs=1e-6)
        assert rows or not own
    if "nothing" not in name and "random" not in name:
        assert min(found["tokens"]) == 0 < max(found["tokens"]), "the case needs a micro-batch without a trained token"


@pytest.mark.parametrize("name", ["bnpo", "without less padding", "nothing trained"])
def test_the_figures_agree_on_what_was_cut(name: str, found_of: Callable[[str], dict[str, Any]]) -> None:
    found = found_of(name)
    lines = [line for line in found["logged"] if "completions/ended_by_length" in line]
    assert len(lines) == 2  # one for each generation
    for number, line in enumerate(lines):
        lengths = found["drawn"][16 * number : 16 * (number + 1)]
        ended = [length for length in lengths if length < LONGEST] or [0]
        share = lengths.count(LONGEST) / 16
        assert line["completions/ended_by_length"] == line["completions/clipped_ratio"] == share
        assert line["completions/ended_by_eos"] == 1 - share
        assert line["completions/max_terminated_length"] == max(ended)
        assert line["completions/mean_terminated_length"] == pytest.approx(sum(ended) / len(ended))
