"""How a pod ends, and what the Job makes of that: the container's own command, run here in place of a pod."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_plans import KUBERNETES, cluster_file, cluster_plan, documents
from support.processes import ROOT, wait_until

import grpo_recipes
from grpo_recipes.contract.host.processes import descendants, ranks

PART = Path(grpo_recipes.__file__).parent / "worker" / "part.py"
Pod = "subprocess.Popen[bytes]"


def after(job: dict[str, Any], code: int, *, disrupted: bool = False) -> str:
    """What a Job does when a pod has ended with a code: the first rule that fits, as the API of batch/v1 says it."""
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes")
        if codes is not None and code != 0 and (code in codes["values"]) == (codes["operator"] == "In"):
            return str(rule["action"])
        if disrupted and any(one["type"] == "DisruptionTarget" for one in rule.get("onPodConditions", [])):
            return str(rule["action"])
    return "Complete" if code == 0 else "Count"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("launch_sh", "arguments", "code"),
    [
        ("end completed 0; exit 0", [], 0),
        ("end interrupted 75; exit 1", [], 75),  # torch's launcher says 1 of everything
        ("end failed 1; exit 1", [], 1),
        ("end stopped 3; exit 1", [], 3),
        ("exit 2", [], 2),
        ("end running null; kill -KILL $$", [], 137),
        ("kill -TERM $$", [], 75),  # before there was a trainer that could save
        (
            "end interrupted 75; exit 0",
            ["--server", "--address", "127.0.0.1"],
            75,
        ),  # a server whose trainers were interrupted
        ("end completed 0; exit 0", ["--server", "--address", "127.0.0.1"], 0),
        ("exit 0", ["--node", "1"], 0),  # machine 0 still writes its last word
    ],
)
def test_a_machine_ends_as_its_run_does(launch_sh: str, arguments: list[str], code: int, tmp_path: Path) -> None:
    assert ended(tmp_path, launch_sh, *arguments) == code


@pytest.mark.processes
def test_what_an_earlier_start_said_does_not_count_and_is_resumed(tmp_path: Path) -> None:
    assert ended(tmp_path, 'end interrupted 75; echo "$@" > first; exit 75') == 75
    assert ended(tmp_path, 'echo "$@" > second; exit 1') == 1
    assert [(tmp_path / name).read_text().split() for name in ("first", "second")] == [[], ["--resume"]]


@pytest.mark.processes
@pytest.mark.parametrize(
    "arguments", [[], ["--node", "1", "--address", "gone.invalid"], ["--server", "--address", "a"]]
)
def test_a_completed_run_is_left_as_it_is(arguments: list[str], tmp_path: Path) -> None:
    record = '{"status": "completed", "exit_code": 0, "proofs": {"gpu": 1}}'
    (tmp_path / "run.json").write_text(record)
    assert ended(tmp_path, "end running null; touch started; exit 1", *arguments) == 0
    assert ((tmp_path / "run.json").read_text(), (tmp_path / "started").exists()) == (record, False)


@pytest.mark.processes
def test_a_machine_waits_for_the_name_of_the_first_one_until_the_run_is_completed(tmp_path: Path) -> None:
    waits = subprocess.Popen([sys.executable, "-P", PART, "survival.attempt", tmp_path, "--address", "gone.invalid"])
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(3)
    (tmp_path / "new").write_text('{"status": "completed", "exit_code": 0}')
    (tmp_path / "new").rename(tmp_path / "run.json")
    assert waits.wait(timeout=60) == 0


def ended(folder: Path, launch_sh: str, *arguments: str) -> int:
    """The exit code of an attempt with this in place of launch.sh."""
    write = """end() { printf '{"status": "%s", "exit_code": %s}' "$1" "$2" > new && mv new run.json; }"""
    (folder / "launch.sh").write_text(f'cd "$(dirname "$0")"\n{write}\n{launch_sh}\n')
    command = [sys.executable, "-P", PART, "survival.attempt", folder, *arguments]
    return subprocess.run(command, timeout=120).returncode


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Writes a run folder whose volume is the folder of the test, and returns its Job."""

    def write(*overrides: str) -> dict[str, Any]:
        values = (*KUBERNETES, f"kubernetes.volume_path={tmp_path}", "evaluation=null", "launch.gpus_per_node=0")
        values += ("training.max_steps=30", "training.prompts_per_step=4", "training.save_steps=30", *overrides)
        options = [word for value in values for word in ("--set", value)]
        command = [sys.executable, "-m", "grpo_recipes.cli.main", "recipes/quickstart.yaml", *options]
        subprocess.run([*command, "--out", tmp_path / "run", "--dry-run"], cwd=ROOT, check=True, capture_output=True)
        *_, found = yaml.safe_load_all((tmp_path / "run" / "job.yaml").read_text())
        assert isinstance(found, dict)
        return found

    return write


