"""A job whose machines train in a container: what is mounted there and handed on, and that signals reach it.

The runtime is a stand-in for Apptainer, which makes the mounts and changes the root.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_runs import ROOT, SLOW, STEPS, Following, begin, environment, grpo_run, weights, written_recipe
from stub_jobs import RECIPE, ended, follow, wait_for_file, with_stub
from throw_away_cluster import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts"),
]
PYTHON = "/stack/bin/python"


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An image whose Python is nowhere else, and a runtime in the PATH."""
    image = tmp_path / "images" / "an image"
    (image / "stack/bin").mkdir(parents=True)
    (image / "etc").mkdir()
    for name in ("bin", "lib", "lib64"):
        (image / name).symlink_to(f"usr/{name}")
    (image / PYTHON[1:]).write_text(f'#!/bin/bash\nexec {shlex.quote(sys.executable)} "$@"\n')
    (image / PYTHON[1:]).chmod(0o755)
    (tmp_path / "bin").mkdir()
    shutil.copy(Path(__file__).with_name("stand_in_apptainer.sh"), tmp_path / "bin/apptainer")
    (tmp_path / "bin/apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return image


def container(image: Path, *mounts: str, **more: str) -> dict[str, object]:
    """The recipe's section. The system and the stack are mounted, since the image has none."""
    needed = dict.fromkeys(["/usr", "/etc", sys.base_prefix, sys.prefix])
    named = [*(f"{place}:{place}:ro" for place in needed), *mounts]
    return {"image": str(image), "runtime": "apptainer", "mounts": named, "python": PYTHON, **more}


def stub(slurm: Cluster, home: Path, program: str, section: dict[str, object]) -> Path:
    """A run folder whose name has a space, with a program that its container runs."""
    (home / "recipe.yaml").write_text(
        RECIPE.format(root=ROOT) + f"slurm: {{signal_seconds: 30, container: {json.dumps(section)}}}\n"
    )
    command = [sys.executable, "-m", "grpo_recipes.cli.main", "recipe.yaml", "--dry-run", "--out", str(home / "a run")]
    done = subprocess.run(command, cwd=home, env=environment(slurm, home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return with_stub(home / "a run", program)


def test_a_container_has_the_folders_and_the_environment(slurm: Cluster, image: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows").write_text("rows")
    program = (
        "seen = {'roots': sorted(os.listdir('/')), 'rows': Path('/rows here/rows').read_text(), 'here': os.getcwd(),\n"
        " 'environment': dict(os.environ), 'cache': os.path.isdir(os.environ['HF_HOME'])}\n"
        "note(f'seen{node}', json.dumps(seen))\nbegin()\nend('completed', 0)"
    )
    section = container(image, f"{tmp_path}/data:/rows here:ro")
    folder = stub(slurm, tmp_path, program, section)
    caches = tmp_path.with_name(f"caches of {tmp_path.name}")  # not in the home, which is mounted
    more = {"HF_HOME": str(caches), "PYTHONPATH": "/of/the/host", "MINE": "two words"}
    ended(follow(slurm, folder, **more), 0)
    for node in (0, 1):
        seen = json.loads((folder / f"seen{node}").read_text())
        assert {"stack", "rows here"} <= set(seen["roots"])
        assert (seen["rows"], seen["here"], seen["cache"]) == ("rows", str(folder), True)
        given = seen["environment"]
        assert (given["PYTHON"], given["HOME"], given["MINE"]) == (PYTHON, str(tmp_path), "two words")
        assert given["HF_HOME"] == str(caches)
        assert given["SLURM_PROCID"] == str(node)
        assert given["GRPO_RUN_JOB_START"].endswith(":0")
        assert "PYTHONPATH" not in given


def test_a_signal_reaches_the_trainer_in_the_container(slurm: Cluster, image: Path, tmp_path: Path) -> None:
    program = (
        "note(f'started{node}.{start}', ' '.join(arguments))\nif start == 2: begin(); end('completed', 0)\n"
        "begin()\nnote(f'up{node}')\nwait()\ntime.sleep(1)\nend('interrupted', 75, got[0])"
    )
    run = follow(slurm, stub(slurm, tmp_path, program, container(image)))
    for node in (0, 1):
        wait_for_file(run, f"up{node}")
    slurm.run("scancel", "--batch", "--signal=USR1", run.job)
    ended(run, 0)
    assert [end["next"] for end in run.ends()] == ["requeue", 0], run.story()
    assert "--resume" in (run.folder / "started0.2").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"python": "/no/such/python"}, "the container has no /no/such/python"),
        ({"mounts": ["/usr", "/no/such:/data"]}, "mount source /no/such does not exist"),
    ],
)
def test_what_the_container_lacks_is_named(
    changes: dict[str, str], said: str, slurm: Cluster, image: Path, tmp_path: Path
) -> None:
    folder = stub(slurm, tmp_path, "begin()\nend('completed', 0)", container(image) | changes)
    assert said in ended(follow(slurm, folder), 1)


def test_a_machine_without_the_image_is_named(slurm: Cluster, image: Path, tmp_path: Path) -> None:
    folder = stub(slurm, tmp_path, "begin()\nend('completed', 0)", container(image))
    hidden = slurm.nodes[1]
    slurm.crash(hidden)
    slurm.start_node(hidden, hides=image.parent)
    try:
        slurm.wait_until_idle(len(slurm.nodes))
        assert f"{hidden} does not have the image {image}" in ended(follow(slurm, folder), 2)
    finally:
        slurm.crash(hidden)


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ("pyxis", "srun has no --container-image"),
        ("apptainer", "has neither apptainer nor singularity"),
    ],
)
def test_a_cluster_without_the_runtime_is_told(
    runtime: str, said: str, slurm: Cluster, image: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin/apptainer").unlink()
    given = "nvcr.io#team/run:1" if runtime == "pyxis" else str(image)
    folder = stub(slurm, tmp_path, "begin()", container(image) | {"runtime": runtime, "image": given})
    if "--container-image" in slurm.run("srun", "--help") or (runtime == "apptainer" and shutil.which("singularity")):
        pytest.skip("this machine has the runtime")
    assert said in ended(follow(slurm, folder), 2)


@pytest.mark.long
def test_a_run_in_a_container_ends_where_it_would_have_ended_without(
    slurm: Cluster, image: Path, uninterrupted: str, tmp_path: Path
) -> None:
    refused = begin(slurm, tmp_path, container=container(image))
    refused.process.wait()
    (sha256,) = re.findall(r"container image .* has the sha256 ([0-9a-f]{64})", refused.talk())
    recipe, folder = written_recipe(tmp_path, container=container(image)), tmp_path / "a run"
    allowed = ("--allow-code", sha256)
    run: Following = grpo_run(slurm, folder, str(recipe), "--out", str(folder), *allowed, home=tmp_path)
    run.wait_for_step(3)
    slurm.run("sbatch", "--partition=high", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 5")
    assert run.wait() == 0, run.story()
    assert [end["next"] for end in run.ends()] == ["requeue", 0], run.story()
    assert 3 <= int(str(run.ends()[0]["step"])) < STEPS
    assert weights(folder) == uninterrupted
    assert hashlib.sha256(SLOW.encode()).hexdigest() in (folder / "plan.json").read_text()
