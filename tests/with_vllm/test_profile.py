"""vLLM answers the rows of a profile, and one that was stopped goes on to the same bytes."""

import json
import subprocess
from collections.abc import Callable, Sequence

import pytest
import yaml
from small_models import write_random, write_rows
from vllm_servers import environment, warm

pytestmark = pytest.mark.vllm

# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
COMMAND = ("-m", "grpo_recipes.cli.main", "profile")
COLOCATE = {"vllm_mode": "colocate", "vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True}}


Profiled = Callable[..., list[str]]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    """Profiles thirty rows into a file of this name, which may have a partial file beside it; its lines."""
    folder = tmp_path_factory.mktemp("profiled")
    rows = write_rows(folder / "data.jsonl", [{"question": a + b} for a in "abcdefghij" for b in ("", "x", "yz")])
    recipe = {
        "recipe": 1,
        "name": "digit-first",
        "seed": 1,
        "model": {"model_name_or_path": str(write_random(folder / "model"))},
        "dataset": {"path": str(rows), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": "[0-9].*", "full": True}}],
        "generation": {"use_vllm": True, "max_completion_length": 12, **COLOCATE},
        "grpo": {"num_generations": 8},
        "training": {"prompts_per_step": 4, "max_steps": 2},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")

    def lines(name: str, answered: Sequence[str] = ()) -> list[str]:
        if answered:
            (folder / f"{name}.partial.jsonl").write_text("".join(answered))
        done = subprocess.run(
            [warm(), *COMMAND, path, "-o", folder / f"{name}.jsonl", "--samples", "4", *ACCEPTED],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return (folder / f"{name}.jsonl").read_text().splitlines(keepends=True)

    return lines


@pytest.fixture(scope="module")
def whole(profiled: Profiled) -> list[str]:
    """The lines of a profile that nothing stopped."""
    return profiled("whole")


def test_rows_are_answered_by_vllm(whole: list[str]) -> None:
    rates = [json.loads(line)["pass_rate"] for line in whole]
    assert len(rates) == 30
    assert len(set(rates)) > 1


@pytest.mark.long
def test_a_profile_that_was_stopped_is_the_same(whole: list[str], profiled: Profiled) -> None:
    assert profiled("rows", whole[:11]) == whole
