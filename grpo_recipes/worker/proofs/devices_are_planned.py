"""Every process trains on its own device, and its weights are there.

Catches: `device_map: auto` that spreads one model over all visible GPUs, a quantized model on a different device than
its process ("You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device"), two
processes on one GPU, and a run on the CPU that was planned for a GPU. Weights that the plan offloads, or shards under
ZeRO-3 and FSDP, are compared only by the kind of device.
Source: trl's grpo_trainer.py (device_map), accelerate's accelerator.py prepare_model.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF002"
PROOF = Statement(ID, "devices")
WHOLE_MODEL = ("single", "ddp", "zero1", "zero2")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Compares the devices of the processes and of their weights with the plan."""
    own = [process.device for process in processes]
    shown = f"devices {', '.join(sorted(set(own)))}"
    kinds = {device.partition(":")[0] for device in own}
    shared = plan.world.device == "cuda" and plan.world.num_nodes == 1 and len(set(own)) < len(own)
    spread = [
        process
        for process in processes
        if plan.world.strategy in WHOLE_MODEL and process.parameter_devices != (process.device,)
    ]
    if kinds == {plan.world.device} and not shared and not spread:
        return PROOF.holds(shown)
    devices = [
        f"rank {process.rank} on {process.device}, its weights on {', '.join(process.parameter_devices)}"
        for process in processes
    ]
    return PROOF.fails(
        shown,
        observed="; ".join(devices),
        planned=f"each process with its whole model on its own {plan.world.device} device",
        because="the plan divides the work among processes that each have their own device",
        fix="plan again on this machine; CUDA_VISIBLE_DEVICES must show each process the planned GPUs",
    )
