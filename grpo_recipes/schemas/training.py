"""`training`: the optimizer and its steps."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import (
    Auto,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    Section,
    Word,
)
from grpo_recipes.schemas.task import Seed

Beta = Annotated[float, Field(ge=0, lt=1)]


class CutSection(Section):
    """How the batch is divided into micro-batches, as part of the experiment.

    Each process computes the loss one micro-batch at a time. With loss_type bnpo and top_entropy_quantile the
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
    """Completions per micro-batch and process. It depends on the machine, and determines the accumulation. auto: the
    value of `cut`, or else the largest within 16384 completion tokens that fits the GPU, on a CPU within 1024.
    """
    cut: CutSection | None = None
    """Processes and micro-batch, if they are part of the experiment, which then only runs on that many processes. null:
    the machine decides, and values that depend on them are refused.
    """
    on_out_of_memory: Literal["stop", "halve"] = "stop"
    """What a run does if it runs out of memory in its first optimizer step. halve: restart once, in a new folder next
    to its own, with half the micro-batch and twice the accumulation; the same experiment.
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


class GrpoSection(Section):
    """The algorithm. Values that TRL defines are checked against the target's source."""

    num_generations: Annotated[int, Field(ge=2)] = 8
    """Completions per prompt, the group in which rewards are compared."""
    beta: NonNegativeFloat = 0.0
    """Weight of the KL penalty against the reference model. 0: no penalty and no reference model."""
    loss_type: str = Field(default="dapo", examples=["dapo", "grpo", "bnpo", "dr_grpo"])
    """Normalization of the loss: grpo averages per sequence, dapo over the batch's tokens, dr_grpo by a constant. bnpo
    averages over a micro-batch's tokens, so unless the batch is one piece it needs training.cut.
    """
    scale_rewards: str | bool = Field(default="group", examples=["group", "batch", "none"])
    """Divide advantages by the standard deviation of the group or the batch, or not at all (none)."""
    epsilon: PositiveFloat = 0.2
    """Lower clipping bound of the importance ratio."""
    epsilon_high: PositiveFloat | None = None
    """Upper clipping bound. null: the same as epsilon."""
    delta: PositiveFloat | None = None
    """Second upper bound for negative advantages (two-sided clipping). null: none."""
    num_iterations: PositiveInt = 1
    """Passes over each generation batch."""
    optimizer_steps_per_generation: PositiveInt = 1
    """Optimizer steps that one generation batch feeds. Above 1 the later ones are off-policy."""
    resample_groups: NonNegativeInt = 0
    """Rounds that replace groups whose rewards are all equal by groups for further prompts, before the step trains
    (DAPO's dynamic sampling). Each round draws as many prompts as there are such groups; those that remain after the
    last round are trained as they are. A step generates and scores up to 1 + resample_groups times as many completions,
    which matters for rewards that cost money or change state. 0: train every group.
    """
    importance_sampling_level: str = Field(default="token", examples=["token", "sequence"])
    """Importance ratio per token or per sequence (GSPO)."""
    mask_truncated_completions: bool = False
    """Exclude completions that reach max_completion_length from the loss."""
    top_entropy_quantile: PositiveFraction = 1.0
    """Train only on this share of the tokens, those with the highest entropy. 1 trains on all. It compares the
    entropies within a micro-batch, so unless the batch is one piece it needs training.cut.
    """
    use_bias_correction_kl: bool = True
    """Correct the KL estimate for off-policy samples; matters only with beta above 0."""
    multi_objective_aggregation: str = Field(
        default="sum_then_normalize", examples=["sum_then_normalize", "normalize_then_sum"]
    )
    """Weight and sum several rewards before or after they are normalized in the group."""


class GenerationSection(Section):
    """How completions are sampled."""

    use_vllm: bool | Auto = False
    """Generate with vLLM. auto decides by stack and machine; the plan shows the reason."""
    vllm_mode: str = "auto"
    """colocate (in the training processes), server, or auto."""
    vllm_gpu_memory_utilization: PositiveFraction | Auto = 0.3
    """Share of each GPU's memory that vLLM takes, colocate only. auto: from the model's size, the cache of one
    generation and the memory that the trainer leaves, if these are known, otherwise 0.3.
    """
    vllm_tensor_parallel_size: PositiveInt | Auto = 1
    """GPUs that share one copy of the model in vLLM, colocate only. auto: as few as hold its weights."""
    vllm_max_model_length: PositiveInt | Auto | None = None
    """Longest prompt + completion in tokens. null: the model's own maximum. auto: max_prompt_length +
    max_completion_length if both are known, otherwise null.
    """
    vllm_engine: dict[str, Any] = {}
    """Further arguments of vLLM's engine by vLLM's names, e.g. {enforce_eager: true, max_num_seqs: 64}."""
    weight_sync: Literal["auto", "full", "adapter"] = "auto"
    """What vLLM gets before each generation: all weights with the adapter merged, or only the adapter. auto: adapter
    for a quantized model, full otherwise.
    """
    max_prompt_length: PositiveInt | None = None
    """Prompt tokens to keep; a longer prompt loses its beginning. null: whole prompts."""
    max_completion_length: PositiveInt = 512
    """Maximum number of tokens of a completion."""
    min_tokens: PositiveInt | None = None
    """Minimum number of tokens of a completion. null: none. Cannot be combined with a stop."""
    max_tool_calling_iterations: PositiveInt | None = None
    """Maximum number of tool replies in one completion. null: no limit except max_completion_length, which also counts
    the tools' replies.
    """
    temperature: PositiveFloat = 1.0
    """Sampling temperature; the log-probs use it too."""
    top_p: PositiveFraction = 1.0
    """Sample from the smallest set of tokens with this total probability. 1: all tokens."""
    top_k: NonNegativeInt = 0
    """Sample from the k most likely tokens. 0: all tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Drop tokens less likely than this share of the most likely one. null: drop none."""
    repetition_penalty: PositiveFloat = 1.0
    """Values above 1 discourage tokens that were already used. 1: no effect."""
    stop: list[Word] = []
    """Texts that end a completion, with the token that completes them."""
    stop_token_ids: list[NonNegativeInt] = []
    """Token ids that end a completion."""
    include_stop_str_in_output: Literal[True] = True
    """Always true: the completion keeps the token that completes a stop, since the model has to learn it."""
    generation_kwargs: dict[str, Any] = {}
    """Sampling options without their own key, by name in vLLM's SamplingParams or transformers' GenerationConfig.
    """
    chat_template_kwargs: dict[str, Any] = {}
    """Variables for the chat template, e.g. {enable_thinking: false}."""


