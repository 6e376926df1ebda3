"""Jobs of real run folders whose trainer, or vLLM server, is a small program: seconds, not a minute."""

import subprocess
import sys
import time
from pathlib import Path

from slurm_runs import Following, environment, wait_until
from throw_away_cluster import Cluster

# What trainers and servers of these tests share.
PRELUDE = """
import json, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, "worker/grpo_recipes.zip")
from grpo_recipes.worker._shared.record import Record
arguments = sys.argv[1:]
is_server = "--server" in arguments
node = int(arguments[arguments.index("--node") + 1]) if "--node" in arguments else 0
start = int(os.environ.get("SLURM_RESTART_COUNT", "0")) + 1
record = Record(Path.cwd(), node)
got = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda which, _: got.append(signal.Signals(which).name))
def note(name, text=""):
    Path(f".{name}").write_text(str(text))
    os.replace(f".{name}", name)
def begin():
    record.start(resumed="--resume" in arguments)
def end(status, code, message=None):
    record.end(status, code, message)
    sys.exit(code)
def wait(what=lambda: got, seconds=60):
    give_up = time.monotonic() + seconds
    while not what():
        if time.monotonic() > give_up: end("failed", 1, "waited in vain")
        time.sleep(0.05)
"""
LAUNCH_SH = """#!/usr/bin/env bash
cd "$(dirname "${BASH_SOURCE[0]}")"
exec "$PYTHON" -u stub.py "$@"
"""
RECIPE = """
recipe: 1
name: stub
extends: {root}/recipes/quickstart.yaml
evaluation: null
training: {{max_steps: 4, prompts_per_step: 4}}
launch: {{engine: slurm, num_nodes: 2, gpus_per_node: 0}}
"""


def written_folder(cluster: Cluster, home: Path, root: Path, *more: str) -> Path:
    """The run folder that `grpo-run RECIPE --dry-run` writes. more: arguments of it."""
    (home / "recipe.yaml").write_text(RECIPE.format(root=root))
    folder = home / "a run"
    command = [sys.executable, "-m", "grpo_recipes.cli.main", "recipe.yaml", "--dry-run", "--out", str(folder), *more]
    done = subprocess.run(command, cwd=home, env=environment(cluster, home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return folder


def with_stub(folder: Path, program: str) -> Path:
    """The folder with this program as what launch.sh starts on each machine."""
    (folder / "launch.sh").write_text(LAUNCH_SH)
    (folder / "stub.py").write_text(PRELUDE + program)
    return folder


def follow(cluster: Cluster, folder: Path, *, resume: bool = False, **more: str) -> Following:
    """Starts a program that submits the folder and follows its job. more: of its environment."""
    program = (
        "import sys\nfrom grpo_recipes.engines.slurm import follow_job, launch_job\n"
        "from grpo_recipes.engines.slurm_job import is_queued\n"
        f"if {resume} and is_queued(sys.argv[1]): sys.exit(follow_job(sys.argv[1], poll_s=1.0))\n"
        f"sys.exit(launch_job(sys.argv[1], resume={resume}, poll_s=1.0))"
    )
    output = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.talk")
    with output.open("wb") as talk:
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            env={**environment(cluster, folder.parent), **more},
            stdin=subprocess.DEVNULL,
            stdout=talk,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Following(process, folder, output, cluster)


def wait_for_file(run: Following, name: str) -> str:
    """Waits for a note of the stub, and returns it."""
    wait_until((run.folder / name).exists, name, run, limit_s=60)
    return (run.folder / name).read_text()


def ended(run: Following, code: int) -> str:
    """Waits for the end with this exit code; returns train.log."""
    assert run.wait() == code, run.story()
    return (run.folder / "train.log").read_text()
