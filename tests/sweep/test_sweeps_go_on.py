"""A sweep trains all of its runs, whatever becomes of one of them or of itself."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from swept_runs import FEW_STEPS, QUICKSTART, RATE, Swept, command, started, wait_until

from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules._shared.memory_needs import prompts_key
from grpo_recipes.stack.target import parse_target
from grpo_recipes.user_files.local_rows import CountedPrompts, keep_counted

pytestmark = pytest.mark.processes
FIRST = f"{RATE.rpartition('.')[2]}-0.001-seed-42"


def test_a_run_that_fails_ends_no_other_one(sweep: Callable[..., Swept]) -> None:
    done = sweep("sweep", QUICKSTART, "--vary", f"{RATE}=0.5,0.25,0.001", "--seeds", "1", *FEW_STEPS)
    assert done.code == 1, done.err
    failed, guarded, completed = done.names
    assert "[1/3] learning_rate-0.5-seed-42: failed at step 1 of 4: no memory" in done.err
    assert "[2/3] learning_rate-0.25-seed-42: stopped at step 4" in done.err
    assert "[3/3] learning_rate-0.001-seed-42: completed at step 4 of 4" in done.err
    assert "outcome: mean training reward of the last tenth of the steps" in done.out
    assert "learning_rate=0.5 is not compared: 1 of its 1 runs has no outcome (failed)" in done.out
    assert "learning_rate=0.25 is not compared: 1 of its 1 runs has no outcome (stopped GRD003)" in done.out
    again = sweep("swept")
    assert again.code == 1, again.err
    assert "sweep of 3 runs" in again.err and "2 of them finished earlier" in again.err
    assert [len(again.starts(name)) for name in (failed, guarded, completed)] == [2, 1, 1]
    assert again.out == done.out


def test_runs_that_have_room_go_on_at_once_each_with_its_gpus(sweep: Callable[..., Swept], two_gpus: Path) -> None:
    gpus = ("--set", "launch.gpus_per_node=1", "--accept", "STK016")  # torch here knows no GPUs
    words = ("sweep", QUICKSTART, "--vary", f"{RATE}=0.001,0.002,0.003", "--seeds", "1", *FEW_STEPS, *gpus)
    done = sweep(*words, PATH=f"{two_gpus}:{os.environ['PATH']}", STAND_IN_TOGETHER="2")
    assert done.code == 0, done.err
    visible = [done.starts(name)[0].split()[0] for name in done.names]
    assert sorted(visible[:2]) == ["0", "1"]
    assert visible[2] in ("0", "1")
    assert "differs" not in done.err and "written again" not in done.err  # each was planned for its one GPU
    first = done.err.index("[1/3]")
    assert all(done.err.index(f"{name} starts, CUDA_VISIBLE_DEVICES=") < first for name in done.names[:2])
    assert f"{done.names[0]}: run folder {done.folder / done.names[0]}" in done.err


def test_a_preflight_before_the_start_writes_no_run_again(
    sweep: Callable[..., Swept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    planned = sweep("sweep", QUICKSTART, "--seeds", "1", *FEW_STEPS, "--dry-run")
    assert planned.code == 0, planned.err
    before = (planned.folder / planned.names[0] / "plan.json").read_text()
    keep_counted(_key_of_the_prompts(), CountedPrompts(longest=14, counted=7126, rows=7126))
    done = sweep("sweep", "swept")
    assert done.code == 0, done.err
    assert "written again" not in done.err and not list(done.folder.glob("*/replaced-*"))
    assumed = [
        json.loads(text)["memory"]["assumed"]
        for text in (before, (done.folder / done.names[0] / "plan.json").read_text())
    ]
    assert ["7,126 rows that preflight counted" in " ".join(one) for one in assumed] == [False, True]


def _key_of_the_prompts() -> str:
    stack, _ = parse_target("tested,gpus=0")
    assert stack is not None
    context = resolve(QUICKSTART, stack).context
    assert context is not None
    key = prompts_key(context)
    assert key is not None
    return key


def test_a_sweep_that_was_killed_goes_on_and_comes_to_the_same(stand_in: Path, tmp_path: Path) -> None:
    words = ("sweep", QUICKSTART, "--vary", f"{RATE}=0.001,0.002", "--seeds", "1", *FEW_STEPS)
    (tmp_path / "whole").mkdir()
    whole = command(stand_in, tmp_path / "whole", *words)
    assert whole.code == 0, whole.err
    killed = started(stand_in, tmp_path, *words, STAND_IN_PAUSE="0.3")
    wait_until(lambda: (tmp_path / "swept" / "learning_rate-0.002-seed-42" / "metrics.jsonl").exists(), killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    on = command(stand_in, tmp_path, "sweep", "swept")
    assert on.code == 0, on.err
    assert "1 of them finished earlier" in on.err
    assert [len(on.starts(name)) for name in on.names] == [1, 2]
    assert on.starts(on.names[1])[-1].split() == ["None", "--resume"]
    assert on.out == whole.out
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".swept")) == []


def test_a_second_sweep_of_a_folder_is_told_and_the_first_saves_when_asked(stand_in: Path, tmp_path: Path) -> None:
    words = ("sweep", QUICKSTART, "--vary", f"{RATE}=0.001,0.002", "--seeds", "1", *FEW_STEPS)
    first = started(stand_in, tmp_path, *words, STAND_IN_PAUSE="20")
    wait_until(lambda: (tmp_path / "swept" / FIRST / "metrics.jsonl").exists(), first)
    second = command(stand_in, tmp_path, "sweep", "swept")
    assert (second.code, second.out) == (2, "")
    assert "error: swept: another process is running the sweep" in second.err
    assert f"process {first.pid} " in second.err
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 75, err
    assert "SIGINT: the runs save and stop, and no more start" in err
    assert json.loads((tmp_path / "swept" / FIRST / "run.json").read_text())["status"] == "interrupted"
    on = command(stand_in, tmp_path, "swept", "--json")
    assert on.code == 0, on.err
    assert [len(run["runs"]) for run in json.loads(on.out)["settings"]] == [1, 1]
    assert len(on.starts(FIRST)) == 2


def test_a_run_that_became_another_experiment_is_not_trained(sweep: Callable[..., Swept], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "1+1=", "answer": "2"}\n' * 40)
    words = ("--set", f"dataset.path={rows}", "--dry-run")
    planned = sweep("sweep", QUICKSTART, "--vary", f"{RATE}=0.001,0.002", "--seeds", "1", *FEW_STEPS, *words)
    assert planned.code == 0, planned.err
    rows.write_text('{"question": "1+2=", "answer": "3"}\n' * 40)
    done = sweep("sweep", "swept")
    assert done.code == 1
    assert done.err.count("this would be a different experiment, nothing was started") == 2
    assert "learning_rate-0.001-seed-42: not trained, exit 2" in done.err
    assert not done.starts(done.names[0])
