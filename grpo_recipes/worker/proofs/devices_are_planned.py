"""Every process trains on its own device and holds its weights there.

Catches: `device_map: auto` that spreads one model over all visible GPUs, a quantized model on another device than
its process ("You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device"), two
processes on one GPU, and a run on the CPU that was planned for a GPU. Weights that the plan offloads or shards
under ZeRO-3 and FSDP are compared by the kind of device alone.
Source: trl 1.16.0 grpo_trainer.py (device_map), accelerate 1.15.0 accelerator.py prepare_model.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF002"
PROOF = Statement(ID, "devices")
WHOLE_MODEL = ("single", "ddp", "zero1", "zero2")


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The devices of the processes and of their weights."""
    own = [one.device for one in seen]
    shown = f"devices {', '.join(sorted(set(own)))}"
    kinds = {device.partition(":")[0] for device in own}
    shared = plan.world.device == "cuda" and plan.world.num_nodes == 1 and len(set(own)) < len(own)
    spread = [one for one in seen if plan.world.strategy in WHOLE_MODEL and one.parameter_devices != (one.device,)]
    if kinds == {plan.world.device} and not shared and not spread:
        return PROOF.holds(shown)
    found = [f"rank {one.rank} on {one.device}, its weights on {', '.join(one.parameter_devices)}" for one in seen]
    return PROOF.fails(
        shown,
        found="; ".join(found),
        planned=f"each process with its whole model on a {plan.world.device} device of its own",
        because="a model spread over devices, or two processes on one, is not what the plan shared the work out for",
        fix="plan again on this machine; CUDA_VISIBLE_DEVICES must show each process the planned GPUs",
    )
