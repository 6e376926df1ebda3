"""The machine of a plan: its processes, and how the batch is cut for them."""

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp2"]


@dataclass(frozen=True, slots=True)
class World:
    """The processes of the run.

    engine: what starts them, see contract/host/engines.py. num_nodes: machines that train; num_processes counts those
    of all of them. main_process_ip: name or address of the first machine where the recipe says it; an engine that
    shares machines out knows it by itself. main_process_port: where its processes find each other.
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
    """How prompts become optimizer steps, whichever fields of GRPOConfig say it.

    micro_batch: completions of one forward in each process. accumulation: micro-batches of an optimizer step in each
    process. steps_per_generation: micro-batches of a generation in each process, as TRL counts them.
    num_generations: completions of a prompt. prompts: of a generation, all processes together; at least 1, also where
    TRL's own fields make shares of a prompt's group.
    """

    micro_batch: int
    accumulation: int
    steps_per_generation: int
    num_generations: int
    prompts: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """Keyword arguments, by the object that takes them; None where the object is not built.

    GRPOConfig lacks output_dir and model_init_kwargs, which the worker adds from the run folder and from here.
    quantization_config_in: what takes the BitsAndBytesConfig: GRPOTrainer itself, or the model_init_kwargs of older
    releases.
    """

    GRPOConfig: dict[str, object]
    model_init_kwargs: dict[str, object]
    LoraConfig: dict[str, object] | None = None
    BitsAndBytesConfig: dict[str, object] | None = None
    quantization_config_in: Literal["GRPOTrainer", "model_init_kwargs"] = "GRPOTrainer"
