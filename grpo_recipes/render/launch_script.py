"""launch.sh: starts the training of a run folder wherever the stack is installed, also without grpo-run.

With a vLLM server of the run it starts what starts both, the server and then train.sh. Of several machines each starts
it with its number; a server with a machine of its own is started apart from it.
"""

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE, VllmServer
from grpo_recipes.render.accelerate import DEEPSPEED_STAGES, starts_one_process
from grpo_recipes.render.job import job_of
from grpo_recipes.render.template import fill
from grpo_recipes.trust.environment import refused


def launch_sh(plan: Plan) -> str:
    """The text of launch.sh. Raises Refusal for an environment variable that a recipe may not set."""
    server = _server(plan)
    return _script(plan) if server is None else _script(plan, "serve.sh.j2", server=server)


def train_sh(plan: Plan) -> str | None:
    """The text of train.sh, which starts the trainer beside a server; None where launch.sh does."""
    return None if _server(plan) is None else _script(plan)


def _server(plan: Plan) -> VllmServer | None:
    """The server that launch.sh starts."""
    server = None if plan.vllm is None else plan.vllm.server
    return None if server is None or server.own_node else server


def exported(plan: Plan) -> dict[str, str]:
    """The environment variables of the plan's processes, with what says that there is no sandbox.

    Raises Refusal for one that a recipe may not set.
    """
    for name, value in plan.environment.items():
        reason = refused(name, value)
        if reason is not None:
            raise Refusal.of(f"environment variable {name!r} is refused", because=reason)
    return plan.environment | ({SANDBOX_VARIABLE: plan.sandbox} if plan.sandbox == "none" else {})


def _script(plan: Plan, template: str = "launch.sh.j2", **values: object) -> str:
    job = job_of(plan)
    return fill(
        template,
        name=job.name,
        world=plan.world,
        job=job,
        several=job.all_nodes > 1,
        is_deepspeed=plan.world.strategy in DEEPSPEED_STAGES,
        environment=exported(plan),
        one_process=starts_one_process(plan),
        has_server=_server(plan) is not None,
        **values,
    )
