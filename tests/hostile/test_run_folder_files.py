"""A received run folder with links, pipes and devices: nothing outside it is written, removed or waited for."""

import io
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harms import Place, harms, looked_at, made_place, run_apart
from hostile_recipes import Attempt, over
from small_recipe import STACK
from support.work import takes_at_most
from test_hostile_recipes import command, placed

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files import run_entries
from grpo_recipes.contract.files.folder_files import make_folder
from grpo_recipes.contract.files.folder_lock import LAUNCHING, SERVING, TRAINING, Busy, hold_lock, holder
from grpo_recipes.contract.metrics import read_all, read_new
from grpo_recipes.contract.run_record import RunRecord, amend_record, read_record, write_record
from grpo_recipes.contract.secrets.redacted_file import RedactedFile
from grpo_recipes.engines.slurm_job import read_job
from grpo_recipes.launch.local import launch
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import put_in_place, remove_leftovers, remove_old
from grpo_recipes.worker.run import begin
from grpo_recipes.worker.run_with_server import ServerEvents
from grpo_recipes.worker.serving.other_machine import Notice, read_notice, write_notice
from grpo_recipes.worker.survival.job_end import after
from grpo_recipes.worker.survival.stall_monitor import stacks_file

pytestmark = pytest.mark.hostile

Make = Callable[[Path], None]


def _socket(path: Path) -> None:
    before = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.fchdir(before)
    os.close(before)


# {0}: the folder outside.
LINKS = {
    "a link to a file outside": "{0}/file",
    "a link to a folder outside": "{0}/folder",
    "a dangling link": "{0}/new",
    "a link to itself": "{1}",
    "a link to zeros": "/dev/zero",
    "a link to a full device": "/dev/full",
    "a link to the terminal": "/dev/tty",
    "a link into /proc": "/proc/self/environ",
    "a link to a pipe": "{0}/pipe",
}
KINDS = (*LINKS, "a pipe", "a socket", "another kind")


