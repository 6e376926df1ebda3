"""The duration of a plan: tokens and operations always, seconds where its GPUs are known."""

from typing import NamedTuple

from grpo_recipes.contract.plan import Plan
from grpo_recipes.duration.between import Between
from grpo_recipes.duration.estimate import Flops, Seconds, Step, flops_of, seconds_of, why_unknown, why_untimed
from grpo_recipes.duration.gpu import TimedGpu
from grpo_recipes.duration.levers import Lever, largest_lever
from grpo_recipes.duration.work import Tokens, steps_of, tokens_of, work_of
from grpo_recipes.facts.gpu_speeds import GpuSpeed, gpu_speed
from grpo_recipes.memory.needs import MemoryNeeds
from grpo_recipes.stack.gpus import named_gpu
from grpo_recipes.user_files.architecture import read_architecture

_WHOLE_SAMPLING = {"top_p": (1.0, None), "top_k": (0, -1, None), "min_p": (0.0, None)}
_LOSSES_OF_A_MICRO_BATCH = ("bnpo",)


class Duration(NamedTuple):
    """What a run takes. steps: of the whole run, None where rows were not counted. gpus: that are paid for.

    flops, seconds: of a step; None where they are not known, and unknown says why.
    """

    tokens: Tokens
    steps: int | None
    gpus: int
    flops: Flops | None = None
    seconds: Seconds | None = None
    lever: Lever | None = None
    unknown: str = ""

    def hours(self) -> Between | None:
        """Hours of all steps."""
        if self.seconds is None or self.steps is None:
            return None
        return self.seconds.total().times(self.steps / 3600)

    def cost(self, price: float) -> Between | None:
        """What all GPUs cost for these hours. price: of one for an hour, in any currency."""
        hours = self.hours()
        return None if hours is None else hours.times(price * self.gpus)


def planned_duration(plan: Plan, prompt: int, needs: MemoryNeeds | str) -> Duration:
    """The duration of a plan. prompt: tokens of the longest; needs: of its memory, or why they are not known."""
    work = work_of(plan)
    known = Duration(
        tokens_of(plan, prompt),
        steps_of(plan),
        work.processes * (plan.world.device == "cuda") + work.server_gpus,
    )
    if isinstance(needs, str):
        return known._replace(unknown=needs)
    if (config := needs.config) is None:
        return known._replace(unknown="the config.json of the model is not here")
    architecture, layout = read_architecture(config), needs.layout
    unknown = why_unknown(config, architecture, needs.update)
    if architecture is None or unknown:
        return known._replace(unknown=unknown)
    step = Step(architecture, needs.update, layout, work, needs.gpu_bytes)
    known = known._replace(flops=flops_of(step))
    speed = _speed(plan)
    untimed = speed if isinstance(speed, str) else why_untimed(layout, work, _gathers(plan))
    if isinstance(speed, str) or untimed:
        return known._replace(unknown=untimed)
    gpu = TimedGpu(speed, bool(plan.arguments.GRPOConfig.get("tf32")))
    lever = largest_lever(step, gpu, needs, cuts_sampling=_cuts_sampling(plan), has_fixed_cut=_has_fixed_cut(plan))
    return known._replace(seconds=seconds_of(step, gpu), lever=lever)


def _speed(plan: Plan) -> GpuSpeed | str:
    """The speed of the plan's GPUs, or why it is not known."""
    gpus = plan.stack.get("gpus")
    if plan.world.device == "cpu" or not isinstance(gpus, list) or not gpus:
        return "how fast a CPU trains is not known"
    names = sorted({str(gpu.get("name")) for gpu in gpus})
    if len(names) > 1:
        return f"how fast {' and '.join(names)} are together is not known"
    return gpu_speed(named_gpu(names[0]).name) or f"no datasheet of {names[0]} was read"


def _gathers(plan: Plan) -> bool:
    return plan.arguments.GRPOConfig.get("ds3_gather_for_generation") is not False


def _cuts_sampling(plan: Plan) -> bool:
    """Whether some tokens are never drawn."""
    arguments = plan.arguments.GRPOConfig
    return any(arguments.get(name) not in whole for name, whole in _WHOLE_SAMPLING.items())


def _has_fixed_cut(plan: Plan) -> bool:
    """Whether the loss depends on how a step is cut into micro-batches."""
    return plan.arguments.GRPOConfig.get("loss_type") in _LOSSES_OF_A_MICRO_BATCH
