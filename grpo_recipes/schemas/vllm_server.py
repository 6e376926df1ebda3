"""`vllm_server`: the vLLM server that the run starts for itself."""

from typing import Annotated

from pydantic import Field

from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveFraction, PositiveInt, Section


class VllmServerSection(Section):
    """The vLLM server that the run starts, watches and stops with vllm_mode: server, unless an address is written."""

    gpus: PositiveInt = 1
    """GPUs of the machine that the server takes for one copy of the model; the trainer gets the others. None on the
    CPU. Of several machines the server has the last one to itself."""
    gpu_memory_utilization: PositiveFraction = 0.9
    """Share of the memory of its GPUs that the server takes."""
    port: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Port on 127.0.0.1, or on the address that faces the trainers where it has a machine of its own. auto takes a free
    one at each start."""
    startup_timeout: PositiveInt = 1800
    """Seconds until the server must answer; one that ends is noticed at once. Large models load for minutes."""
    max_restarts: NonNegativeInt = 2
    """How often server and trainer of one machine are started again, from the last checkpoint, after it died. Of
    several machines the run ends with 75, to be resumed; slurm.max_requeues says how often Slurm does that."""
