"""What notebooks call: values and exceptions with findings, nothing printed, nothing written, no torch."""

import builtins
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_recipe import BASE, STACK

from grpo_recipes.api import Refusal, load, metrics, plan, runs, validate
from grpo_recipes.stack.target import parse_target

ROOT = Path(__file__).parents[2]
QUICKSTART = "recipes/quickstart.yaml"


@pytest.fixture(autouse=True)
def silent(capsys: pytest.CaptureFixture[str]) -> Any:
    """Nothing is printed."""
    yield
    assert capsys.readouterr() == ("", "")


def said(folder: Path) -> dict[str, Any]:
    (folder / "recipe.yaml").write_text(BASE)
    return load(folder / "recipe.yaml").values


def test_a_file_a_dict_and_what_was_loaded_are_one_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(QUICKSTART)
    (tmp_path / "copy.yaml").write_text(loaded.text)
    plans = [plan(one, target=STACK) for one in (QUICKSTART, loaded, loaded.values, Path(QUICKSTART))]
    monkeypatch.chdir(tmp_path)  # paths are absolute
    plans += [plan(one, target=STACK) for one in (loaded.values, "copy.yaml")]
    same = [(one.arguments, one.model, one.data, one.rewards, one.batch, one.expect) for one in plans]
    assert same == [same[0]] * 6


def test_a_plan_is_that_of_the_command(grpo_run: Callable[..., Any]) -> None:
    told = json.loads(grpo_run("plan", QUICKSTART, "--target", STACK, "--json").out)
    planned = plan(QUICKSTART, target=STACK)
    assert [[one.key, one.value, one.origin] for one in planned.settings] == [
        [one["key"], one["value"], one["origin"]] for one in told["settings"]
    ]


def test_overrides_are_values_and_come_on_top_of_each_other() -> None:
    once = load(QUICKSTART, {"training.learning_rate": 1e-6, "rewards[0].weight": 2, "name": "a: b"})
    twice = load(once, {"training.max_steps": 5})
    assert twice.values["training"]["learning_rate"] == 1e-6
    assert twice.values["rewards"][0]["weight"] == 2
    assert (twice.values["name"], twice.values["training"]["max_steps"]) == ("a: b", 5)


def test_findings_are_those_of_the_command_and_a_plan_raises_its_errors(
    tmp_path: Path, grpo_run: Callable[..., Any]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(BASE.replace("max_steps: 10", "max_steps: -10, leaning_rate: 1"))
    told = json.loads(grpo_run("validate", str(file), "--target", STACK, "--json").out)["findings"]
    findings = validate(file, target=STACK)
    assert [(one.rule, one.message) for one in findings] == [(one["rule"], one["message"]) for one in told]
    with pytest.raises(Refusal, match="max_steps") as refused:
        plan(file, target=STACK)
    assert refused.value.findings == tuple(one for one in findings if one.severity == "error")


def test_strict_and_accept_are_those_of_the_command(tmp_path: Path) -> None:
    values = said(tmp_path)
    loose, strict = (validate(values, target="trl==1.16.0,gpus=0", strict=word) for word in (False, True))
    assert [one.severity for one in loose if one.severity == "not-checked"]
    assert not [one for one in strict if one.severity == "not-checked"]
    with pytest.raises(Refusal, match="there is no such rule"):
        validate(values, target=STACK, accept=["XXX001"])
    assert validate(values, target=STACK, accept="GEN001") == validate(values, target=STACK)


def test_a_stack_may_be_a_value() -> None:
    stack, _ = parse_target(STACK)
    assert stack is not None
    assert validate(QUICKSTART, target=stack) == validate(QUICKSTART, target=STACK)
    for target in ("trl==nonsense", 5):
        with pytest.raises(Refusal):
            validate(QUICKSTART, target=target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recipe", "overrides", "words"),
    [
        ("gone.yaml", {}, "gone.yaml does not exist"),
        ({"recipe": object()}, {}, "YAML cannot write"),
        (QUICKSTART, {"": 1}, "--set"),
        (5, {}, "a recipe cannot be of type int"),
        (QUICKSTART, ["grpo.beta=1"], "overrides cannot be of type list"),
        (QUICKSTART, {"grpo.beta": float("inf")}, "grpo.beta: inf is not a value that a recipe can have"),
        (QUICKSTART, {"grpo.beta": object}, "is not a value that a recipe can have"),
    ],
    ids=["a file that is missing", "no YAML", "no key", "no recipe", "no dict", "infinity", "a class"],
)
def test_what_cannot_be_read_is_raised(recipe: Any, overrides: dict[str, object], words: str) -> None:
    with pytest.raises(Refusal) as refused:
        load(recipe, overrides)
    assert words in str(refused.value) + str(refused.value.findings)


@pytest.mark.parametrize("rewards", [3, "exact_match", [3], None, {"a": 1}], ids=str)
def test_a_dict_of_any_form_is_loaded_and_judged(rewards: object, tmp_path: Path) -> None:
    values = {**said(tmp_path), "rewards": rewards}
    assert [one for one in validate(values, target=STACK) if one.severity == "error"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder that has measured something."""
    made = tmp_path / "runs" / "one"
    made.mkdir(parents=True)
    events = [{"event": "start", "step": 0, "max_steps": 2}, {"event": "evaluation", "step": 0, "reward": 0.5}]
    events += [{"event": "step", "step": step, "reward": step / 2, "loss": None} for step in (1, 2)]
    (made / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "st')
    return made


def test_metrics_are_rows_of_one_kind(folder: Path) -> None:
    assert metrics(folder, frame=False) == [
        {"step": 1, "reward": 0.5, "loss": None},
        {"step": 2, "reward": 1.0, "loss": None},
    ]
    assert metrics(folder, "evaluation", frame=False) == [{"step": 0, "reward": 0.5}]
    assert metrics(folder, "guard", frame=False) == []
    with pytest.raises(Refusal, match="it has no metrics"):
        metrics(folder.parent)


def test_metrics_are_a_frame_where_pandas_is(folder: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(metrics(folder), pandas.DataFrame)
    assert metrics(folder, frame=True)["reward"].tolist() == [0.5, 1.0]


def test_metrics_are_dicts_where_pandas_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ImportError("no pandas")
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert metrics(folder) == metrics(folder, frame=False)
    with pytest.raises(ImportError, match="no pandas"):
        metrics(folder, frame=True)


def test_runs_are_the_rows_of_the_command(tmp_path: Path, grpo_run: Callable[..., Any]) -> None:
    for name, rate in (("a", "1e-5"), ("b", "2e-5")):
        out = str(tmp_path / "runs" / name)
        words = ("--set", f"training.learning_rate={rate}", "--target", STACK, "--out", out)
        assert grpo_run(QUICKSTART, "--dry-run", *words).code == 0
    told = json.loads(grpo_run("runs", str(tmp_path / "runs"), "--json").out)
    assert runs(tmp_path / "runs") == told["runs"]
    assert {run["values"]["training.learning_rate"] for run in runs(tmp_path / "runs")} == {1e-5, 2e-5}
    with pytest.raises(Refusal, match="cannot be listed"):
        runs(tmp_path / "nowhere")


@pytest.mark.processes
def test_it_imports_nothing_heavy_and_the_package_alone_imports_nothing() -> None:
    program = (
        "import sys, grpo_recipes; assert 'pydantic' not in sys.modules\n"
        "from grpo_recipes.api import plan\n"
        f"plan({QUICKSTART!r}, target={STACK!r})\n"
        "print([name for name in ('torch', 'transformers', 'pandas', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout == "[]\n"