class PassesSection(Section):
    """Which completions pass, for `pass_at` and for the count of right rows."""

    reward: Word
    """One of `rewards`, by name in the metrics: the name of a shipped reward, the function of a file, or the last
    part of a model's path; a repeated name gets a number, NAME_2.
    """
    at_least: float = 1.0
    """The lowest reward, before weighting, with which a completion passes."""


class HeldOutTasksSection(Section):
    """Held-out rows of the tasks of `dataset.reasoning_gym`."""

    size: PositiveInt = 100
    """Number of rows."""
    seed: Seed = 0
    """Seed of the rows. They differ from the training rows, even if both seeds are equal."""


class HeldOutSetSection(Section):
    """One of several sets of held-out rows, by name."""

    path: Word | None = None
    """As evaluation.path."""
    reasoning_gym: HeldOutTasksSection | None = None
    """As evaluation.reasoning_gym."""
    name: Word | None = None
    """As evaluation.name."""
    split: Word | None = None
    """As evaluation.split."""
    max_rows: PositiveInt | None = None
    """As evaluation.max_rows."""
    prompt: Word | None = None
    """Template of the prompt for rows with other columns. null: as dataset.prompt."""
    columns: dict[str, str] | None = None
    """Columns to add for the rewards. null: as dataset.columns."""
    rewards: list[Word] = []
    """The rewards that judge the set, by name in the metrics: its reward is their weighted sum. []: all."""
    passes: PassesSection | None = None
    """When a completion of the set passes. null: as evaluation.passes if that reward judges the set; otherwise at a
    reward of 1.0 if the set's only reward is a function.
    """


class EvaluationSection(Section):
    """The run's rewards on held-out rows, each figure with its 95 % interval from 2000 bootstrap samples of the rows.
    Training is bit for bit the same with and without an evaluation. `use_vllm` chooses what generates the completions.
    """

    path: Word | None = None
    """As dataset.path. null: the training data's path, with a different split; for an environment that owns its data,
    other episodes.
    """
    reasoning_gym: HeldOutTasksSection | None = None
    """Rows of the tasks of dataset.reasoning_gym whose questions are not trained on. null: the rows are at path."""
    name: Word | None = None
    """As dataset.name. null: the training data's."""
    split: Word | None = None
    """As dataset.split. null: train if evaluation has its own path; otherwise required."""
    max_rows: PositiveInt | None = None
    """Use only the first rows. null: all. For an environment that owns its data: the number of episodes."""
    sets: dict[str, HeldOutSetSection] = {}
    """Several sets of rows by name, e.g. {gsm8k: {path: openai/gsm8k, name: main, split: test}, hard: {path:
    hard.jsonl}}. Each has its own figures. {}: one set, at the keys above.
    """
    decided_by: Word | None = None
    """The main set: keep_best, stop_after, sweeps and lists of runs use its reward. null:
    the first of `sets`; keep_best and stop_after need the name.
    """
    at_start: bool = True
    """Also evaluate before the first step, as a baseline."""
    every_steps: NonNegativeInt = 0
    """Optimizer steps between evaluations. 0: only before the first and after the last step."""
    greedy: bool = True
    """Generate the most likely completion instead of sampling."""
    samples: PositiveInt = 1
    """Completions per row, whose rewards are averaged. More than one needs greedy: false. Each row has its own seed, so
    any number of processes draws the same.
    """
    pass_at: list[PositiveInt] = []
    """For each number k: the probability that at least one of k completions of a row passes, estimated without bias
    from all `samples`. [1] is the share that passes.
    """
    use_vllm: bool | None = None
    """Generate with the run's vLLM, with the weights of that step and a seed for each completion. null: vLLM if it runs
    in the training processes, otherwise transformers. true: also with a server; an evaluation may advance its random
    numbers, so the training is equally likely but not bit for bit the same. false: transformers.
    """
    passes: PassesSection | None = None
    """When a completion passes. null: at a reward of 1.0 if the recipe's only reward is a function; otherwise `pass_at`
    needs it.
    """
    keep_best: bool = False
    """Keep the checkpoint with the best held-out reward after a step or a warm start, whatever save_total_limit says,
    and use it as `final/`. A checkpoint is written at each evaluation.
    """
    stop_after: PositiveInt | None = None
    """Stop the training after this many evaluations without a better held-out reward. null: train all steps."""
