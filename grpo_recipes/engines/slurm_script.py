"""job.sbatch: the job of a run for Slurm, to be submitted in the run folder."""

import re
from dataclasses import dataclass, field

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import section_of
from grpo_recipes.errors import Refusal
from grpo_recipes.facts.sbatch_options import has_shape, is_allowed
from grpo_recipes.render.job import job_of, launch_command, server_command
from grpo_recipes.render.template import fill

_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%+/=\[\]-]*")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """How the run is submitted to Slurm, in the words of sbatch.

    gpus_per_node: of each machine; 0 asks for none. gpu_type: of them, None takes any.
    cpus_per_task: processors of each machine's task, None leaves it to the cluster. time: the limit as sbatch takes
    it, None the partition's. signal_seconds: so long before the limit the run saves and stops.
    max_requeues: how often the job puts itself back into the queue. options: more of sbatch's long options, without
    their dashes; true for one that takes no value.
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


def slurm_job(plan: Plan) -> SlurmJob:
    """What the plan of a Slurm job asks for. Raises NotAPlan."""
    said = dict(plan.job)
    time, options = said.get("time"), said.get("options")
    if isinstance(options, dict):
        said["options"] = {name: True if value is True else str(value) for name, value in options.items()}
    return section_of(SlurmJob, said | {"time": None if time is None else str(time)}, "job")


def job_sbatch(plan: Plan) -> str:
    """The text of job.sbatch. Raises Refusal for an option that is not free."""
    job, asked = job_of(plan), slurm_job(plan)
    return fill(
        "job.sbatch.j2",
        name=job.name,
        job=job,
        options=[_option(key, value) for key, value in _header(plan, asked).items()],
        server_command=f'trap "" USR1; exec {server_command(chr(34) + "$1" + chr(34))}',
        trainer_command=_trainer_command(is_alone=job.all_nodes == 1),
        max_requeues=asked.max_requeues,
    )


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
        "gpus-per-node": gpus if slurm.gpus_per_node else None,
        "signal": f"B:USR1@{slurm.signal_seconds}",
        "requeue": True,
    }
    for key, value in slurm.options.items():
        if not is_allowed(key) or not has_shape(key, value):
            raise Refusal.of(f"slurm.options.{key!r}: {value!r} is nothing that a recipe may ask sbatch for")
    return {key: value for key, value in wished.items() if value is not None} | slurm.options


def _option(key: str, value: str | int | bool) -> str:
    """One option as sbatch reads it in a header: quoted where it is not plain."""
    if value is True:
        return f"--{key}"
    text = str(value)
    if not text.isprintable():
        raise Refusal.of(f"{key}: {text!r} has a character that a line of job.sbatch cannot have")
    if not _PLAIN.fullmatch(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"--{key}={text}"


def _trainer_command(*, is_alone: bool) -> str:
    """What a task of the trainers' step runs, with address and port as $1 and $2 and more arguments behind them.

    Without a single quote, which the template has around it.
    """
    if is_alone:
        return 'trap "" USR1; exec bash launch.sh "${@:3}"'
    command = launch_command('"$SLURM_PROCID"', '"$1"', '"$2"', '"${@:3}"')
    return f'trap "" USR1; exec {command}'
