"""What services are told of a run, by their real libraries, where they are installed; nothing leaves the machine."""

import json
import math
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, events, record, train

pytestmark = pytest.mark.stack
SERVICES = ("mlflow", "tensorboard", "trackio", "wandb")
# Two steps, and an end; once more for the same run, in processes as a run has them.
PROGRAM = """
import sys
from pathlib import Path
from grpo_recipes.worker.trackers import TRACKERS, About, Reports
name, folder, identity, first, status = sys.argv[1:]
tracker = TRACKERS[name]()
about = About("the run", Path(folder), "a project", {"grpo.beta": 0.04, "rewards": [{"name": "a|b"}]}, int(first) - 1)
print("IDENTITY", tracker.begin(about, identity or None))
reports = Reports({name: tracker})
for step in (int(first), int(first) + 1):
    reports.tell("step", step, {"reward": step / 4, "rewards/exact_match/mean": 1.0, "loss": None})
reports.tell("evaluation", step, {"reward": 0.5, "rewards": {"exact_match": 0.25}, "count": 11, "greedy": True})
reports.tell("end", step, {"status": status})
"""


def needs(service: str) -> pytest.MarkDecorator:
    """Skips a test where the library of a service is not installed."""
    return pytest.mark.skipif(find_spec(service) is None, reason=f"{service} is not installed")


EACH = [pytest.param(service, marks=needs(service)) for service in SERVICES]


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lets all of them write below a folder of the test."""
    told = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path / "wandb-files"),
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"file:{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HF_HUB_OFFLINE": "1",
    }
    (tmp_path / "wandb-files").mkdir()
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return told


def reported(service: str, place: Path) -> dict[str, dict[int, float]]:
    """What a service has of the only run, by name and step."""
    found: dict[str, dict[int, float]] = {}
    if service == "tensorboard":
        read = tensorboard_files(place)
        for name in read.Tags()["scalars"]:
            found[name] = {event.step: event.value for event in read.Scalars(name)}
    elif service == "mlflow":
        run = mlflow_run(place)
        for file in (run / "metrics").rglob("*"):
            if file.is_file():
                lines = [line.split() for line in file.read_text().splitlines()]
                found[str(file.relative_to(run / "metrics"))] = {int(line[2]): float(line[1]) for line in lines}
    elif service == "trackio":
        [file] = place.joinpath("trackio").glob("*.db")
        with sqlite3.connect(file) as base:
            assert len(set(base.execute("SELECT run_name FROM metrics").fetchall())) == 1
            for step, text in base.execute("SELECT step, metrics FROM metrics"):
                for name, value in json.loads(text).items():
                    found.setdefault(name, {})[step] = value
    else:
        for line in wandb_lines(place):
            for name, value in line.items():
                found.setdefault(name, {})[int(line["step"])] = value
    return found


def tensorboard_files(place: Path) -> Any:
    """The event files of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(place / "run" / "tensorboard")).Reload()


def mlflow_run(place: Path) -> Path:
    """The folder of the only run in mlflow's own files."""
    [run] = (folder for folder in (place / "mlruns" / "0").iterdir() if (folder / "params").is_dir())
    return run


def wandb_records(place: Path) -> list[Any]:
    """The records of all files of wandb, oldest first."""
    from wandb.proto import wandb_internal_pb2

    found = []
    for file in sorted(place.rglob("*.wandb")):
        for data in logged(file.read_bytes()):
            found.append(wandb_internal_pb2.Record())
            found[-1].ParseFromString(data)
    return found


def logged(content: bytes) -> Iterator[bytes]:
    """The records of a log as LevelDB writes it, which begins with seven bytes of wandb's own."""
    block, header, last = 1 << 15, 7, (1, 4)
    at, record = header, b""
    while at + header <= len(content):
        if block - at % block < header:
            at += block - at % block
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        record += content[at + header : at + header + length]
        at += header + length
        if kind in last:
            yield record
            record = b""


def wandb_lines(place: Path) -> list[dict[str, Any]]:
    """The history of a run."""
    lines = [one.history.item for one in wandb_records(place) if one.HasField("history")]
    return [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in line} for line in lines]


