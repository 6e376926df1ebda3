"""`python merge_drift.py MODEL DEVICE DTYPE`: measures a base's drift after 50 merges and unmerges of an adapter.

Prints a line of JSON: the drift of the adapted weights and the effect of the adapter, both relative to the weights.
"""

import json
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

CYCLES = 50
STEP = 1e-4


def main() -> None:
    folder, device, dtype = sys.argv[1:]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device)
    settings = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    policy = get_peft_model(model, settings)
    base = {name: value.detach().clone() for name, value in policy.named_parameters() if "base_layer.weight" in name}
    for _ in range(CYCLES):
        for value in policy.parameters():
            if value.requires_grad:
                value.data += STEP * torch.sign(torch.randn_like(value))
        policy.merge_adapter()
        policy.unmerge_adapter()
    drift = _apart(policy, base)
    policy.merge_adapter()
    print(json.dumps({"drift": drift, "effect": _apart(policy, base), "cycles": CYCLES}))


def _apart(policy: torch.nn.Module, base: dict[str, torch.Tensor]) -> float:
    now = dict(policy.named_parameters())
    between = sum(float((now[name].detach().float() - value.float()).square().sum()) for name, value in base.items())
    return (between / sum(float(value.float().square().sum()) for value in base.values())) ** 0.5


if __name__ == "__main__":
    main()
