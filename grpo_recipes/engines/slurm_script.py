"""job.sbatch: the job of a run for Slurm, to be submitted in the run folder."""

import re

from grpo_recipes.contract.plan import Plan, Slurm
from grpo_recipes.errors import Refusal
from grpo_recipes.facts.sbatch_options import has_shape, is_allowed
from grpo_recipes.render.job import job_of, launch_command, server_command
from grpo_recipes.render.template import fill

_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%+/=\[\]-]*")


def job_sbatch(plan: Plan) -> str | None:
    """The text of job.sbatch; None where the engine is another one. Raises Refusal for an option that is not free."""
    if plan.slurm is None:
        return None
    job = job_of(plan)
    return fill(
        "job.sbatch.j2",
        name=job.name,
        job=job,
        options=[_option(key, value) for key, value in _header(plan, plan.slurm).items()],
        server_command=f'trap "" USR1; exec {server_command(chr(34) + "$1" + chr(34))}',
        trainer_command=_trainer_command(is_alone=job.all_nodes == 1),
        max_requeues=plan.slurm.max_requeues,
    )


def _header(plan: Plan, slurm: Slurm) -> dict[str, str | int | bool]:
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
            raise Refusal(f"slurm.options.{key!r}: {value!r} is nothing that a recipe may ask sbatch for")
    return {key: value for key, value in wished.items() if value is not None} | slurm.options


def _option(key: str, value: str | int | bool) -> str:
    """One option as sbatch reads it in a header: quoted where it is not plain."""
    if value is True:
        return f"--{key}"
    text = str(value)
    if not text.isprintable():
        raise Refusal(f"{key}: {text!r} has a character that a line of job.sbatch cannot have")
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
