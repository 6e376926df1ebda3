"""`distributed`: how several processes share the work."""

from typing import Any, Literal

from grpo_recipes.schemas.section import Section

Device = Literal["none", "cpu", "nvme"]


class DistributedSection(Section):
    """How several processes share the work."""

    strategy: Literal["auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp2"] = "auto"
    """auto: single for one process, ddp for several. zero1 to zero3 are DeepSpeed's stages."""
    offload_optimizer_device: Device = "none"
    """Where DeepSpeed keeps optimizer states."""
    offload_param_device: Device = "none"
    """Where DeepSpeed keeps parameters, zero3 only."""
    deepspeed: dict[str, Any] = {}
    """Extra DeepSpeed keys, merged into the rendered file."""
