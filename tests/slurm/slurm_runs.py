"""Runs of one small recipe on two nodes of a throw-away cluster, through the real command."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from throw_away_cluster import Cluster

ROOT = Path(__file__).parents[2]
STEPS = 12
LIMIT_S = 600.0
# A reward that counts for nothing and takes its time, so that what happens to a run happens in the middle of it.
SLOW = """
import time

def slow(completions, seconds, **_):
    time.sleep(seconds)
    return [0.0] * len(completions)
"""
RECIPE = """
recipe: 1
name: queued-sums
extends: {root}/recipes/quickstart.yaml
rewards:
  - {{name: exact_match, weight: 1.0}}
  - {{python: {slow}, weight: 1.0, options: {{seconds: {seconds}}}}}
evaluation: null
training: {{max_steps: {steps}, save_steps: 4, prompts_per_step: 4}}
launch: {{engine: slurm, num_nodes: 2, gpus_per_node: 0}}
slurm: {slurm}
"""


@dataclass(frozen=True, slots=True)
class Following:
    """A `grpo-run` that follows a job in a run folder. output: the file with all that it prints."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    output: Path
    cluster: Cluster

    @property
    def job(self) -> str:
        """The id of the job, once there is one."""
        path = self.folder / "job.json"
        wait_until(path.exists, "a job", self)
        return str(json.loads(path.read_text())["job"])

    def step(self) -> int:
        """The step that the run has trained last."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return max((event["step"] for event in events if event["event"] == "step"), default=0)

    def wait_for_step(self, step: int) -> None:
        """Waits until it has trained a step."""
        wait_until(lambda: self.step() >= step, f"step {step}", self)

    def wait(self) -> int:
        """Waits for the end and returns the exit code."""
        wait_until(lambda: self.process.poll() is not None, "the end", self)
        return int(self.process.returncode)

    def talk(self) -> str:
        """What it has printed."""
        return self.output.read_text()

    def interrupt(self) -> None:
        """A Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ends(self) -> list[dict[str, object]]:
        """How each start of the job ended that came to an end by itself."""
        path = self.folder / "job_ends.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def story(self) -> str:
        """All that is known, for the message of a failure."""
        files = (
            self.output,
            *(self.folder / name for name in ("train.log", "slurm.log", "run.json", "job_ends.jsonl")),
        )
        return "\n".join(f"--- {path.name}\n{path.read_text()[-4000:]}" for path in files if path.exists())


def written_recipe(folder: Path, seconds: float = 0.5, **slurm: object) -> Path:
    """A recipe whose steps take at least so long; keywords are keys of its slurm section."""
    (folder / "slow.py").write_text(SLOW)
    words = {"signal_seconds": 30, **slurm}
    text = RECIPE.format(root=ROOT, slow="slow.py:slow", seconds=seconds, steps=STEPS, slurm=json.dumps(words))
    (folder / "recipe.yaml").write_text(text)
    return folder / "recipe.yaml"


def environment(cluster: Cluster, home: Path) -> dict[str, str]:
    """That of a user of the cluster who is at home in an empty folder."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **cluster.environment, **offline, "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def grpo_run(cluster: Cluster, folder: Path, *arguments: str, home: Path) -> Following:
    """Starts `grpo-run` with these arguments. folder: the run folder."""
    code = hashlib.sha256(SLOW.encode()).hexdigest()
    output = home / f"{folder.name}.{time.monotonic_ns()}.talk"
    with output.open("wb") as talk:
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_recipes.cli.main", *arguments, "--allow-code", code],
            cwd=home,
            env=environment(cluster, home),
            stdin=subprocess.DEVNULL,
            stdout=talk,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Following(process, folder, output, cluster)


def begin(cluster: Cluster, home: Path, seconds: float = 0.5, **slurm: object) -> Following:
    """Begins a new run of the recipe in a folder whose name has a space."""
    recipe = written_recipe(home, seconds, **slurm)
    folder = home / "a run"
    return grpo_run(cluster, folder, str(recipe), "--out", str(folder), home=home)


def wait_until(condition: Callable[[], object], what: str, run: Following, limit_s: float = LIMIT_S) -> None:
    """Waits, and fails with the story of the run when it was in vain or grpo-run has ended meanwhile."""
    give_up = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > give_up or run.process.poll() is not None:
            assert condition(), f"waited in vain for {what}\n{run.story()}"
            return
        time.sleep(0.2)


def weights(folder: Path) -> str:
    """The digest of the trained tensors, to the last bit."""
    return hashlib.sha256((folder / "final" / "adapter_model.safetensors").read_bytes()).hexdigest()
