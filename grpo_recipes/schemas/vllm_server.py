"""`vllm_server`: the vLLM server that the run starts."""

from typing import Annotated

from pydantic import Field

from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveFraction, PositiveInt, Section


class VllmServerSection(Section):
    """The vLLM server that the run starts, watches and stops with vllm_mode: server, unless an address is set."""

    gpus: PositiveInt = 1
    """GPUs of the machine that the server takes for one copy of the model; the trainer gets the others. Not for the
    CPU. With several machines the server has the last one to itself.
    """
    gpu_memory_utilization: PositiveFraction = 0.9
    """Share of the memory of its GPUs that the server takes."""
    port: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Port on 127.0.0.1, or, if the server has its own machine, on the address that faces the trainers. auto: a free
    one at each start.
    """
    startup_timeout: PositiveInt = 1800
    """Seconds until the server must answer; the run notices at once if it exits. Large models take minutes to load."""
    max_restarts: NonNegativeInt = 2
    """How often a run on one machine restarts server and trainer from the last checkpoint after the server died. With
    several machines the run ends with 75 and can be resumed; slurm.max_requeues limits how often Slurm does so.
    """
