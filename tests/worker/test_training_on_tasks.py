"""A training on rows of reasoning-gym, and what stops it: the real package, TRL and the quickstart's model.

Of the package's sources most tests import two tasks alone: all of them take a second in each process.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from worker_runs import events, planned_data

from grpo_recipes.contract.host.installing import install_command
from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.tasks import task_rows

pytestmark = pytest.mark.stack

Command = Callable[..., "subprocess.CompletedProcess[str]"]

MODEL = Path(__file__).parents[2] / "recipes" / "quickstart" / "model"
SUMS = {"max_terms": 2, "max_digits": 2}
RECIPE: dict[str, Any] = {
    "recipe": 1,
    "name": "tasks",
    "model": {"model_name_or_path": str(MODEL)},
    "dataset": {
        "reasoning_gym": {
            "size": 24,
            "seed": 1,
            "tasks": [{"name": "chain_sum", "weight": 2, "config": SUMS}, {"name": "number_sorting"}],
        },
        # the model knows sums alone, as 17+25=
        "prompt": "{{ question.rpartition(': ')[2] | replace(' ', '') if task == 'chain_sum' else '17+25=' }}",
    },
    "rewards": [{"name": "reasoning_gym", "options": {"answer_in": "last_line"}}],
    "evaluation": {"reasoning_gym": {"size": 6, "seed": 2}},
    "generation": {"max_completion_length": 6, "use_vllm": False},
    "grpo": {"num_generations": 4},
    "training": {"prompts_per_step": 4, "max_steps": 2, "save_steps": 1},
}


@pytest.fixture(scope="module")
def two_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's own sources, of which two tasks are imported."""
    spec = find_spec("reasoning_gym")
    assert spec is not None
    assert spec.origin is not None
    folder = tmp_path_factory.mktemp("two")
    package = folder / "reasoning_gym"
    kept = ("*.py", "arithmetic", "algorithmic", "coaching")
    shutil.copytree(
        Path(spec.origin).parent,
        package,
        ignore=lambda _, names: {name for name in names if not any(fnmatch(name, one) for one in kept)},
    )
    (package / "arithmetic" / "__init__.py").write_text("from . import chain_sum\n")
    (package / "algorithmic" / "__init__.py").write_text("from . import number_sorting\n")
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(
        re.sub(r"from \. import \([^)]*\)", "from . import algorithmic, arithmetic", text)
    )
    return folder


@pytest.fixture(scope="module")
def command(warm_python: Path, two_tasks: Path) -> Command:
    """Runs grpo-run, whose trainings have the libraries already. beside: a folder whose packages win."""

    def run(*words: str, cwd: Path, beside: Path | None = two_tasks) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        environment |= {} if beside is None else {"PYTHONPATH": str(beside)}
        program = [str(warm_python / "grpo-run"), *words]
        return subprocess.run(program, cwd=cwd, capture_output=True, text=True, env=environment, timeout=500)

    return run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    return folder


@pytest.fixture(scope="module")
def run(project: Path, command: Command) -> Path:
    done = command("run", "recipe.yaml", "--out", "run", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    return project / "run"


@pytest.fixture(scope="module")
def other_scorer(two_tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with a scorer of sums that has one line more; its rows are the same."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(two_tasks, folder, dirs_exist_ok=True)
    with (folder / "reasoning_gym/arithmetic/chain_sum.py").open("a") as file:
        file.write("MORE = 1\n")
    return folder


def test_two_steps_with_the_tasks_own_scores(run: Path) -> None:
    plan, record = (json.loads((run / name).read_text()) for name in ("plan.json", "run.json"))
    assert [plan["data"]["rows"], plan["evaluation"]["data"]["rows"]] == [24, 6]
    assert record["verified"]["dataset.rows"] == 24
    assert set(plan["data"]["made"]["reasoning_gym"]["scorers"]) == {"chain_sum", "number_sorting"}
    assert plan["stack"]["packages"]["reasoning-gym"]
    steps = events(run, "step")
    assert [step["step"] for step in steps] == [1, 2]
    assert all(0.0 <= step["rewards/reasoning_gym/mean"] <= 1.0 for step in steps)
    assert max(step["rewards/reasoning_gym/mean"] for step in steps) > 0.0
    assert all("reasoning_gym/not_scored" in step for step in steps)
    card = (run / "final" / "README.md").read_text(encoding="utf-8")
    made = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])["data"]["made"]["reasoning_gym"]
    assert ([task["name"] for task in made["tasks"]], made["size"], made["seed"]) == (
        ["chain_sum", "number_sorting"],
        24,
        1,
    )


