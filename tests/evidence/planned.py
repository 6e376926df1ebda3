"""Recipes for the evidence, resolved for the stack that the evidence runs on."""

from pathlib import Path
from typing import Any

import yaml
from support.releases import pinned

from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.stack.target import parse_target

STACK = (
    f"{pinned('trl transformers peft torch accelerate datasets')},"
    "bitsandbytes==0.50.2,deepspeed==0.19.8,vllm==absent,gpus=0"
)


def resolved(folder: Path, processes: int, grpo: dict[str, Any], training: dict[str, Any], **rest: Any) -> Resolution:
    """What the resolver says of a small recipe on the CPU with these sections."""
    values = {
        "recipe": 1,
        "name": "evidence",
        "model": {"model_name_or_path": "owner/model"},
        "dataset": {"path": "owner/data", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
        "rewards": [{"name": "exact_match"}],
        "grpo": grpo,
        "training": training,
        "launch": {"num_processes": processes},
        **rest,
    }
    path = folder / "evidence.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    stack, findings = parse_target(STACK)
    assert stack is not None, findings
    return resolve(str(path), stack)
