"""A run folder's Slurm job: its script, its submission and its state."""

import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.host.child_environment import LISTS_OF_PLACES, OWN_FOLDERS, absolute_places
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import section_of
from grpo_recipes.engines.by_hand import local_files
from grpo_recipes.facts.container_options import container_faults
from grpo_recipes.facts.sbatch_options import has_shape, is_allowed
from grpo_recipes.render.job import job_of
from grpo_recipes.render.launch_script import fill

JOB_FILE = "job.json"
# Final states; a requeued job is PENDING again.
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
_FIELD = re.compile(r"(?:^| )(JobState|Reason|NodeList|Restarts|ExitCode|UserId)=(\S*)")
_WORK_DIR = re.compile(r" WorkDir=(.*?)(?: [A-Za-z]+=|$)", re.MULTILINE)
_ID = re.compile(r"[1-9][0-9]{0,18}")
_CLUSTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# A busy or restarting controller answers late.
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A submitted job. cluster: None if Slurm manages only one."""

    id: str
    cluster: str | None = None

    def words(self, *command: str) -> list[str]:
        """A Slurm command with the options for this job's cluster."""
        return [command[0], *([] if self.cluster is None else [f"--clusters={self.cluster}"]), *command[1:]]


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job. state: Slurm's word, "" for a job that it has forgotten. starts: 1 for the first one.

    user: uid of the submitter, folder: working directory; None if Slurm does not report it.
    """

    state: str
    reason: str = ""
    nodes: str = ""
    starts: int = 1
    exit_code: int | None = None
    user: int | None = None
    folder: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended permanently."""
        return self.state in ("", *_ENDED)


def look_at(job: SubmittedJob) -> JobState | None:
    """The current state of a job; None if Slurm does not answer."""
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
        return JobState("") if "Invalid job id" in done.stdout + done.stderr else None
    fields = dict(_FIELD.findall(done.stdout))
    code = fields.get("ExitCode", "").partition(":")[0]
    user = re.search(r"\(([0-9]+)\)$", fields.get("UserId", ""))
    work_dir = _WORK_DIR.search(done.stdout)
    return JobState(
        state=fields.get("JobState", ""),
        reason=fields.get("Reason", ""),
        nodes=fields.get("NodeList", "").replace("(null)", ""),
        starts=int(fields.get("Restarts", "0")) + 1,
        exit_code=int(code) if code.isdigit() else None,
        user=None if user is None else int(user[1]),
        folder=None if work_dir is None else work_dir[1].rstrip(),
    )


def read_job(folder: str) -> SubmittedJob | None:
    """The last job that a run folder was submitted as, None if there is none or the file is not grpo-run's."""
    try:
        content = cast("dict[str, Any]", read_json(Path(folder), JOB_FILE))
        job, cluster = str(content["job"]), content.get("cluster")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    # Both are passed as command-line arguments.
    is_plain = _ID.fullmatch(job) and (cluster is None or (isinstance(cluster, str) and _CLUSTER.fullmatch(cluster)))
    return SubmittedJob(job, cluster) if is_plain else None


def is_queued(folder: str) -> bool:
    """Whether Slurm has a queued or running job of this user and folder, or cannot say."""
    job = read_job(folder)
    state = None if job is None else look_at(job)
    return job is not None and (state is None or (not state.has_ended and _is_of(state, folder)))


def _is_of(state: JobState, folder: str) -> bool:
    """Whether a job belongs to this user and folder; different clusters reuse job numbers."""
    is_users = state.user in (None, os.getuid())
    return is_users and (state.folder is None or os.path.realpath(state.folder) == os.path.realpath(folder))


def remember(folder: str, job: SubmittedJob) -> None:
    """Writes job.json. Raises OSError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"engine": "slurm", "job": job.id, "cluster": job.cluster, "submitted": now}
    write_whole(Path(folder), JOB_FILE, json.dumps(content, indent=2) + "\n")


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without an outer job's Slurm variables, which srun would take for options."""
    needed = ("SLURM_CONF", "SLURM_CLUSTERS")
    inherited = absolute_places(os.environ)[0]  # Slurm starts the job in the run folder
    return {name: value for name, value in inherited.items() if name in needed or not name.startswith("SLURM_")} | more


_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%+/=\[\]-]*")


@dataclass(frozen=True, slots=True)
class SlurmContainer:
    """The recipe's slurm.container, which describes each key."""

    image: str
    runtime: Literal["pyxis", "apptainer"]
    mounts: tuple[str, ...] = ()
    python: str = "python"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """The options for submitting the run, in sbatch's terms.

    gpus_per_node: of each machine; 0 requests none. gpu_type: None accepts any. cpus_per_task: CPUs of each machine's
    task, None for the cluster's default. time: the limit in sbatch's format, None for the partition's. signal_seconds:
    how long before the limit the run saves and stops. max_requeues: how often the job requeues itself. options: further
    long options of sbatch, without their dashes; true for one without a value. gpu_option: the option that requests the
    GPUs. interface: of the network in which the machines meet, None for Slurm's address. container: None trains in the
    Python that submits the job.
    """

    partition: str | None
    account: str | None
    qos: str | None
    time: str | None
    gpus_per_node: int
    gpu_type: str | None
    cpus_per_task: int | None
    signal_seconds: int
    max_requeues: int
    options: dict[str, str | bool] = field(default_factory=dict)
    gpu_option: Literal["gpus-per-node", "gres"] = "gpus-per-node"
    interface: str | None = None
    container: SlurmContainer | None = None