def test_a_run_that_goes_on_draws_the_same_rows(run: Path, project: Path, command: Command) -> None:
    done = command("run", str(run), "--extend", "training.max_steps=3", "--out", "longer", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    plans, records = (
        [json.loads((folder / name).read_text()) for folder in (run, project / "longer")]
        for name in ("plan.json", "run.json")
    )
    assert plans[0]["data"] == plans[1]["data"]
    assert records[0]["verified"] == records[1]["verified"]
    assert records[1]["step"] == 3


@pytest.mark.long
def test_the_whole_package_trains_the_same(run: Path, project: Path, command: Command) -> None:
    done = command("run", "recipe.yaml", "--out", "whole", cwd=project, beside=None)
    assert done.returncode == 0, done.stdout + done.stderr
    plans, steps = (
        [json.loads((folder / "plan.json").read_text())["data"] for folder in (run, project / "whole")],
        [
            [line["rewards/reasoning_gym/mean"] for line in events(folder, "step")]
            for folder in (run, project / "whole")
        ],
    )
    assert plans[0] == plans[1]
    assert steps[0] == steps[1]


def test_another_scorer_is_drift_and_is_not_launched(
    run: Path, other_scorer: Path, project: Path, command: Command
) -> None:
    done = command("run", str(run), "--validate-only", "--json", cwd=project, beside=other_scorer)
    lines = json.loads(done.stdout)["lines"]
    assert [line["what"] for line in lines if (line["state"], line["kind"]) == ("differs", "experiment")] == [
        "dataset.made.reasoning_gym.scorers.chain_sum"
    ]


def test_the_worker_stops_where_its_package_is_another_one(
    other_scorer: Path, project: Path, command: Command, warm_python: Path
) -> None:
    planned = command("run", "recipe.yaml", "--out", "planned", "--dry-run", cwd=project)
    assert planned.returncode == 0, planned.stderr
    python = str(warm_python / "python")
    environment = {**os.environ, "PYTHON": python, "PYTHONPATH": str(other_scorer), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "planned/launch.sh"], cwd=project, capture_output=True, text=True, env=environment, check=False
    )
    record = json.loads((project / "planned" / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("stopped", 3), done.stdout + done.stderr
    assert "the scorers of reasoning_gym differ from the plan" in done.stdout + done.stderr


def made(**changes: Any) -> Data:
    spec = {"tasks": [{"name": "chain_sum", "weight": 1, "config": SUMS}], "size": 8, "seed": 1}
    known = {"source": "made", "path": "", "format": None, "columns": {}, "made": {"reasoning_gym": spec}}
    return Data(**planned_data(Path()) | known | changes)


def test_other_rows_than_the_plans_are_refused(tmp_path: Path) -> None:
    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.data.dataset import prepare_rows

    rows = prepare_rows(made(), "dataset", tmp_path / "cache", 0)
    assert [message["content"] for message in rows[0]["prompt"]] == [rows[0]["question"]]
    assert rows.column_names[:5] == ["question", "answer", "task", "task_config", "metadata"]
    with pytest.raises(Refused, match="the rows of reasoning_gym differ from the plan"):
        prepare_rows(made(sha256="0" * 64), "dataset", tmp_path / "cache", 0)


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.data.dataset import prepare_rows

    (tmp_path / "reasoning_gym.py").write_text("raise ImportError('no module named reasoning_gym')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task_rows._make_in_process.cache_clear()
    with pytest.raises(Refused) as stopped:
        prepare_rows(made(), "dataset", tmp_path / "cache", 0)
    assert install_command(["reasoning-gym"], "reasoning-gym") in stopped.value.findings[0].because[0]
    task_rows._make_in_process.cache_clear()


def test_a_config_that_the_package_refuses_is_named_before_anything_starts(
    project: Path, tmp_path: Path, command: Command
) -> None:
    words = ("--set", "dataset.reasoning_gym.tasks[0].config.min_terms=7")
    for name in ("run", "preflight"):
        out = ("--out", str(tmp_path / "run")) if name == "run" else ()
        done = command(name, "recipe.yaml", *words, *out, cwd=project)
        assert done.returncode != 0
        assert "max_terms must be >= min_terms" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def looked_at(project: Path, command: Command) -> Callable[..., str]:
    def run(*words: str) -> str:
        return command("preflight", "recipe.yaml", "--rows", "8", *words, cwd=project).stdout

    return run


def test_preflight_shows_rows_and_what_the_real_scorer_gives(looked_at: Callable[..., str]) -> None:
    text = looked_at("--set", "dataset.prompt=null")
    assert "RWD013" not in text
    assert re.search(r"^rows +24, 8 of them examined closely$", text, re.MULTILINE), text
    assert re.search(r"^evaluation +6 rows$", text, re.MULTILINE)
    table = re.search(
        r"^reward +weight +gold +empty +words +noise .*\nreasoning_gym +1 +(\S+) +(\S+) ", text, re.MULTILINE
    )
    assert table is not None, text
    assert (float(table[1]), float(table[2])) == (1.0, 0.0)


def test_preflight_names_right_answers_that_do_not_score_one(looked_at: Callable[..., str]) -> None:
    """The recipe's own column wins, and the task's scorer cannot read it."""
    tasks = "dataset.reasoning_gym.tasks=[{name: number_sorting}]"
    text = looked_at("--set", tasks, "--set", "dataset.columns={answer: 'the list {{ answer }}'}")
    assert re.search(r"warning: the right answers of (\d) of \1 rows score less than 1.0 by reasoning_gym", text), text