def put(folder: Path, name: str, kind: str) -> None:
    """Puts something else where a run folder has its own."""
    place, outside = folder / name, folder.parent / "outside"
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink(missing_ok=True)
    if kind in LINKS:
        place.symlink_to(LINKS[kind].format(outside, place.name))
    elif kind == "a pipe":
        os.mkfifo(place)
    elif kind == "a socket":
        _socket(place)
    elif name in run_entries.FOLDERS:
        place.write_text("a file")
    else:
        place.mkdir()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run folder that was interrupted, and beside it `outside`, in which nothing may change."""
    made = tmp_path / "run"
    (made / "worker").mkdir(parents=True)
    (made / "plan.json").write_text("{}")
    (made / "launch.sh").write_text('cd "$(dirname "$0")"\nexec "$PYTHON" -I -S worker/train.py "$@"\n')
    (made / "worker" / "train.py").write_text("open('ran', 'w')\n")
    (made / "run.json").write_text('{"run": 1, "status": "interrupted"}\n')
    checkpoint = made / "checkpoints" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    (checkpoint / "grpo_run.json").write_text("{}")
    outside = tmp_path / "outside"
    (outside / "folder" / "checkpoint-4").mkdir(parents=True)
    for name in ("file", "folder/file", "folder/checkpoint-4/model.safetensors", "folder/run.json"):
        (outside / name).write_text("of somebody else\n")
    os.mkfifo(outside / "pipe")
    yield made


def outside_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that lies outside: kind and time of each, and the bytes of files."""
    found = {}
    for path in sorted((folder.parent / "outside").rglob("*")):
        what = path.lstat()
        found[str(path)] = (what.st_mode, what.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


# Each kind for what is written first, and the most harmful ones for all that a run folder holds.
FIRST = (LAUNCHING, "train.log", "run.json", "checkpoints")
ENTRIES = [
    (name, kind)
    for name in (*run_entries.FILES, *run_entries.FOLDERS)
    for kind in (
        KINDS if name in FIRST else ("a link to a folder outside", "a dangling link", "a pipe", "another kind")
    )
]


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_a_launch_refuses_what_is_not_the_runs_own(name: str, kind: str, folder: Path) -> None:
    put(folder, name, kind)
    before, inside = outside_of(folder), sorted(os.listdir(folder))
    with pytest.raises(Refusal) as refused:
        launch(str(folder), resume=True, echo=io.StringIO())
    assert refused.value.exit_code == 2
    said = f"{folder / name} is not the run's own\n  = because: it is "
    assert said in str(refused.value) or (name == "launch.sh" and "it has no launch.sh" in str(refused.value))
    assert outside_of(folder) == before
    assert set(os.listdir(folder)) - set(inside) <= {LAUNCHING}


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_the_worker_refuses_what_is_not_the_runs_own(
    name: str, kind: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(folder, name, kind)
    before = outside_of(folder)
    child = os.fork()
    if child == 0:
        os._exit(begin(folder, Record(folder, 0), TRAINING, resumed=True) or 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    error = capfd.readouterr().err
    assert error.startswith(f"error: {folder / name} ") and "it is a" in error
    assert outside_of(folder) == before


# In the folders of a run, by what a library or grpo-run would write or remove there.
DEEP = (
    "checkpoints/checkpoint-4",
    "checkpoints/checkpoint-4/optimizer.pt",
    "checkpoints/checkpoint-4/global_step4/mp_rank_00_model_states.pt",
    "checkpoints/writing",
    "checkpoints/.removed-checkpoint-2",
    "checkpoints/completions",
    "checkpoints/runs",
    "final/model.safetensors",
    "final/README.md",
    "cache/dataset-0.arrow",
    "cache/json",
    "completions/completions_00001.parquet",
    "extended_model/config.json",
    "evaluation/step-0.jsonl",
    "stalled/rank-0.txt",
    "worker/train.py",
    "worker/__pycache__",
    "worker/grpo_recipes.zip",
)
PASSING = (".removed-final", ".final.writing", ".extended_model.writing")


@pytest.mark.parametrize(
    "kind", ["a link to a file outside", "a link to a folder outside", "a dangling link", "a pipe"]
)
@pytest.mark.parametrize("name", [*DEEP, *PASSING])
def test_a_launch_refuses_links_and_pipes_in_the_runs_own_folders(name: str, kind: str, folder: Path) -> None:
    put(folder, name, kind)
    before = outside_of(folder)
    with pytest.raises(Refusal, match="is not the run's own") as refused:
        launch(str(folder), resume=True, echo=io.StringIO())
    assert str(folder / name) in str(refused.value)
    assert outside_of(folder) == before


def test_the_look_takes_nothing_away_from_what_a_run_may_hold(folder: Path) -> None:
    """A reporter's links, files of the user, a link beside the checkpoints to one of them, hard links, spaces."""
    (folder / "wandb" / "run-1").mkdir(parents=True)
    (folder / "wandb" / "latest-run").symlink_to("run-1")
    (folder / "wandb" / "elsewhere").symlink_to("/tmp")
    (folder / "my notes.txt").write_text("mine")
    (folder / "data").symlink_to(folder.parent / "outside")
    (folder / "checkpoints" / "best").symlink_to("checkpoint-4")
    (folder / "checkpoints" / "absolute").symlink_to(folder / "checkpoints" / "checkpoint-4")
    os.link(folder / "run.json", folder / "copy of run.json")
    os.mkfifo(folder / "a pipe of the user's")
    run_entries.refuse_foreign_entries(folder)
    (folder.parent / "link").symlink_to(folder)
    run_entries.refuse_foreign_entries(folder.parent / "link")


def test_a_run_folder_that_is_reached_through_a_link_trains(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    assert launch(str(folder.parent / "link"), resume=True, echo=io.StringIO()) == 1  # it ends without a word
    assert (folder / "ran").exists()


def _launched(folder: Path) -> None:
    with hold_lock(folder, LAUNCHING):
        pass


def _started(folder: Path) -> None:
    record = Record(folder, 0)
    record.start(resumed=True)
    record.update(step=1)
    record.end("failed", 1, "x")


def _checkpointed(folder: Path) -> None:
    remove_leftovers(folder)
    remove_old(folder / "checkpoints", 1)
    make_folder(folder, "checkpoints/writing/checkpoint-4")
    put_in_place(folder / "checkpoints/writing/checkpoint-4", folder / "checkpoints/checkpoint-4")


def _logged(folder: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a line of the output\n")
    os.close(writing)
    RedactedFile(str(folder / "train.log")).copy(reading)


# What the program does by itself, one by one, without the look before: each thing is safe alone.
DOINGS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "lock the launch": (LAUNCHING, _launched),
    "lock the training": (TRAINING, lambda folder: begin(folder, Record(folder, 0), TRAINING, resumed=True)),
    "lock the server": (SERVING, lambda folder: begin(folder, Record(folder, 0), SERVING, resumed=True)),
    "who holds it": (TRAINING, holder),
    "begin the record": ("run.json", _started),
    "set a damaged record aside": ("run.json.damaged", _started),
    "read the record": ("run.json", lambda folder: read_record(str(folder))),
    "write the record": ("run.json", lambda folder: write_record(str(folder), RunRecord())),
    "amend the record": ("run.json", lambda folder: amend_record(str(folder), {"status": "failed"})),
    "append to the metrics": ("metrics.jsonl", lambda f: MetricsLog(f / "metrics.jsonl", resume_step=3).write("s", 1)),
    "begin the metrics anew": ("metrics.jsonl", lambda folder: ServerEvents(folder, Record(folder, 0), resumed=False)),
    "tell of the server": ("metrics.jsonl", lambda f: ServerEvents(f, Record(f, 0), resumed=True).tell("starting")),
    "read the metrics": ("metrics.jsonl", lambda folder: read_new(str(folder / "metrics.jsonl"), 0)),
    "copy the output": ("train.log", _logged),
    "read the job": ("job.json", lambda folder: read_job(str(folder))),
    "tell the end of a job": ("job_ends.jsonl", lambda folder: after(folder, "1", "none/0", 1, 1)),
    "read the notice": ("vllm_server.json", read_notice),
    "put up the notice": ("vllm_server.json", lambda folder: write_notice(folder, Notice("up", "1"))),
    "write stacks": ("stalled", lambda folder: os.close(stacks_file(folder, 0))),
    "write stacks of a rank": (
        "stalled/rank-0.txt",
        lambda folder: os.close(stacks_file(folder, 0)),
    ),
    "read the plan": ("plan.json", read_plan),
    "remove checkpoints": ("checkpoints", _checkpointed),
    "remove half a checkpoint": ("checkpoints/writing", _checkpointed),
    "remove the rest of one": ("checkpoints/.removed-checkpoint-4", _checkpointed),
    "replace a checkpoint": ("checkpoints/checkpoint-4", _checkpointed),
    "remove half a model": (".final.writing", remove_leftovers),
    "remove the rest of a model": (".removed-final", remove_leftovers),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("doing", DOINGS)
def test_each_thing_alone_leaves_alone_what_lies_outside(doing: str, kind: str, folder: Path) -> None:
    name, do = DOINGS[doing]
    put(folder, name, kind)
    if doing == "set a damaged record aside":
        (folder / "run.json").write_text("{")
    before = outside_of(folder)
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(60)
        try:
            do(folder)
        except (OSError, Refused, Busy) as problem:
            os._exit(0 if str(problem) else 1)
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert outside_of(folder) == before


HARMFUL: dict[str, Callable[[Path], object]] = {
    "copy the output": lambda folder: (folder / "train.log").open("a").write("a line"),
    "remove checkpoints": lambda folder: shutil.rmtree((folder / "checkpoints" / "checkpoint-4").resolve()),
    "a new file": lambda folder: (folder / "metrics.jsonl").open("w").close(),
}


@pytest.mark.parametrize("doing", HARMFUL)
def test_the_harm_would_be_seen(doing: str, folder: Path) -> None:
    put(folder, "train.log", "a link to a file outside")
    put(folder, "checkpoints", "a link to a folder outside")
    put(folder, "metrics.jsonl", "a dangling link")
    before = outside_of(folder)
    HARMFUL[doing](folder)
    assert outside_of(folder) != before


def test_a_writers_file_of_a_moment_is_nobody_elses(folder: Path) -> None:
    """Its name cannot be known before, so no link can lie there."""
    for pid in range(1, 5000):
        (folder / f".run.json.{pid}.writing").symlink_to("../outside/file")
    (folder / f".run.json.{os.getpid()}.writing").unlink(missing_ok=True)
    (folder / f".run.json.{os.getpid()}.writing").symlink_to("../outside/file")
    before = outside_of(folder)
    write_record(str(folder), RunRecord(status="failed"))
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"
    assert outside_of(folder) == before


TEXTS = {
    "deep lists": "[" * 200_000 + "]" * 200_000,
    "deep mappings": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "a long number": '{"run": ' + "9" * 5_000 + "}",
    "a number beyond floats": '{"run": 1, "step": ' + "9" * 400 + ', "status": "interrupted"}',
    "half a letter": '{"run": 1, "status": "interrupted", "message": "\\ud800"}',
    "a list": "[]",
    "a text": '"x"',
    "nothing": "",
    "zeros": "\0" * 4096,
    "values of other kinds": json.dumps(
        {
            "run": [],
            "status": {"a": 1},
            "step": "x",
            "max_steps": [],
            "started": 5,
            "exit_code": "0",
            "message": 7,
            "proofs": [1, {"ok": []}, None],
            "guards": [[], {"count": {}}],
            "vllm_server": {"restarts": [1, {}]},
            "evaluation": {"before": {"reward": "x", "rewards": {"a": []}}, "counts": {"rows": []}, "examples": [{}]},
            "metrics": {"reward": []},
            "final": 5,
            "checkpoint": [],
            "train_cpu_s": "x",
            "train_wall_s": [],
            "duration": {"seconds_per_step": "x", "shares": []},
            "verified": 3,
        }
    ),
}
READ = {
    "run.json": lambda folder: read_record(str(folder)),
    "metrics.jsonl": lambda folder: list(read_all(str(folder / "metrics.jsonl"))),
    "job.json": lambda folder: read_job(str(folder)),
    "job_ends.jsonl": lambda folder: after(folder, "1", "none/0", 1, 1),
    "vllm_server.json": read_notice,
    TRAINING: holder,
    "summary": lambda folder: None,
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", READ)
def test_odd_json_is_left_out_and_never_ends_a_command(name: str, text: str, folder: Path) -> None:
    from grpo_recipes.launch.summary import summary

    (folder / (name if name != "summary" else "run.json")).write_text(TEXTS[text] + "\n")
    READ[name](folder)
    record = read_record(str(folder))
    if record is not None:
        assert summary(record, str(folder)).encode()
    Record(folder, 0).start(resumed=True)
    MetricsLog(folder / "metrics.jsonl", resume_step=2).write("step", 3)


SIZES = {"run.json": 1 << 40, "metrics.jsonl": 1 << 42, "job.json": 1 << 33, "vllm_server.json": 1 << 36}


@pytest.mark.parametrize("name", SIZES)
def test_a_file_of_holes_is_not_read(name: str, folder: Path) -> None:
    with (folder / name).open("wb") as file:
        file.truncate(SIZES[name])
    with takes_at_most(5):
        assert READ[name](folder) in (None, [])


def test_a_line_without_an_end_is_left_out(folder: Path) -> None:
    with (folder / "metrics.jsonl").open("wb") as file:
        file.write(b'{"event": "step", "step": 1}\n')
        file.seek(200 << 20)
        file.write(b'\n{"event": "step", "step": 2}\n')
    assert [event["step"] for event in read_all(str(folder / "metrics.jsonl"))] == [1, 2]


def planned(place: Place) -> Path:
    """A run folder as it is received: planned here, and interrupted."""
    placed(place, Attempt("planned", over("")))
    ended = run_apart(place, [command("run", "recipe.yaml", "--target", STACK, "--dry-run", "--out", "runs/one")])
    assert ended.codes == [0], ended.printed
    run = place.team / "runs" / "one"
    (run / "run.json").write_text('{"run": 1, "status": "interrupted"}\n')
    return run


@pytest.mark.parametrize("name", ["worker", "checkpoints", ".lock", "train.log", "run.json", "job.json", "plan.json"])
@pytest.mark.parametrize("kind", ["a link to a folder outside", "a dangling link", "a link to zeros", "a pipe"])
def test_resume_says_it_before_it_asks_for_trust(name: str, kind: str, tmp_path: Path) -> None:
    place = made_place(tmp_path)
    run = planned(place)
    (place.root / "outside" / "folder" / "__pycache__").mkdir(parents=True)
    (place.root / "outside" / "folder" / "__pycache__" / "x.pyc").write_text("of somebody else")
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(LINKS[kind].format(place.root / "outside", name))
    before = looked_at(place)
    ended = run_apart(place, [command("run", "runs/one", "--resume"), command("diff", "runs/one", "runs/one")])
    assert ended.codes[0] == 2, ended.printed
    assert harms(before, ended) == []
    if name != "plan.json":
        assert "is not the run's own" in ended.printed
        assert "allow" not in ended.printed
