"""The live trainer against the plan, before the first step. Each check is a function in CHECKS."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.stopped import Stopped
from grpo_recipes.worker.trainer.check import Check
from grpo_recipes.worker.trainer.lora_names import expected_trainable
from grpo_recipes.worker.trainer.model import ON_OWN_DEVICE
from grpo_recipes.worker.vllm.tokens import vllm_dtype, vllm_tokens

SHOWN_NAMES = 6
# Arguments without a meaning in one process; older releases of transformers switch them off there.
OF_SEVERAL_PROCESSES = ("average_tokens_across_devices",)


def world(plan: Plan, trainer: Any) -> Iterable[Check]:
    """The number of processes that train together."""
    yield Check("processes", plan.expect.world_size, trainer.accelerator.num_processes)


def deepspeed_stage(plan: Plan, trainer: Any) -> Iterable[Check]:
    """The ZeRO stage; 0 without DeepSpeed."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    yield Check("DeepSpeed stage", plan.expect.deepspeed_stage, 0 if plugin is None else plugin.zero_stage)


def arguments(plan: Plan, trainer: Any) -> Iterable[Check]:
    """The arguments after GRPOConfig, Trainer and DeepSpeed have had their say."""
    for name, value in plan.expect.arguments.items():
        if name in OF_SEVERAL_PROCESSES and plan.expect.world_size == 1:
            continue
        yield Check(f"GRPOConfig.{name}", _plain(value), _plain(getattr(trainer.args, name, "no such argument")))


def trainable_parameters(plan: Plan, trainer: Any) -> Iterable[Check]:
    """Which parameters are trained, by name, and how many numbers they are on all ranks together."""
    parameters = dict(trainer.model.named_parameters())
    live = {name for name, parameter in parameters.items() if parameter.requires_grad}
    if plan.expect.trainable == "lora":
        expected = expected_trainable(trainer.model, plan.arguments.LoraConfig or {})
    else:
        expected = set(parameters)
    yield Check("trained but not planned", "none", _names(live - expected))
    yield Check("planned but not trained", "none", _names(expected - live))
    if plan.expect.trainable_parameters is not None:
        count = sum(getattr(parameters[name], "ds_numel", parameters[name].numel()) for name in live)
        yield Check("trainable parameters", plan.expect.trainable_parameters, count)


def policy_dtype(plan: Plan, trainer: Any) -> Iterable[Check]:
    """The dtype of the model's own weights; adapters have their own, packed 4-bit weights none."""
    if plan.expect.weights_dtype is None:
        return
    found = {
        str(parameter.dtype).removeprefix("torch.")
        for name, parameter in trainer.model.named_parameters()
        if parameter.is_floating_point()
        and "lora_" not in name
        and "modules_to_save" not in name
        # bnb_4bit_quant_storage keeps packed weights in a float's clothes
        and not hasattr(parameter, "quant_state")
    }
    yield Check("dtype of the weights", plan.expect.weights_dtype, ", ".join(sorted(found)))


def devices(plan: Plan, trainer: Any) -> Iterable[Check]:
    """Each process holds the whole model on its own device, where the plan says so."""
    if plan.arguments.model_init_kwargs.get("device_map") != ON_OWN_DEVICE:
        return
    wanted = trainer.accelerator.device
    found = {f"{parameter.device.type}:{parameter.device.index or 0}" for parameter in trainer.model.parameters()}
    yield Check("device", f"{wanted.type}:{wanted.index or 0}", ", ".join(sorted(found)))


CHECKS: tuple[Callable[[Plan, Any], Iterable[Check]], ...] = (
    world,
    deepspeed_stage,
    arguments,
    trainable_parameters,
    policy_dtype,
    devices,
    vllm_dtype,
    vllm_tokens,
)


def run_checks(plan: Plan, trainer: Any) -> list[Check]:
    """All checks on all ranks: those of this rank, and of the others what differs."""
    own = [check for run in CHECKS for check in run(plan, trainer)]
    if trainer.accelerator.num_processes == 1:
        return own
    rank = trainer.accelerator.process_index
    gathered = gather_object([(rank, check) for check in own if not check.ok])
    seen = {check for check in own if not check.ok}
    for other, check in gathered:
        if other != rank and check not in seen:
            seen.add(check)
            own.append(replace(check, name=f"{check.name} (rank {other})"))
    return own


def as_records(checks: list[Check]) -> list[dict[str, Any]]:
    """The checks as run.json holds them: name, plan, live, ok."""
    return [{key: asdict(check)[key] for key in ("name", "plan", "live")} | {"ok": check.ok} for check in checks]


def report(checks: list[Check]) -> str:
    """One block for the terminal; arguments that agree are counted, not listed."""
    agreeing = [check for check in checks if check.ok and check.name.startswith("GRPOConfig.")]
    listed = [check for check in checks if check not in agreeing and check.ok]
    words = [f"{check.name} {check.live}" for check in listed if check.live != "none"]
    if any(check.live == "none" for check in listed):
        words.append("trained tensors as planned")
    if agreeing:
        words.append(f"{len(agreeing)} arguments as planned")
    return "checks before the first step  " + " · ".join(words)


def stop_if_different(checks: list[Check]) -> None:
    """Raises Stopped with all differences, each with its planned and its live value."""
    differences = [check for check in checks if not check.ok]
    if differences:
        lines = [f"  {check.name}: plan {check.plan!r}, live {check.live!r}" for check in differences]
        reasons = dict.fromkeys((check.because, check.fix) for check in differences)
        raise Stopped(
            "the live trainer is not the planned one\n"
            + "\n".join(lines)
            + "".join(f"\n  = because: {because}\n  = fix: {fix}" for because, fix in reasons)
        )


def _plain(value: Any) -> Any:
    """A value as JSON has it: enums are their values, tuples are lists."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _names(names: set[str]) -> str:
    if not names:
        return "none"
    shown = sorted(names)[:SHOWN_NAMES]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
