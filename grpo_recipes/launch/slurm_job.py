"""What Slurm says about one job, and the job that a run folder was submitted as."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from grpo_recipes.bounded_json import read_json
from grpo_recipes.folder_files import write_whole

JOB_FILE = "job.json"
# Nothing follows on these; a job that is requeued is PENDING again.
_ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
_FIELD = re.compile(r"(?:^| )(JobState|Reason|NodeList|Restarts|ExitCode)=(\S*)")
# A controller that is busy or being restarted answers late.
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted job. cluster: of several that one Slurm knows, None for the only one."""

    id: str
    cluster: str | None = None

    def words(self, *command: str) -> list[str]:
        """A command of Slurm that is about this job's cluster."""
        return [command[0], *([] if self.cluster is None else [f"--clusters={self.cluster}"]), *command[1:]]


@dataclass(frozen=True, slots=True)
class Seen:
    """How a job stands. state: Slurm's word, "" for a job that it has forgotten. starts: 1 for the first one."""

    state: str
    reason: str = ""
    nodes: str = ""
    starts: int = 1
    exit_code: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it will do nothing any more."""
        return self.state in ("", *_ENDED)


def look_at(job: Job) -> Seen | None:
    """How a job stands now; None where Slurm does not answer."""
    try:
        done = subprocess.run(
            job.words("scontrol", "show", "job", "--oneliner", job.id),
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return Seen("") if "Invalid job id" in done.stdout + done.stderr else None
    found = dict(_FIELD.findall(done.stdout))
    code = found.get("ExitCode", "").partition(":")[0]
    return Seen(
        state=found.get("JobState", ""),
        reason=found.get("Reason", ""),
        nodes=found.get("NodeList", "").replace("(null)", ""),
        starts=int(found.get("Restarts", "0")) + 1,
        exit_code=int(code) if code.isdigit() else None,
    )


def submitted_job(folder: str) -> Job | None:
    """The job that a run folder was last submitted as, None where there is none."""
    try:
        content = cast("dict[str, Any]", read_json(Path(folder), JOB_FILE))
        return Job(str(content["job"]), content.get("cluster"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def is_queued(folder: str) -> bool:
    """Whether Slurm has a job of this folder that waits or runs, or cannot say."""
    job = submitted_job(folder)
    seen = None if job is None else look_at(job)
    return job is not None and (seen is None or not seen.has_ended)


def remember(folder: str, job: Job) -> None:
    """Writes job.json. Raises OSError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"engine": "slurm", "job": job.id, "cluster": job.cluster, "submitted": now}
    write_whole(Path(folder), JOB_FILE, json.dumps(content, indent=2) + "\n")


def clean_environment(**more: str) -> dict[str, str]:
    """That of this process without what Slurm said of an outer job, which srun would take for options of this one."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("SLURM_")} | more
