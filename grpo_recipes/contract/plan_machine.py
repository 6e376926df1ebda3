"""The machine part of a plan: its processes, and how the batch is split among them."""

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp2"]


@dataclass(frozen=True, slots=True)
class World:
    """The processes of the run.

    engine: what starts them, see contract/host/engines.py. num_nodes: machines that train; num_processes: total over
    all machines. main_process_ip: name or address of the first machine, if the recipe sets it; a cluster's engine finds
    it by itself. main_process_port: the port where the processes find each other.
    """

    engine: str
    num_nodes: int
    num_processes: int
    device: Literal["cpu", "cuda"]
    strategy: Strategy
    main_process_ip: str | None = None
    main_process_port: int = 29500


@dataclass(frozen=True, slots=True)
class Batch:
    """How prompts become optimizer steps, independent of the GRPOConfig fields used.

    micro_batch: completions of one forward in each process. accumulation: micro-batches of an optimizer step in each
    process. steps_per_generation: micro-batches of a generation in each process, as TRL counts them.
    num_generations: completions of a prompt. prompts: of a generation over all processes; at least 1, even if TRL's own
    fields split a prompt's group.
    """

    micro_batch: int
    accumulation: int
    steps_per_generation: int
    num_generations: int
    prompts: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """Keyword arguments by the object that takes them; None if the object is not built.

    GRPOConfig lacks output_dir and model_init_kwargs, which the worker adds from the run folder and from here.
    quantization_config_in: what takes the BitsAndBytesConfig: GRPOTrainer itself, or the model_init_kwargs of
    older releases.
    """

    GRPOConfig: dict[str, object]
    model_init_kwargs: dict[str, object]
    LoraConfig: dict[str, object] | None = None
    BitsAndBytesConfig: dict[str, object] | None = None
    quantization_config_in: Literal["GRPOTrainer", "model_init_kwargs"] = "GRPOTrainer"