def pod(job: dict[str, Any], log: Path, number: int = 0, python: str | Path = sys.executable) -> Pod:
    """A pod of the Job: its command and its variables; the name of the first pod is an address here."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    name = job["metadata"]["name"]
    command = [word.replace(f"{name}-0.{name}", "127.0.0.1") for word in container["command"]]
    cache = log.with_suffix(".cache")
    variables = {one["name"]: one["value"].replace("/cache", str(cache)) for one in container["env"]}
    more = {"PYTHON": str(python), "OMP_NUM_THREADS": "1", "JOB_COMPLETION_INDEX": str(number)}
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env={**os.environ, **variables, **more}, stdout=output, stderr=output, start_new_session=True
        )


def steps(folder: Path) -> int:
    """How many lines of metrics there are."""
    file = folder / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.stack
def test_a_pod_that_is_told_to_end_saves_and_one_that_is_killed_fails_the_job(
    job: Callable[..., dict[str, Any]], tmp_path: Path, warm_python: Path
) -> None:
    manifest, folder = job(), tmp_path / "run"
    first = pod(manifest, tmp_path / "log", python=warm_python / "python")
    wait_until(lambda: steps(folder) > 3 or first.poll() is not None)
    first.send_signal(signal.SIGTERM)
    code = first.wait(timeout=120)
    assert code == 75, (tmp_path / "log").read_text()
    assert (after(manifest, code), after(manifest, code, disrupted=True)) == ("Count", "Ignore")
    saved = json.loads((folder / "run.json").read_text())["step"]
    assert saved > 0

    second = pod(manifest, tmp_path / "log")
    wait_until(lambda: ranks(descendants(second.pid)) and json.loads((folder / "run.json").read_text())["step"] > saved)
    os.kill(ranks(descendants(second.pid))[0], signal.SIGKILL)  # as the kernel does for memory
    code = second.wait(timeout=120)
    assert code == 137, (tmp_path / "log").read_text()
    assert (after(manifest, code), after(manifest, code, disrupted=True)) == ("FailJob", "Ignore")

    third = pod(manifest, tmp_path / "log", python=warm_python / "python")
    assert third.wait(timeout=240) == 0, (tmp_path / "log").read_text()
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"
    assert f"checkpoint-{saved}" in (tmp_path / "log").read_text()


def test_what_the_job_does_for_each_exit_code() -> None:
    (manifest,) = documents(cluster_file(cluster_plan("recipes/quickstart.yaml", *KUBERNETES)))
    assert {code: after(manifest, code) for code in (0, 1, 2, 3, 75, 137, 143)} == {
        0: "Complete",
        1: "FailJob",
        2: "FailJob",
        3: "FailJob",
        75: "Count",
        137: "FailJob",
        143: "FailJob",
    }
    assert {after(manifest, code, disrupted=True) for code in (1, 75, 137, 143)} == {"Ignore"}


@pytest.mark.stack
@pytest.mark.long
def test_two_pods_save_when_one_is_told_to_end_and_resume_together(
    job: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    manifest, folder = job("launch.num_nodes=2", "launch.main_process_port=29711"), tmp_path / "run"
    logs = [tmp_path / f"log{number}" for number in (0, 1)]
    first = [pod(manifest, log, number) for number, log in enumerate(logs)]
    wait_until(lambda: steps(folder) > 3 or any(one.poll() is not None for one in first))
    first[1].send_signal(signal.SIGTERM)
    assert [one.wait(timeout=300) for one in first] == [75, 75], [log.read_text()[-3000:] for log in logs]
    second = [pod(manifest, log, number) for number, log in enumerate(logs)]
    assert [one.wait(timeout=300) for one in second] == [0, 0], [log.read_text()[-3000:] for log in logs]
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"
