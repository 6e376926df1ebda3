"""launch.sh: starts the training of a run folder wherever the stack is installed, also without grpo-run."""

from grpo_recipes.errors import Refusal
from grpo_recipes.plan import Plan
from grpo_recipes.render.accelerate import starts_one_process
from grpo_recipes.render.template import fill
from grpo_recipes.trust.environment import refused


def launch_sh(plan: Plan) -> str:
    """The text of launch.sh. Raises Refusal for an environment variable that a recipe may not set."""
    for name, value in plan.environment.items():
        reason = refused(name, value)
        if reason is not None:
            raise Refusal(f"environment variable {name!r} is refused\n  = because: {reason}")
    return fill(
        "launch.sh.j2",
        name=" ".join(plan.name.split()),
        world=plan.world,
        environment=plan.environment,
        one_process=starts_one_process(plan),
    )
