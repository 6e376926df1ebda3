"""launch.sh: starts the training of a run folder wherever the stack is installed, also without grpo-run.

With a vLLM server of the run it starts what starts both, the server and then train.sh.
"""

from grpo_recipes.errors import Refusal
from grpo_recipes.plan import Plan, VllmServer
from grpo_recipes.render.accelerate import starts_one_process
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
    return None if plan.vllm is None else plan.vllm.server


def _script(plan: Plan, template: str = "launch.sh.j2", **values: object) -> str:
    for name, value in plan.environment.items():
        reason = refused(name, value)
        if reason is not None:
            raise Refusal(f"environment variable {name!r} is refused\n  = because: {reason}")
    return fill(
        template,
        name=" ".join(plan.name.split()),
        world=plan.world,
        environment=plan.environment,
        one_process=starts_one_process(plan),
        has_server=_server(plan) is not None,
        **values,
    )