def slurm_job(plan: Plan) -> SlurmJob:
    """The Slurm job of a plan. Raises NotAPlan."""
    settings = dict(plan.job)
    time, options = settings.get("time"), settings.get("options")
    if isinstance(options, dict):
        settings["options"] = {name: True if value is True else str(value) for name, value in options.items()}
    return section_of(SlurmJob, settings | {"time": None if time is None else str(time)}, "job")


def job_sbatch(plan: Plan) -> str:
    """The text of job.sbatch. Raises Refusal for a forbidden option."""
    job, asked = job_of(plan), slurm_job(plan)
    return fill(
        "job.sbatch.j2",
        name=job.name,
        job=job,
        options=[_option(key, value) for key, value in _header(plan, asked).items()],
        max_requeues=asked.max_requeues,
        interface=asked.interface,
        **_container(plan, asked.container),
    )


def nodes_sh(plan: Plan, count: int, limit_s: int, minutes: int = 10) -> str:
    """A script that makes `count` machines, requested as for the job, report what they have. Raises as job_sbatch.

    limit_s: how long it waits in the queue. minutes: how long the machines may take.
    """
    asked = slurm_job(plan)
    # It starts immediately, and srun has no equivalent of the last two.
    of_the_job = ("job-name", "signal", "requeue", "begin", "deadline", "dependency", "kill-on-invalid-dep", "hold")
    left_out = (*of_the_job, "cluster-constraint", "wait-all-nodes")
    header = {key: value for key, value in _header(plan, asked).items() if key not in left_out}
    header |= {"nodes": count, "ntasks": count, "time": minutes, "immediate": limit_s}
    options = [f"--{key}" if value is True else f"--{key}={value}" for key, value in header.items()]
    return fill("nodes.sh.j2", job=job_of(plan), options=options, **_container(plan, asked.container))


def _container(plan: Plan, container: SlurmContainer | None) -> dict[str, object]:
    """The template values for the container. Raises Refusal for an impossible one."""
    if container is None:
        return {"container": None}
    for key, expected in container_faults(asdict(container)):
        raise Refusal.of(f"slurm.container.{key} must be {expected}", because="the runtime would refuse it")
    for path in (plan.folder or "", *local_files(plan)):
        if re.search("[:,]", path):
            raise Refusal.of(
                f"{path} cannot be mounted in a container",
                because="a : or a , in a path ends a part of a mount",
                fix="a path without them, for the run folder with --out",
            )
    return {
        "container": replace(
            container, mounts=tuple(mount if ":" in mount else f"{mount}:{mount}" for mount in container.mounts)
        ),
        "places": local_files(plan),
        "own_folders": OWN_FOLDERS,
        # srun may need its own libraries; a container runtime sets its own PATH.
        "host_lists": [name for name in LISTS_OF_PLACES if name not in ("PATH", "LD_LIBRARY_PATH")],
    }


def _header(plan: Plan, slurm: SlurmJob) -> dict[str, str | int | bool]:
    """The options of sbatch in the order in which a reader looks for them, those of `slurm.options` last."""
    job = job_of(plan)
    gpus = f"{slurm.gpu_type}:{slurm.gpus_per_node}" if slurm.gpu_type is not None else str(slurm.gpus_per_node)
    wished = {
        "job-name": job.name,
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "time": slurm.time,
        "nodes": job.all_nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": slurm.cpus_per_task,
        "gpus-per-node": gpus if slurm.gpus_per_node and slurm.gpu_option == "gpus-per-node" else None,
        "signal": f"B:USR1@{slurm.signal_seconds}",
        "requeue": True,
    }
    for key, value in slurm.options.items():
        if not is_allowed(key) or not has_shape(key, value):
            raise Refusal.of(f"slurm.options.{key!r}: {value!r} is not an option that a recipe may pass to sbatch")
    options = slurm.options
    if slurm.gpus_per_node and slurm.gpu_option == "gres":
        others = [str(options["gres"])] if "gres" in options else []
        options = options | {"gres": ",".join([f"gpu:{gpus}", *others])}
    return {key: value for key, value in wished.items() if value is not None} | options


def _option(key: str, value: str | int | bool) -> str:
    """One option as sbatch reads it in a header, quoted if necessary."""
    if value is True:
        return f"--{key}"
    text = str(value)
    if not text.isprintable():
        raise Refusal.of(f"{key}: {text!r} has a character that a line of job.sbatch cannot have")
    if not _PLAIN.fullmatch(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"--{key}={text}"
