"""The members of other libraries' objects that a training passes through, by event, and what the worker relies on.

This is data: nothing else knows which release of TRL has which private member. Windows are half-open, [since, until); a
release that is newer than all known ones is read like the newest. Read in the sources of trl 0.14.0 to 1.16.0; members
of transformers 4.48.3 to 5.24.0, accelerate and vLLM have no window.
"""

import functools
import re
from typing import Literal, NamedTuple

Owner = Literal["trainer", "model", "accelerator", "vllm_generation", "engine", "client"]
Rate = Literal["once a generation", "in each generation", "once a micro-batch", ""]
"""How often TRL calls a member in training; "" for members that it calls only at times."""


class Seam(NamedTuple):
    """A method of the trainer or of an object that it holds.

    takes: names of parameters. gives: keys that every result has, or the least number of its parts; keys of some
    trainings, as tool_mask, are not checked.
    """

    event: str
    member: str
    owner: Owner = "trainer"
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] | int = ()
    since: str = "0"
    until: str = ""
    rate: Rate = ""


_IN_BATCH = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
_OF_SCORING = ("model", "input_ids", "attention_mask", "logits_to_keep")

SEAMS = (
    Seam("prompts are ordered", "_get_train_sampler"),
    Seam("batch is prepared", "_prepare_inputs", rate="once a micro-batch"),
    # trl 0.14 generates in its loss.
    Seam("completions are made in the batch", "_prepare_inputs", gives=_IN_BATCH, since="0.15", until="0.16"),
    Seam(
        "completions are made",
        "_generate_and_score_completions",
        takes=("inputs",),
        gives=_IN_BATCH,
        since="0.16",
        rate="once a generation",
    ),
    Seam(
        "prompts are tokenized",
        "_tokenize_prompts",
        takes=("prompts",),
        gives=3,
        since="0.29.1",
        rate="in each generation",
    ),
    Seam("completions are generated", "_generate", takes=("prompts",), since="0.24", rate="once a generation"),
    Seam("turn is generated", "_generate_single_turn", gives=2, since="0.24", rate="in each generation"),
    Seam(
        "tools are called",
        "_tool_call_loop",
        takes=("prompts", "prompt_ids", "completion_ids", "completions", "logprobs"),
        gives=3,
        since="0.26",
    ),
    Seam(
        "rewards are given",
        "_calculate_rewards",
        takes=("inputs", "prompts", "completions", "completion_ids_list"),
        since="0.19",
        rate="once a generation",
    ),
    Seam("tokens are scored", "_get_per_token_logps", takes=_OF_SCORING, since="0.15", until="0.20"),
    Seam("tokens are scored", "_get_per_token_logps_and_entropies", takes=_OF_SCORING, gives=2, since="0.20"),
    Seam("loss is computed", "compute_loss", takes=("model", "inputs"), rate="once a micro-batch"),
    Seam("micro-batch is trained", "training_step", takes=("model", "inputs"), rate="once a micro-batch"),
    # trl 0.28 moved it to its class for vLLM.
    Seam("weights reach vLLM", "_move_model_to_vllm", since="0.15", until="0.28"),
    Seam("optimizer is created", "create_optimizer"),
    Seam("decayed weights are named", "get_decay_parameter_names", takes=("model",)),
    Seam("figures are logged", "log", takes=("logs",)),
    Seam("step ends", "_maybe_log_save_evaluate"),
    Seam("checkpoint is saved", "_save_checkpoint", takes=("model", "trial")),
    Seam("model is saved", "save_model", takes=("output_dir",)),
    Seam("checkpoint is loaded", "_load_from_checkpoint"),
    Seam("policy generates", "generate", "model"),
    Seam("gradient is clipped", "clip_grad_norm_", "accelerator"),
    Seam("values are gathered", "gather_for_metrics", "accelerator"),
    Seam("vLLM gets weights", "sync_weights", "vllm_generation", since="0.28"),
    Seam("engine generates", "generate", "engine"),
    Seam("server generates", "generate", "client"),
)

# TRL's loop over tools also answers held-out rows, on a stand-in for the trainer.
TOOL_LOOP, TOOL_TURN, TOOL_SUFFIX = "_tool_call_loop", "_generate_single_turn", "_get_tool_suffix_ids"
OF_ROWS = "_batch_environments"
OF_TOOLS = ("_sync_tool_dicts", "_async_tool_dicts")
VALUES: dict[str, tuple[str, str]] = {
    "_textual_logs": ("0.17", "0.20"),
    "_logs": ("0.20", ""),
    "_pending_extra_logs": ("1.0", ""),
    "_last_loaded_step": ("0", ""),  # with vLLM
    "_total_train_tokens": ("0.16", ""),
    **dict.fromkeys(OF_TOOLS, ("0.29", "")),
    OF_ROWS: ("1.8", ""),
    "_metrics": ("0", ""),
    "_step": ("0.16", ""),
    "reward_weights": ("0.15", ""),
    "importance_sampling_level": ("0.20", ""),
    "multi_objective_aggregation": ("0.27", ""),
}
"""Values of the trainer that are private or not in all releases, with those that have them; ("0", "") for all."""

FIGURES = {
    "reward": "0",
    "reward_std": "0",
    "completions/mean_length": "0.17",
    "completions/clipped_ratio": "0.17",
    "kl": "0.16",
    "entropy": "0.20",
}
"""Figures that the trainer logs, with the first release that logs each in every step, or with beta or no fused loss."""

HABITS = {
    "advantages precede the loss": "0.15",
    "batches count completions": "0.15",
    "figures of training are apart": "0.16",
    # Before, with messages: it returns (prompts, completions, ...), with tokens (completions, ...).
    "turns take tokens": "0.29",
    "completions without a reward leave their group": "1.6",
    "figures are weighed over processes": "1.12",
    "scoring asks for no logits": "1.15",
}
"""What TRL does since a release."""

LOGITS_KEYWORDS = (("num_logits_to_keep", "0.14", "0.15"), ("logits_to_keep", "0.15", "1.15"))
"""The keyword with which TRL asks a model for the last logits, and the releases that do."""


def seams_of(release: str) -> tuple[Seam, ...]:
    """Returns the seams of a release of TRL."""
    return tuple(seam for seam in SEAMS if is_in(release, seam.since, seam.until))


@functools.cache
def is_in(release: str, since: str, until: str = "") -> bool:
    """Whether a release is in [since, until); until "" has no end."""
    own = _numbers(release)
    return _numbers(since) <= own and (not until or own < _numbers(until))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])
