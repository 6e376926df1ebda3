"""A list of runs: what it says of each folder, which are shown, and how it fits into a terminal."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plans import small_plan
from support.work import calls

from grpo_recipes.contract.files.folder_lock import TRAINING
from grpo_recipes.contract.plan import PlannedSetting, to_json
from grpo_recipes.report.runs.run_row import read_runs
from grpo_recipes.report.runs.runs_text import differing, runs_table

PLAN = to_json(small_plan())
HELD_OUT = {"before": {"reward": 0.25}, "after": {"reward": 0.75}}
DONE = {"run": 1, "status": "completed", "step": 12, "max_steps": 12, "train_wall_s": 65.0, "evaluation": HELD_OUT}
STEPS = "".join(f'{{"event": "step", "step": {step}, "time": 1, "reward": {step / 10}}}\n' for step in range(1, 13))


def made(place: Path, values: dict[str, Any] | None = None, record: dict[str, Any] | None = None) -> Path:
    """A run folder with so many values in its plan, a record and twelve steps."""
    place.mkdir(parents=True)
    rows = [PlannedSetting(key, value, "r.yaml:1:1", "", key, "experiment") for key, value in (values or {}).items()]
    (place / "plan.json").write_text(to_json(replace(small_plan(), settings=tuple(rows))))
    (place / "launch.sh").write_text("")
    if record is not None:
        (place / "run.json").write_text(json.dumps(record))
        (place / "metrics.jsonl").write_text(STEPS)
    return place


def listed(grpo_run: Callable, *words: str) -> Any:
    answer = grpo_run("runs", *words, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def names(grpo_run: Callable, *words: str) -> list[str]:
    return [run["name"] for run in listed(grpo_run, *words)["runs"]]


def test_a_run_is_told_by_its_record_its_last_steps_and_its_plan(tmp_path: Path, grpo_run: Callable) -> None:
    made(tmp_path / "a", {"grpo.beta": 0.0, "seed": 1}, DONE)
    made(tmp_path / "b", {"grpo.beta": 0.04, "seed": 1}, {**DONE, "status": "stopped", "findings": [{"id": "GRD001"}]})
    lines = grpo_run("runs", str(tmp_path), "--sort", "name").out.splitlines()
    assert [line.split() for line in lines] == [
        ["name", "status", "step", "reward", "held", "out", "time", "grpo.beta"],
        ["a", "completed", "12/12", "0.750", "0.250", "->", "0.750", "0:01:05", "0.0"],
        ["b", "stopped", "(GRD001)", "12/12", "0.750", "0.250", "->", "0.750", "0:01:05", "0.04"],
    ]


def test_a_run_that_redraws_groups_is_compared_by_what_it_drew_first(tmp_path: Path, grpo_run: Callable) -> None:
    place = made(tmp_path / "a", {"seed": 1}, DONE)
    (place / "metrics.jsonl").write_text(STEPS.replace('"reward"', '"resample/reward": 0.875, "reward"'))
    assert [run["reward"] for run in listed(grpo_run, str(tmp_path))["runs"]] == [0.875]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "completed"),
        ({"run.json": None}, "planned"),
        ({"run.json": None, "launch.sh": None}, "incomplete"),
        ({"run.json": None, "plan.json": None}, "incomplete"),
        ({"run.json": '{"status": "comp'}, "damaged record"),
        ({"run.json": "[]"}, "damaged record"),
        ({"plan.json": "{"}, "damaged plan"),
        ({"plan.json": "[" * 100_000}, "damaged plan"),
        ({"plan.json": b"\xff\xfe"}, "damaged plan"),
        ({"plan.json": PLAN.replace('"settings": []', '"settings": {}')}, "damaged plan"),
        ({"plan.json": PLAN.replace('"settings": []', '"settings": [1, {}, {"kind": []}]')}, "completed"),
        ({"plan.json": None}, "damaged plan"),
        ({"metrics.jsonl": '{"event": "step", "reward": "much"}\n\n[]\nx\n{"event"'}, "completed"),
        ({"run.json": json.dumps({**DONE, "started": "x", "evaluation": {"after": 1}, "findings": [1]})}, "completed"),
        ({"run.json": json.dumps({"run": 10**101})}, "damaged record"),
        ({"run.json": json.dumps({**DONE, "step": 10**30, "train_wall_s": 1e400})}, "completed"),
    ],
    ids=lambda one: "" if isinstance(one, dict) else one,
)
def test_whatever_a_folder_holds_it_is_named_and_ends_nothing(
    change: dict[str, Any], status: str, tmp_path: Path, grpo_run: Callable
) -> None:
    made(tmp_path / "sound", {}, DONE)
    place = made(tmp_path / "other", {}, DONE)
    for name, content in change.items():
        (place / name).unlink()
        if content is not None:
            (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = {run["name"]: run["status"] for run in listed(grpo_run, str(tmp_path))["runs"]}
    assert found == {"sound": "completed", "other": status}
    answer = grpo_run("runs", str(tmp_path))
    assert answer.code == 0
    assert ("other: " in answer.err) == (status.startswith("damaged") or "metrics.jsonl" in change)


@pytest.mark.parametrize("line", ["noise", "[]", '{"event": "step", "rew'])
def test_a_mean_that_leaves_out_a_line_is_marked(line: str, tmp_path: Path, grpo_run: Callable) -> None:
    place = made(tmp_path / "a", {}, DONE)
    rows = STEPS.splitlines()
    (place / "metrics.jsonl").write_text("\n".join([*rows[:7], line, *rows[8:]]) + "\n")
    answer = grpo_run("runs", str(tmp_path))
    assert "completed, changed" in answer.out
    assert "a: metrics.jsonl has a line that is not an event" in answer.err


def test_pipes_links_and_folders_that_are_no_runs_are_named(tmp_path: Path, grpo_run: Callable) -> None:
    made(tmp_path / "runs" / "sound", {}, DONE)
    elsewhere = made(tmp_path / "elsewhere", {}, DONE)
    (tmp_path / "runs" / "linked").symlink_to(elsewhere)
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / ".hidden").mkdir()
    (tmp_path / "runs" / "readme.txt").write_text("")
    for name, make in {"piped": os.mkfifo, "outside": lambda path: path.symlink_to(elsewhere / "plan.json")}.items():
        made(tmp_path / "runs" / name)
        (tmp_path / "runs" / name / "plan.json").unlink()
        make(tmp_path / "runs" / name / "plan.json")
    found = listed(grpo_run, str(tmp_path / "runs"), "--sort", "name")
    assert [(run["name"], run["status"]) for run in found["runs"]] == [
        ("linked", "completed"),
        ("outside", "incomplete"),
        ("piped", "incomplete"),
        ("sound", "completed"),
    ]
    assert found["others"] == {"notes": "it has no plan.json"}
    assert "not a run: notes (it has no plan.json)" in grpo_run("runs", str(tmp_path / "runs")).err


def test_a_run_whose_process_is_gone_is_not_running(tmp_path: Path) -> None:
    for name, host in (("here", socket.gethostname()), ("there", "another-machine")):
        place = made(tmp_path / name, {}, {"run": 1, "status": "running", "step": 3, "max_steps": 12})
        said = {"host": host, "pid": 1, "since": "2026-01-01T00:00:00+00:00", "launch": None}
        (place / TRAINING).write_text(json.dumps(said))
    found = {run.name: (run.status, run.step) for run in read_runs(str(tmp_path)).runs}
    assert found == {"here": ("killed", 12), "there": ("running", 12)}


def test_runs_are_chosen_by_status_name_and_planned_value(tmp_path: Path, grpo_run: Callable) -> None:
    here = str(tmp_path)
    for name, beta, status in (("add-1", 0.0, "completed"), ("add-2", 0.04, "failed"), ("sub-1", 4e-2, "completed")):
        made(tmp_path / name, {"grpo.beta": beta, "model.dtype": "float32"}, {**DONE, "status": status})
    made(tmp_path / "broken").joinpath("plan.json").write_text("{")
    assert names(grpo_run, here, "--filter", "add-*", "--sort", "name") == ["add-1", "add-2"]
    assert names(grpo_run, here, "--filter", "grpo.beta=0.04", "--sort", "name") == ["add-2", "sub-1"]
    assert names(grpo_run, here, "--filter", "beta=0.04", "--filter", "status=completed") == ["sub-1"]
    assert len(names(grpo_run, here, "--filter", "dtype=float*")) == 3
    assert names(grpo_run, here, "--filter", "grpo.loss_type=dapo") == []
    answer = grpo_run("runs", here, "--filter", "grpo.betta=1")
    assert (answer.code, "--filter with grpo.beta" in answer.err) == (2, True)
    assert grpo_run("runs", here, "--sort", "rewrad").code == 2
    assert grpo_run("runs", here, "--filter", "=").code == 2


def test_runs_are_sorted_the_best_first_and_those_without_last(tmp_path: Path, grpo_run: Callable) -> None:
    for name, after, lr in (("a", 0.5, 1e-5), ("b", 0.9, 3e-6), ("c", None, 1e-4)):
        held_out = {} if after is None else {"after": {"reward": after}}
        made(tmp_path / name, {"training.learning_rate": lr}, {**DONE, "evaluation": held_out})
    assert names(grpo_run, str(tmp_path), "--sort", "held_out") == ["b", "a", "c"]
    assert names(grpo_run, str(tmp_path), "--sort", "learning_rate") == ["b", "a", "c"]
    assert names(grpo_run, str(tmp_path), "--sort", "name", "--reverse") == ["c", "b", "a"]


def test_the_newest_run_comes_first(tmp_path: Path, grpo_run: Callable) -> None:
    for name, day in (("a", 1), ("b", 3), ("c", 2)):
        made(tmp_path / name, {}, {**DONE, "started": f"2026-01-0{day}T00:00:00+00:00"})
    assert names(grpo_run, str(tmp_path)) == ["b", "c", "a"]


def test_values_that_differ_are_found_and_true_is_no_1(tmp_path: Path) -> None:
    made(tmp_path / "a", {"seed": 1, "grpo.beta": 0.0, "lora.bias": True, "rewards": [{"name": "x"}]})
    made(tmp_path / "b", {"seed": 1, "grpo.beta": 0.1, "lora.bias": 1, "rewards": [{"name": "y"}], "lora.r": 8})
    assert sorted(differing(read_runs(str(tmp_path)).runs)) == ["grpo.beta", "lora.bias", "lora.r", "rewards"]


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 24])
def test_the_table_fits_and_drops_what_matters_least(width: int, tmp_path: Path) -> None:
    for number in range(3):
        values = {
            "training.learning_rate": number / 7,
            "seed": number,
            "grpo.beta": number,
            "model.dtype": "長" * number,
        }
        made(tmp_path / f"addition-with-a-long-name-{number}", values, DONE)
    runs = read_runs(str(tmp_path)).runs
    table = runs_table(runs, differing(runs), width)
    lines = table.text.splitlines()
    assert len(lines) == 4
    assert all(len(line) + sum(c == "長" for c in line) <= width for line in lines)
    assert lines[0].split()[:2] == ["name", "status"]
    assert ("reward" in lines[0]) == (width >= 60)
    assert bool(table.left_out) == (width < 200)
    assert len({line.split()[0] for line in lines}) == 4


def test_a_pipe_gets_the_columns_that_fit(tmp_path: Path, grpo_run: Callable) -> None:
    for number in range(2):
        values = {f"trl.a_long_name_{place}": f"{number} and a system prompt {'word ' * 50}" for place in range(18)}
        made(tmp_path / f"run-{number}", values, DONE)
    answer = grpo_run("runs", str(tmp_path))
    assert all(len(line) <= 120 for line in answer.out.splitlines())
    assert "not shown, but in --json: " in answer.err


@pytest.mark.parametrize("width", [160, 80, 60, 30])
def test_a_verdict_stays_where_the_terminal_is_narrow(width: int, tmp_path: Path) -> None:
    change = {"from_step": 0, "reward": 0.5, "intervals": {"reward": [0.4, 0.6]}}
    after = {"step": 12, "count": 100, "reward": 0.75, "change": change}
    better = {**DONE, "final_step": 12, "evaluation": {"before": HELD_OUT["before"], "after": after}}
    stopped = {**DONE, "status": "stopped", "findings": [{"id": "GRD001"}]}
    for name, record in (("better", better), ("failing", stopped)):
        made(tmp_path / f"learning_rate-2e-3-{name}", {"training.learning_rate": len(name), "seed": len(name)}, record)
    runs = read_runs(str(tmp_path)).runs
    lines = runs_table(runs, differing(runs), width).text.splitlines()
    assert any("better than before" in line for line in lines)
    assert any("stopped (GRD001)" in line for line in lines)
    assert ("completed" in lines[1] + lines[2]) == (width == 160)


def test_secrets_and_what_steers_a_terminal_are_not_shown(
    tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hf_" + "a1B2" * 9
    made(tmp_path / "a", {"launch.environment": {"HF_TOKEN": token}, "trl.hub_token": f"{'x' * 10} {token}"}, DONE)
    made(tmp_path / "b\x1b[31m\nc", {"trl.hub_token": "none"}, DONE)
    for answer in (grpo_run("runs", str(tmp_path)), grpo_run("runs", str(tmp_path), "--json")):
        assert answer.code == 0
        assert token[:12] not in answer.out
        assert "\x1b" not in answer.out
    assert len(grpo_run("runs", str(tmp_path)).out.splitlines()) == 3


def test_nothing_is_written(tmp_path: Path, grpo_run: Callable) -> None:
    place = made(tmp_path / "a", {}, {**DONE, "status": "running"})
    (place / TRAINING).write_text(json.dumps({"host": socket.gethostname(), "pid": 1, "since": "x", "launch": None}))
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    grpo_run("runs", str(tmp_path))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")} == before


def test_where_there_are_none_that_is_said(tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = grpo_run("runs")
    assert (answer.code, answer.out, answer.err) == (0, "", "no runs in runs\n")
    missing = grpo_run("runs", "elsewhere")
    assert (missing.code, "elsewhere cannot be listed" in missing.err) == (2, True)
    made(tmp_path / "runs" / "a", {}, DONE)
    assert names(grpo_run) == ["a"]
    assert names(grpo_run, "runs/a") == ["a"]


def test_reading_many_runs_makes_few_calls_a_run(tmp_path: Path) -> None:
    """A hundred runs of the size that the quickstart's have."""
    values = {f"trl.field_{number}": "a value with some letters" for number in range(100)}
    record = {**DONE, "checks": [{"id": "PRF013", "name": f"GRPOConfig.x{n}", "plan": 1, "live": 1} for n in range(80)]}
    for number in range(100):
        place = made(tmp_path / str(number), {**values, "seed": number}, record)
        (place / "metrics.jsonl").write_text(STEPS.replace("}", f", {json.dumps('x' * 900)}: 1}}") * 4)
    answers: list[tuple[int, list[str]]] = []

    def read() -> None:
        runs = read_runs(str(tmp_path)).runs
        keys = differing(runs)
        runs_table(runs, keys, 80)
        answers.append((len(runs), keys))

    number_of_calls = calls(read)
    assert number_of_calls < 100 * 6_000, number_of_calls / 100
    assert answers == [(100, ["seed"])]
