"""Renders launch.sh, which starts the training of a run folder with the installed stack, also without grpo-run.

With a vLLM server it starts a program that starts the server and train.sh. With several machines, each starts it with
its number; a server with a separate machine is started separately.
"""

import json
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.host.child_environment import LISTS_OF_PLACES, OF_THE_LAUNCH
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE, VllmServer
from grpo_recipes.render.job import job_of
from grpo_recipes.trust.environment import why_refused

if TYPE_CHECKING:
    from jinja2 import Environment


def launch_sh(plan: Plan) -> str:
    """The text of launch.sh. Raises Refusal for an environment variable that a recipe may not set."""
    server = _server(plan)
    return _script(plan) if server is None else _script(plan, "serve.sh.j2", server=server)


def train_sh(plan: Plan) -> str | None:
    """The text of train.sh, which starts the trainer next to a server; None if launch.sh does that."""
    return None if _server(plan) is None else _script(plan)


def _server(plan: Plan) -> VllmServer | None:
    """The server that launch.sh starts."""
    server = None if plan.vllm is None else plan.vllm.server
    return None if server is None or server.own_node else server


def variables_to_export(plan: Plan) -> dict[str, str]:
    """The environment variables of the plan's processes, including the one that disables the sandbox.

    Raises Refusal for one that a recipe may not set.
    """
    for name, value in plan.environment.items():
        reason = why_refused(name, value)
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
        environment=variables_to_export(plan),
        one_process=starts_one_process(plan),
        has_server=_server(plan) is not None,
        **values,
    )


DEEPSPEED_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}
# The values of every run from before a recipe could set them; a plan without the section keeps them.
FSDP = {"reshard_after_forward": True, "cpu_ram_efficient_loading": True}


def accelerate_yaml(plan: Plan) -> str:
    """The text of accelerate.yaml, in the keys of accelerate's own configuration class."""
    world = plan.world
    return fill(
        "accelerate.yaml.j2",
        name=plan.name,
        world=world,
        one_process=starts_one_process(plan),
        distributed_type=_type_of_distribution(plan),
        fsdp=FSDP | (plan.fsdp or {}),
        zero3_init=DEEPSPEED_STAGES.get(world.strategy) == 3,
        mixed_precision=_precision(plan),
    )


def starts_one_process(plan: Plan) -> bool:
    """Whether the worker is started directly, without accelerate: one process, nothing to shard."""
    return plan.world.num_processes == 1 and plan.world.strategy in ("single", "ddp")


def _type_of_distribution(plan: Plan) -> str:
    if plan.world.strategy in DEEPSPEED_STAGES:
        return "DEEPSPEED"
    if plan.world.strategy == "fsdp2":
        return "FSDP"
    return "NO" if starts_one_process(plan) else "MULTI_GPU"


def _precision(plan: Plan) -> str:
    """The trainer's own value, since TrainingArguments would silently override any other."""
    return next((name for name in ("bf16", "fp16") if plan.arguments.GRPOConfig.get(name)), "no")


def fill(template: str, **values: object) -> str:
    """The text of a template; an undefined name raises jinja2.UndefinedError.

    Filters: `yaml` writes a scalar as YAML (a superset of JSON), `shell` as one shell word.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    # Imported here, since most commands render nothing and jinja2 takes 25 ms.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(lists_of_places=LISTS_OF_PLACES, safe_path=OF_THE_LAUNCH)
    environment.filters["yaml"] = json.dumps
    environment.filters["shell"] = shlex.quote
    return environment
