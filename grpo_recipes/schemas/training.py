"""`training`: the optimizer and its steps."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import (
    Auto,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
)

Beta = Annotated[float, Field(ge=0, lt=1)]


class CutSection(Section):
    """How the batch is cut, as a part of the experiment.

    Each process computes the loss of one micro-batch after the other. loss_type bnpo and top_entropy_quantile give
    another gradient for each cut, so with them it is said here. A run with another cut is refused.
    """

    processes: PositiveInt
    """Training processes in all. launch.num_processes: auto takes so many, one per GPU or all of them on the CPU."""
    per_device_train_batch_size: PositiveInt
    """Completions per micro-batch and process."""


class TrainingSection(Section):
    """The optimizer and its steps."""

    prompts_per_step: PositiveInt | None = None
    """Prompts per optimizer step over all processes, the same on 1 GPU and on 64. null only where TRL's own
    batch fields are written under `trl`."""
    per_device_train_batch_size: PositiveInt | Auto = "auto"
    """Completions per micro-batch and process. The machine's: accumulation is derived from it. auto: that of `cut`,
    else the largest within 16384 completion tokens that the GPU has room for."""
    cut: CutSection | None = None
    """Processes and micro-batch where they are part of the experiment: it runs on so many processes and on no others.
    null: the machine's, and nothing that depends on them is taken."""
    on_out_of_memory: Literal["stop", "halve"] = "stop"
    """What a run does that has no memory to score or to update in its first optimizer step. halve: begins once more,
    in a folder beside its own, with half the micro-batch and twice the accumulation; the same experiment."""
    max_steps: PositiveInt | None = None
    """Optimizer steps. null: num_train_epochs decides."""
    num_train_epochs: PositiveFloat = 3.0
    """Passes over the prompts; used when max_steps is null."""
    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate."""
    lr_scheduler_type: str = Field(default="linear", examples=["linear", "cosine", "constant", "constant_with_warmup"])
    """Course of the learning rate."""
    lr_scheduler_kwargs: dict[str, Any] | None = None
    """Extra arguments of the scheduler."""
    warmup_steps: NonNegativeInt | NonNegativeFloat = 0
    """Steps of linear warm-up; below 1 a share of all steps."""
    optim: str = Field(default="adamw_torch_fused", examples=["adamw_torch_fused", "adamw_8bit", "sgd"])
    """Optimizer."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    adam_beta1: Beta = 0.9
    """Decay of Adam's first moment."""
    adam_beta2: Beta = 0.999
    """Decay of Adam's second moment."""
    adam_epsilon: PositiveFloat = 1e-8
    """Adam's epsilon."""
    max_grad_norm: NonNegativeFloat = 1.0
    """Gradients are scaled down to this norm. 0 never clips."""
    bf16: bool = False
    """Autocast to bfloat16 in training. It needs hardware that can, or it is an error."""
    fp16: bool = False
    """Autocast to float16 with loss scaling. It needs a GPU."""
    gradient_checkpointing: bool | Auto = True
    """Recompute activations in the backward pass: less memory, about a fifth slower, the same numbers. auto: false
    where the GPU is known to have room for them, else true."""
    gradient_checkpointing_kwargs: dict[str, Any] | None = None
    """Arguments of torch's checkpoint. null: use_reentrant is chosen."""
    shuffle_dataset: bool = True
    """Draw prompts in random order. Episodes of an environment that owns its data come in order, unless this is
    written."""
    save_steps: NonNegativeInt = 500
    """Write a checkpoint every so many optimizer steps. 0: none before the end."""
    save_total_limit: PositiveInt | None = None
    """Keep only the newest checkpoints. null keeps all."""
