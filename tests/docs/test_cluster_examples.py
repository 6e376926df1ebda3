"""The Kubernetes Job and the SkyPilot task of docs/machines.md start the launch.sh of a rendered run folder."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "machines.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## With Kubernetes or SkyPilot")[2].partition("\n## ")[0]
JOB, TASK = re.findall(r"(?ms)^```yaml\n(.*?)^```$", SECTION)
DISK, FOLDER = "/runs", "/runs/addition"
ADDRESS = "addition-0.addition"
OF_SEVERAL = r' --node "\S+" --address \S+ --port \d+'


@pytest.fixture
def rendered(tmp_path: Path, grpo_run: Callable[..., Any]) -> Callable[[int], Path]:
    """Renders a run folder for some machines, without starting anything."""

    def render(machines: int) -> Path:
        folder = tmp_path / f"of_{machines}" / "addition"
        words = ["--set", f"launch.num_nodes={machines}", "--target", "tested,gpus=0"]
        answer = grpo_run(str(ROOT / "recipes/quickstart.yaml"), *words, "--dry-run", "--out", str(folder))
        assert answer.code == 0, answer.err
        return folder

    return render


def started(script: str, folder: Path, **variables: str) -> list[str]:
    """The arguments of the Python that a script of the examples starts, with the run folder at a different path."""
    python, getent = folder.parent / "python", folder.parent / "getent"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    getent.write_text(f'#!/bin/sh\n[ "$*" = "hosts {ADDRESS}" ]\n')
    for program in (python, getent):
        program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", script.replace(f"{FOLDER}/", f"{folder}/")],
        env={"PATH": f"{folder.parent}:{os.environ['PATH']}", "PYTHON": str(python), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def job() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The Service, the Job, and its container."""
    service, made = yaml.safe_load_all(JOB)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    return service, made, container


def task() -> dict[str, Any]:
    """The task of SkyPilot."""
    (made,) = yaml.safe_load_all(TASK)
    assert isinstance(made, dict)
    return made


def scripts(number: int) -> list[tuple[str, dict[str, str], str]]:
    """For each example its script, the variables of a machine, and the first machine's address."""
    (*shell, script) = job()[2]["command"]
    assert shell == ["bash", "-c"]
    nodes = {"SKYPILOT_NODE_RANK": str(number), "SKYPILOT_NODE_IPS": "10.0.0.7\n10.0.0.8"}
    return [
        (script.rstrip(), {"JOB_COMPLETION_INDEX": str(number)}, ADDRESS),
        (task()["run"].rstrip(), nodes, "10.0.0.7"),
    ]


@pytest.mark.processes
def test_each_machine_starts_with_its_number_and_the_first_ones_address(rendered: Callable[[int], Path]) -> None:
    folder = rendered(2)
    for number in (0, 1):
        for script, variables, address in scripts(number):
            own = ["-P", "-u", f"{folder}/worker/meet.py", str(number), "2", address, "29500"]
            assert started(script, folder, **variables) == own
            assert started(f"{script} --resume", folder, **variables) == [*own, "--resume"]


@pytest.mark.processes
def test_one_machine_starts_without_the_words_of_several(rendered: Callable[[int], Path]) -> None:
    folder = rendered(1)
    for script, variables, _ in scripts(0):
        alone, count = re.subn(OF_SEVERAL, "", script)
        assert count == 1, script
        assert started(alone, folder, **variables) == ["-P", "-u", f"{folder}/worker/train.py"]


def test_every_path_below_the_run_folder_is_in_it(rendered: Callable[[int], Path]) -> None:
    folder = rendered(2)
    named = set(re.findall(rf"{FOLDER}/([\w./-]+)", SECTION))
    assert named == {"launch.sh"}
    assert all((folder / name).is_file() for name in named)


def test_the_first_pod_has_the_address_that_the_others_call() -> None:
    service, made, _ = job()
    name, spec, pod = made["metadata"]["name"], made["spec"], made["spec"]["template"]["spec"]
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == (pod["subdomain"], "None")
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert f"{name}-0.{pod['subdomain']}" == ADDRESS
    assert (spec["backoffLimit"], pod["restartPolicy"]) == (0, "Never"), "the page says that nothing restarts"


def test_both_mount_the_disk_of_the_run_folder_and_ask_for_eight_gpus() -> None:
    _, made, container = job()
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in made["spec"]["template"]["spec"]["volumes"]}
    assert places == {"runs": DISK, "shared-memory": "/dev/shm"}
    assert volumes["runs"]["persistentVolumeClaim"] == {"claimName": "runs"}
    assert volumes["shared-memory"]["emptyDir"]["medium"] == "Memory"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert (task()["num_nodes"], task()["resources"]["accelerators"]) == (2, "H100:8")
    assert [*task()["volumes"]] == [DISK]
    assert task()["resources"]["image_id"] == f"docker:{container['image']}"
