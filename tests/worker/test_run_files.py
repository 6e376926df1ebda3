"""run.json, metrics.jsonl and checkpoints hold what they should, also after an interruption."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support import small_disks

from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.findings.finding import mistake, of_record
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.run_record import amend_record
from grpo_recipes.schemas.export import run_schema
from grpo_recipes.worker._shared import record as records
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.same_folder import FolderGone


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
    record.update(checkpoint="checkpoint-5")
    amend_record(str(tmp_path), {"of_a_later_release": True})
    record.end("interrupted", 75, "signal")
    record.start(resumed=True)
    content = read(tmp_path)
    assert (content["status"], content["exit_code"], content["ended"]) == ("running", None, None)
    assert content["evaluation"] == {"before": {"reward": 0.1}}
    assert (content["checkpoint"], content["of_a_later_release"]) == ("checkpoint-5", True)


def test_a_key_that_run_json_does_not_declare_is_not_written(tmp_path: Path) -> None:
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    with pytest.raises(KeyError, match=r"run\.json has no reward_total"):
        record.update(step=1, reward_total=2.0)
    declared = run_schema()["properties"]
    assert set(read(tmp_path)) <= set(declared)
    assert read(tmp_path)["step"] == 0


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


def test_metrics_that_need_no_change_stay_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, resume_step=None)
    log.write("step", 5)
    log.write("end", 5, status="interrupted")
    inode = path.stat().st_ino
    MetricsLog(path, resume_step=5).write("start", 5)
    assert path.stat().st_ino == inode
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["step", "end", "start"]


def test_lines_that_are_no_events_are_left_out_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a crash of the machine leaves: zeros, a cut line, bytes of another file; and a whole line that is odd."""
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, resume_step=None)
    log.write("step", 1, said="one line\u2028to json")
    whole = path.read_bytes()
    path.write_bytes(b"\0" * 4096 + b"\n" + whole + b'\xff\xfe\n[1]\n{"step": 1}\n{"event": "step", "step": 1')
    MetricsLog(path, resume_step=2)
    assert path.read_bytes() == whole
    assert capsys.readouterr().out == "metrics.jsonl: 5 damaged lines left out\n"
    path.write_bytes(b"")
    MetricsLog(path, resume_step=2).write("step", 3)
    assert len(path.read_bytes().splitlines()) == 1
    assert capsys.readouterr().out == ""


def test_a_line_that_does_not_fit_leaves_no_part_of_it(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(64)
    log = MetricsLog(disk / "metrics.jsonl", resume_step=None)
    log.write("step", 1)
    before = (disk / "metrics.jsonl").read_bytes()
    with pytest.raises(OSError, match="No space left on device") as problem:
        log.write("step", 2, long="x" * 100_000)
    assert problem.value.filename == str(disk / "metrics.jsonl")
    assert (disk / "metrics.jsonl").read_bytes() == before


def test_a_full_disk_keeps_the_record_whole_and_names_the_problem(
    small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = small_disk(128)
    record = Record(disk, 0)
    record.start(resumed=False)
    small_disks.fill(disk)
    with pytest.raises(OSError, match="No space left on device"):
        record.update(step=5)
    assert not record.end("failed", 1, "no space is left")
    assert "run.json does not say how the run ended: [Errno 28] No space left on device" in capsys.readouterr().err
    assert read(disk)["status"] == "running"
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "run.json"]


def test_what_is_noted_is_read_at_once_and_written_with_the_next_update(tmp_path: Path) -> None:
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    for step in range(1, 200):
        record.note(step=step, metrics={"loss": step / 2})
        assert record.read()["step"] == step
    record.update(checkpoint="checkpoint-199")
    assert (read(tmp_path)["step"], read(tmp_path)["metrics"]) == (199, {"loss": 99.5})
    record.note(step=200)
    assert record.end("completed", 0)
    record.note(step=-1)
    assert (read(tmp_path)["status"], read(tmp_path)["step"]) == ("completed", 200)
    with pytest.raises(KeyError, match=r"run\.json has no reward_total"):
        record.note(reward_total=2.0)


def test_writing_progress_takes_half_a_thousandth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = [100.0], []

    def write(folder: Path, name: str, content: str, *, check: Callable[[], None]) -> None:
        now[0] += 0.01
        written.append(json.loads(content)["step"])

    record = Record(tmp_path, 0)
    record.start(resumed=False)
    monkeypatch.setattr(records, "write_whole", write)
    monkeypatch.setattr(records.time, "monotonic", lambda: now[0])
    for step in range(1, 71):
        record.note(step=step)
        now[0] += 0.7
    assert written == [1, 30, 59]


def test_a_failure_of_another_rank_is_not_undone_by_a_note(tmp_path: Path) -> None:
    first, second = Record(tmp_path, 0), Record(tmp_path, 1)
    first.start(resumed=False)
    second.note(step=7)
    assert second.end("failed", 1, "out of memory")
    first.note(step=5)
    assert (read(tmp_path)["status"], read(tmp_path)["step"], first.read()["step"]) == ("failed", 0, 0)


def test_a_note_says_that_the_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    (tmp_path / "plan.json").unlink()
    with pytest.raises(FolderGone):
        record.note(step=2)


def test_a_record_notices_a_removed_folder_though_run_json_went_first(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    (tmp_path / "run.json").unlink()
    record.update(step=1)  # the folder is there
    (tmp_path / "plan.json").unlink()
    with pytest.raises(FolderGone):
        record.update(step=2)


def test_no_file_is_put_into_a_folder_that_comes_while_it_is_written(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    other.mkdir()

    def swap() -> None:
        folder.rename(tmp_path / "away")
        other.rename(folder)

    with pytest.raises(FileNotFoundError):
        write_whole(folder, "run.json", "{}", check=swap)
    assert list(folder.iterdir()) == []


def test_why_a_run_ended_is_kept_as_data_until_it_goes_on(tmp_path: Path) -> None:
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    record.end("stopped", 3, Mistake.of("port 1 is taken", because="nginx has it", fix="port: 2"))
    said = record.read()
    assert said["message"] == "port 1 is taken\n  = because: nginx has it\n  = fix: port: 2"
    assert [of_record(one) for one in said["findings"]] == [
        mistake("port 1 is taken", because="nginx has it", fix="port: 2")
    ]
    record.start(resumed=True)
    assert (record.read()["message"], record.read()["findings"]) == (None, [])


def test_a_disk_that_does_not_answer_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(tmp_path, 0)
    record.start(resumed=False)
    is_stuck, answers = threading.Event(), threading.Event()

    def never(*_: object, **__: object) -> None:
        is_stuck.set()
        assert answers.wait(180)

    monkeypatch.setattr(records, "_LONGEST_TURN_S", 0.1)
    with monkeypatch.context() as stuck:
        stuck.setattr(records, "write_whole", never)
        training = threading.Thread(target=record.update, kwargs={"step": 5})
        training.start()
        assert is_stuck.wait(180)
    assert record.end("stopped", 3, "a guard")
    assert (read(tmp_path)["status"], read(tmp_path)["step"]) == ("stopped", 0)
    answers.set()
    training.join()


def test_a_record_of_a_worker_that_had_not_begun_is_not_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amend_record(str(tmp_path), {"status": "interrupted"})
    Record(tmp_path, 0).start(resumed=True)
    assert capsys.readouterr().out == ""
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["status"], record["step"], record["guards"]) == ("running", 0, [])
