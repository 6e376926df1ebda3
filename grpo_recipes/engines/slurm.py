"""The run is a job of Slurm, which shares out the machines and starts it again where it was interrupted."""

from typing import TextIO

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.engines.slurm_following import JOB_SCRIPT, follow_job, launch_job
from grpo_recipes.engines.slurm_job import is_queued, job_sbatch
from grpo_recipes.launch.progress import View

_MOST_FOLLOWED = 32
"""Jobs; who follows one takes 60 MB of memory and asks the controller every ten seconds."""


class SlurmEngine(Engine):
    """Submits a job and follows it."""

    def files(self, plan: Plan) -> dict[str, str]:
        """The script of the job. Raises Refusal for what Slurm cannot be asked for."""
        try:
            return {JOB_SCRIPT: job_sbatch(plan)}
        except NotAPlan as problem:
            raise Refusal.of("the plan asks Slurm for nothing that a recipe can", because=str(problem)) from None

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Submits the job and follows it to its end."""
        return launch_job(folder, resume=resume, echo=echo, view=view, prepare=prepare)

    def follow(self, folder: str, *, echo: TextIO, view: View) -> int:
        """Follows the job that the folder was submitted as."""
        return follow_job(folder, echo=echo, view=view)

    def is_active(self, folder: str) -> bool:
        """Whether the job waits or runs, or Slurm cannot say."""
        return is_queued(folder)

    def shares(self, plan: Plan) -> list[dict[str, str]]:
        """As many jobs as are followed at once; Slurm shares out the machines among them."""
        return [{}] * _MOST_FOLLOWED


ENGINE = SlurmEngine()