@pytest.mark.parametrize("service", EACH)
def test_a_run_that_goes_on_is_one_run_of_the_service(service: str, services: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    identity = ""
    for first, status in ((1, "interrupted"), (3, "completed")):
        words = [sys.executable, "-c", PROGRAM, service, str(folder), identity, str(first), status]
        done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "gets no more reports" not in done.stdout
        told = next(line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("IDENTITY "))
        assert identity in ("", told)
        identity = told
    found = reported(service, tmp_path)
    assert found["reward"] == {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}
    assert found["rewards/exact_match/mean"] == dict.fromkeys(range(1, 5), 1.0)
    assert found["evaluation/reward"] == {2: 0.5, 4: 0.5}
    assert found["evaluation/rewards/exact_match"] == {2: 0.25, 4: 0.25}
    assert "loss" not in found and "evaluation/greedy" not in found
    check_what_is_attached(service, identity, tmp_path)


def check_what_is_attached(service: str, identity: str, place: Path) -> None:
    """The plan and the name of the run folder."""
    if service == "mlflow":
        run = mlflow_run(place)
        assert run.name == identity
        assert (run / "params" / "grpo.beta").read_text() == "0.04"
        assert (run / "params" / "run_folder").read_text() == "run"
        assert (run / "tags" / "mlflow.runName").read_text() == "the run"
    elif service == "tensorboard":
        read = tensorboard_files(place)
        texts = {name: read.Tensors(name)[0].tensor_proto.string_val[0].decode() for name in read.Tags()["tensors"]}
        assert texts["run_folder/text_summary"] == "run"
        assert "| grpo.beta | 0.04 |" in texts["plan/text_summary"]
        assert "a\\|b" in texts["plan/text_summary"]
    elif service == "trackio":
        [file] = place.joinpath("trackio").glob("*.db")
        with sqlite3.connect(file) as base:
            configs = [json.loads(text) for (text,) in base.execute("SELECT config FROM configs")]
        assert {"grpo.beta": 0.04, "run_folder": "run", "run_name": "the run"}.items() <= configs[0].items()
    else:
        runs = [one.run for one in wandb_records(place) if one.HasField("run")]
        assert {run.run_id for run in runs} == {identity}
        assert {run.display_name for run in runs} == {"the run"}
        config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
        assert config["run_folder"] == "run"
        assert config["plan"]["grpo.beta"] == 0.04


@needs("tensorboard")
@pytest.mark.usefixtures("warm")
def test_a_training_reports_what_metrics_jsonl_has(
    make_plan: Callable[..., Changes],
    make_run: Callable[..., Path],
    held_out: Callable[..., Changes],
    services: dict[str, str],
    tmp_path: Path,
) -> None:
    asked = [service for service in SERVICES if find_spec(service) is not None]
    plan = make_plan(arguments={"max_steps": 3, "report_to": asked}, evaluation=held_out(), memory=None)
    folder = make_run(plan)
    exit_code, output = train(folder, **services)
    assert exit_code == 0, output
    assert "gets no more reports" not in output
    assert set(record(folder)["trackers"]) == set(asked)
    steps = events(folder, "step")
    names = {name for name, value in steps[0].items() if isinstance(value, int | float)} - {"step", "time"}
    for service in asked:
        found = reported(service, tmp_path)
        assert names <= set(found), service
        for name in ("reward", "grad_norm", "completions/mean_length"):
            assert [found[name][line["step"]] for line in steps] == pytest.approx([line[name] for line in steps]), name
        assert found["evaluation/reward"].keys() == {0, 3}
        assert not [name for name in found if name.startswith(("train/", "eval/"))], service


class Failing:
    """A service that goes away."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def begin(self, about: object, identity: str | None) -> str:
        return ""

    def log(self, step: int, figures: object) -> None:
        self.told.append(figures)
        raise ConnectionError("gone")

    def end(self, status: str) -> None:
        self.told.append(status)


class Noting:
    """A service that is not installed here: it notes the identity that it is asked to continue."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def begin(self, about: object, identity: str | None) -> str:
        self.asked.append(identity)
        return identity or f"run {len(self.asked)}"


def test_a_resumed_run_continues_in_its_service_and_one_from_the_start_does_not(
    make_plan: Callable[..., Changes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import TrainerCallback

    from grpo_recipes.worker import trackers
    from grpo_recipes.worker._shared.planned import read_plan
    from grpo_recipes.worker._shared.record import Record
    from grpo_recipes.worker.data.dataset import prepare_rows
    from grpo_recipes.worker.model.build_trainer import build_trainer, training_arguments

    class OfTransformers(TrainerCallback):
        """Would begin a second run."""

    service = Noting()
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda: service)
    monkeypatch.setitem(trackers.INTEGRATION_TO_CALLBACK, "wandb", OfTransformers)
    (tmp_path / "plan.json").write_text(json.dumps(make_plan()))
    plan = read_plan(tmp_path)
    rows = prepare_rows(plan.data, "dataset", tmp_path / "cache", 0)
    trainer = build_trainer(plan, training_arguments(plan, tmp_path), rows, [lambda **_: []], tmp_path)
    trainer.args.report_to = ["wandb"]
    # The last one is resumed without a checkpoint, so it starts again.
    for resumed, step, identity in ((False, 0, "run 1"), (True, 2, "run 1"), (True, 4, "run 1"), (True, 0, "run 4")):
        trainer.add_callback(OfTransformers)
        known = Record(tmp_path, 0)
        known.start(resumed=resumed)
        trackers.begin_reports(trainer, plan, tmp_path, known, step)
        assert record(tmp_path)["trackers"] == {"wandb": identity}
        assert not any(isinstance(callback, OfTransformers) for callback in trainer.callback_handler.callbacks)
    assert service.asked == [None, "run 1", "run 1", None]


def test_a_service_that_goes_away_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    from grpo_recipes.worker.trackers import Reports

    failing = Failing()
    reports = Reports({"wandb": failing})
    for step in (1, 2):
        reports.tell("step", step, {"reward": 0.5})
    reports.tell("end", 2, {"status": "completed"})
    assert failing.told == [{"reward": 0.5}]
    assert capsys.readouterr().out == "wandb failed and gets no more reports: ConnectionError: gone\n"


def test_figures_are_finite_and_named_as_in_metrics_jsonl() -> None:
    from grpo_recipes.worker.trackers import figures

    step = {"reward": 1, "kl": math.nan, "loss": None, "time": 3.0, "step": 7, "is": True, "rewards/a/mean": 0.5}
    assert figures("step", step) == {"reward": 1, "rewards/a/mean": 0.5}
    assert figures("guard", {"name": "truncation", "value": 0.97, "count": 1}) == {"guards/truncation": 0.97}
    assert figures("server", {"seconds": 3}) == figures("end", {"step": 3}) == {}
