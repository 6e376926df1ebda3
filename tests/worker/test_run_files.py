"""run.json, metrics.jsonl and checkpoints hold what they should, also after an interruption."""

import json
from pathlib import Path

import pytest

from grpo_recipes.worker.metrics import MetricsLog
from grpo_recipes.worker.record import Record


def read(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "run.json").read_text())
    return found


def test_a_good_end_is_said_by_rank_0_alone(tmp_path: Path) -> None:
    first, second = Record(tmp_path, 0), Record(tmp_path, 1)
    first.start(resumed=False)
    second.start(resumed=False)
    second.update(step=9)
    assert not second.end("completed", 0)
    first.update(step=3)
    assert first.end("completed", 0)
    assert (read(tmp_path)["status"], read(tmp_path)["step"]) == ("completed", 3)


def test_the_first_failure_is_kept(tmp_path: Path) -> None:
    first, second = Record(tmp_path, 0), Record(tmp_path, 1)
    first.start(resumed=False)
    assert second.end("failed", 1, "out of memory")
    first.update(step=5)
    assert not first.end("failed", 1, "connection closed by peer")
    assert (read(tmp_path)["message"], read(tmp_path)["step"]) == ("out of memory", 0)


def test_a_resumed_run_keeps_its_first_evaluation_and_foreign_keys(tmp_path: Path) -> None:
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    record.update_evaluation(before={"reward": 0.1})
    record.update(checkpoint="checkpoint-5", written_by_the_launcher=True)
    record.end("interrupted", 75, "signal")
    record.start(resumed=True)
    content = read(tmp_path)
    assert (content["status"], content["exit_code"], content["ended"]) == ("running", None, None)
    assert content["evaluation"] == {"before": {"reward": 0.1}}
    assert (content["checkpoint"], content["written_by_the_launcher"]) == ("checkpoint-5", True)


def test_every_line_of_the_metrics_is_json_at_once(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl", resume_step=None)
    log.write("step", 1, loss=float("nan"), lengths=[1.0, float("inf")], nested={"a": float("-inf")})
    line = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert (line["event"], line["step"]) == ("step", 1)
    assert (line["loss"], line["lengths"], line["nested"]) == (None, [1.0, None], {"a": None})


def test_steps_that_are_trained_again_are_in_the_metrics_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, resume_step=None)
    for step in range(1, 8):
        log.write("step", step)
    log.write("end", 5)
    with path.open("a") as file:
        file.write('{"event": "step", "st')
    MetricsLog(path, resume_step=5).write("step", 6, again=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["again"]


@pytest.mark.stack
def test_the_latest_checkpoint_is_that_of_the_highest_step(tmp_path: Path) -> None:
    from grpo_recipes.worker.checkpoint import latest_checkpoint

    assert latest_checkpoint(tmp_path / "none") is None
    for name in ("checkpoint-9", "checkpoint-10", "writing/checkpoint-11", "checkpoint-old"):
        (tmp_path / name).mkdir(parents=True)
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


@pytest.mark.stack
@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (-1, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3661, "1:01:01")]
)
def test_the_remaining_time_is_read_at_a_glance(seconds: float, text: str) -> None:
    from grpo_recipes.worker.progress import clock

    assert clock(seconds) == text


def test_metrics_that_need_no_change_stay_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, resume_step=None)
    log.write("step", 5)
    log.write("end", 5, status="interrupted")
    inode = path.stat().st_ino
    MetricsLog(path, resume_step=5).write("start", 5)
    assert path.stat().st_ino == inode
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["step", "end", "start"]
