"""Several environments train as in a TRL script that has them by name in `environment_factory`.

Two things differ. grpo-run seeds each step, which TRL does not: a script without that draws the same first step, and
other completions afterwards; the one compared here has those lines. And the shim `less_padding` computes the scores in
narrower batches: the same numbers but for rounding, and the same bits without it.
"""

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import worker_runs
from support.tool_model import write_tool_model
from test_several_environments import GAME, NAMES
from test_several_processes import DDP_YAML
from worker_runs import Changes, environment, events, launch, train

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]

# Both sides write what they were given beside this file, each process its own.
MINE = f"""{GAME}

import json
import os
from pathlib import Path


def even(completions, **_):
    with Path(__file__).with_name(f"said-{{os.environ.get('RANK', '0')}}.jsonl").open("a") as file:
        file.write(json.dumps(completions) + "\\n")
    return [float(said[-1]["content"][-1:] in tuple("02468")) for said in completions]
"""
FIGURES = ("loss", "grad_norm", "reward", "rewards/even/mean")
STEPS, EACH = 2, 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sums: Path) -> Path:
    """The model, rows of which every third has the environment `faults`, the file of the user, and the recipe."""
    made = tmp_path_factory.mktemp("several")
    write_tool_model(made / "model")
    own = [json.loads(line) for line in sums.read_text().splitlines()]
    named = [{**row, "kind": NAMES[place % 3 == 0]} for place, row in enumerate(own)]
    (made / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named))
    (made / "mine.py").write_text(MINE)
    columns = {"solution": "{{ answer }}", "environment": "{{ kind }}"}
    recipe = {
        "recipe": 1,
        "name": "several",
        "seed": 7,
        "model": {"model_name_or_path": "./model", "dtype": "float32"},
        "environments": [{"name": "sums", "python": "mine.py:Adds"}, {"name": "faults", "python": "mine.py:Fails"}],
        "dataset": {"path": "./rows.jsonl", "prompt": "{{ question }}", "columns": columns},
        "rewards": [{"python": "mine.py:even"}],
        "generation": {"max_completion_length": 48, "max_tool_calling_iterations": 3},
        "grpo": {"num_generations": 8},
        "training": {
            "prompts_per_step": 2,
            "max_steps": STEPS,
            "learning_rate": 3e-3,
            "bf16": False,
            "gradient_checkpointing": False,
        },
    }
    (made / "recipe.yaml").write_text(json.dumps(recipe))
    return made


def by_hand(folder: Path, beside: Path, processes: int, *, is_seeded: bool = True) -> list[Changes]:
    """The steps of the script. beside: a folder where its file of the user lies and writes."""
    beside.mkdir()
    (beside / "mine.py").write_text(MINE)
    grpo = {
        "learning_rate": 3e-3,
        "max_steps": STEPS,
        "per_device_train_batch_size": EACH // processes,
        "num_generations": 8,
        "max_completion_length": 48,
        "max_tool_calling_iterations": 3,
        "seed": 7,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
    }
    settings = {"rows": str(folder / "rows.jsonl"), "model": str(folder / "model"), "grpo": grpo}
    (beside / "settings.json").write_text(json.dumps({**settings, "is_seeded": is_seeded}))
    (beside / "accelerate.yaml").write_text(DDP_YAML)
    started = ["-m", "accelerate.commands.launch", "--config_file", "accelerate.yaml"] if processes == 2 else []
    script = Path(__file__).with_name("hand_written_with_environments.py")
    output = _run([worker_runs.PYTHON, *started, str(script), "settings.json"], beside)
    found: list[Changes] = json.loads(
        next(line for line in output.splitlines() if "STEPS" in line).partition("STEPS")[2]
    )
    return found


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(PYTHONPATH=str(Path(__file__).parents[2]), XDG_CONFIG_HOME=str(folder / "config")),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def said(folder: Path, processes: int) -> list[Any]:
    """The completions of each step and process, as messages with calls and replies."""
    files = [folder / f"said-{rank}.jsonl" for rank in range(processes)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def _figures(steps: list[Changes], names: tuple[str, str]) -> list[list[float | None]]:
    return [[step[name] for name in (*FIGURES, *(f"rewards/{each}/mean" for each in names))] for step in steps]


@pytest.fixture(scope="module")
def seeded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[list[Changes], list[Any]]]:
    """The steps of the script with seeds, and the completions of each process, by the number of processes."""
    beside = tmp_path_factory.mktemp("seeded")

    def trained(processes: int) -> tuple[list[Changes], list[Any]]:
        hand = beside / str(processes)
        return by_hand(folder, hand, processes), said(hand, processes)

    return functools.cache(trained)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_losses_rewards_and_completions_are_those_of_a_hand_written_script(
    processes: int,
    folder: Path,
    seeded: Callable[[int], tuple[list[Changes], list[Any]]],
    make_run: Callable[..., Path],
    tmp_path: Path,
) -> None:
    steps, texts = seeded(processes)
    expected = _figures(steps, ("Adds", "Fails"))

    cli = [worker_runs.PYTHON, "-m", "grpo_recipes.cli.main", "recipe.yaml", "--allow-code", "here"]
    _run([*cli, "--out", str(tmp_path / "own"), "--set", f"launch.num_processes={processes}"], folder)

    own = tmp_path / "own"
    assert said(own / "worker" / "user", processes) == texts
    figures = _figures(events(own, "step"), NAMES)
    assert len(figures) == STEPS and all(loss != 0 for loss, *_ in figures)
    assert [step[2:] for step in figures] == [step[2:] for step in expected]
    for step, by_trl in zip(figures, expected, strict=True):
        assert step[:2] == pytest.approx(by_trl[:2], rel=1e-4)

    plan = json.loads((own / "plan.json").read_text())
    assert plan["shims"].pop("less_padding")
    exact = make_run(plan, "exact", user={"mine.py": MINE})
    code, output = train(exact) if processes == 1 else launch(exact, DDP_YAML)
    assert code == 0, output
    assert said(exact / "worker" / "user", processes) == texts
    assert _figures(events(exact, "step"), NAMES) == expected


def test_a_script_that_does_not_seed_each_step_draws_other_completions_after_the_first(
    folder: Path, seeded: Callable[[int], tuple[list[Changes], list[Any]]], tmp_path: Path
) -> None:
    _, (texts,) = seeded(1)
    by_hand(folder, tmp_path / "without", 1, is_seeded=False)
    (without,) = said(tmp_path / "without", 1)
    assert texts[0] != without[0], "the first step is seeded too"
    assert texts[1:] != without[1:]
