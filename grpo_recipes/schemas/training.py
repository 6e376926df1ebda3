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
    """How the batch is cut, as part of the experiment.

    Each process computes the loss of one micro-batch after the other. With loss_type bnpo and top_entropy_quantile the
    gradient depends on the cut, so they need this section. A run with a different cut is refused.
    """

    processes: PositiveInt
    """Total number of training processes. launch.num_processes: auto uses it, one per GPU or all of them on the CPU."""
    per_device_train_batch_size: PositiveInt
    """Completions per micro-batch and process."""


class TrainingSection(Section):
    """The optimizer and its steps."""

    prompts_per_step: PositiveInt | None = None
    """Prompts per optimizer step over all processes, the same on 1 GPU and on 64. null only if `trl` has TRL's own
    batch fields.
    """
    per_device_train_batch_size: PositiveInt | Auto = "auto"
    """Completions per micro-batch and process. It depends on the machine, and accumulation follows from it. auto: that
    of `cut`, or else the largest within 16384 completion tokens that fits the GPU.
    """
    cut: CutSection | None = None
    """Processes and micro-batch, if they are part of the experiment, which then only runs on that many processes. null:
    the machine decides, and values that depend on them are refused.
    """
    on_out_of_memory: Literal["stop", "halve"] = "stop"
    """What a run does if it runs out of memory in its first optimizer step. halve: restart once, in a folder beside its
    own, with half the micro-batch and twice the accumulation; the same experiment.
    """
    max_steps: PositiveInt | None = None
    """Optimizer steps. null: num_train_epochs decides."""
    num_train_epochs: PositiveFloat = 3.0
    """Passes over the prompts; used when max_steps is null."""
    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate."""
    lr_scheduler_type: str = Field(default="linear", examples=["linear", "cosine", "constant", "constant_with_warmup"])
    """Learning rate schedule."""
    lr_scheduler_kwargs: dict[str, Any] | None = None
    """Extra arguments of the schedule."""
    warmup_steps: NonNegativeInt | NonNegativeFloat = 0
    """Steps of linear warm-up; a value below 1 is a share of all steps."""
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
    """Gradients are scaled down to this norm. 0: never."""
    bf16: bool = False
    """Autocast to bfloat16 in training. It is an error on hardware without bfloat16."""
    fp16: bool = False
    """Autocast to float16 with loss scaling. It needs a GPU."""
    gradient_checkpointing: bool | Auto = True
    """Recompute activations in the backward pass: less memory, about a fifth slower, the same numbers. auto: false if
    the GPU is known to have room for them, otherwise true.
    """
    gradient_checkpointing_kwargs: dict[str, Any] | None = None
    """Arguments of torch's checkpoint. null: grpo-run chooses use_reentrant."""
    shuffle_dataset: bool = True
    """Draw prompts in random order. Episodes of an environment that owns its data come in order, unless the recipe sets
    this.
    """
    save_steps: NonNegativeInt = 500
    """Optimizer steps between checkpoints. 0: none before the end."""
    save_total_limit: PositiveInt | None = None
    """Number of checkpoints to keep, the newest ones. null: all."""
