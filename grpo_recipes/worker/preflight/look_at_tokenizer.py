"""Loads the model's tokenizer, and finds its template, its ends and the model's context length."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoProcessor, AutoTokenizer, GenerationConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import trust_remote_code
from grpo_recipes.worker.preflight._shared.seen import DeclaredEnds, Seen
from grpo_recipes.worker.preflight._shared.tokens import token_id
from grpo_recipes.worker.preflight._shared.trl_source import suppresses_images
from grpo_recipes.worker.preflight.checks import tokenizer_loads

# Tokenizers without a limit have a very large number instead.
NO_LIMIT = 1 << 40
LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


def look_at_tokenizer(inputs: Seen) -> None:
    """Sets tokenizer, config, ends and context in `inputs`, or adds a fault."""
    plan = inputs.plan
    origin = {"revision": plan.model.commit or plan.model.revision, "trust_remote_code": trust_remote_code(plan)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            plan.model.path, truncation_side="left", padding_side="left", **origin
        )
        if plan.tokenizer.chat_template_path is not None:
            tokenizer.chat_template = Path(plan.tokenizer.chat_template_path).read_text(encoding="utf-8")
    except Exception as problem:
        inputs.faults.append(tokenizer_loads.of_problem(problem, plan.model.path))
        return
    inputs.was_known = {text: token_id(tokenizer, text) for text in plan.tokenizer.add_tokens}
    if plan.tokenizer.add_tokens:
        tokenizer.add_tokens(list(plan.tokenizer.add_tokens), special_tokens=False)
    inputs.tokenizer = tokenizer
    inputs.config = _config(plan, origin)
    inputs.ends = DeclaredEnds(
        _end_tokens(plan, tokenizer, inputs.config, origin), plan.expect.stop_token_ids, plan.expect.stop
    )
    inputs.context = _context(inputs.config, tokenizer)
    if any(data.images for data in plan.training_data.values()):
        _look_at_processor(inputs, origin)


def _look_at_processor(inputs: Seen, origin: dict[str, Any]) -> None:
    """Sets the processor of a vision model, or adds a fault."""
    path, template = inputs.plan.model.path, inputs.plan.tokenizer.chat_template_path
    try:
        processor = AutoProcessor.from_pretrained(path, padding_side="left", **origin)
        if getattr(processor, "image_processor", None) is None:
            raise OSError("it has no image processor")
        if template is not None:
            processor.chat_template = Path(template).read_text(encoding="utf-8")
    except Exception as problem:
        inputs.faults.append(tokenizer_loads.of_processor(problem, path))
        return
    inputs.processor = processor
    if suppresses_images() and getattr(inputs.config, "image_token_id", None) is None:
        inputs.faults.append(tokenizer_loads.of_no_image_token(path))


def _config(plan: Plan, origin: dict[str, Any]) -> Any:
    try:
        return AutoConfig.from_pretrained(plan.model.path, **origin)
    except Exception:  # a config unknown to this transformers does not affect the tokenizer
        return None


def _end_tokens(plan: Plan, tokenizer: Any, config: Any, origin: dict[str, Any]) -> tuple[int, ...]:
    """Returns the end tokens as in the trainer: the tokenizer's and those of the model's generation_config."""
    try:
        declared = GenerationConfig.from_pretrained(plan.model.path, revision=origin["revision"]).eos_token_id
    except Exception:  # no such file: a loaded model creates it from its config
        declared = getattr(config, "eos_token_id", None)
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    return tuple(dict.fromkeys([*own, *ends]))


def _context(config: Any, tokenizer: Any) -> int | None:
    """Returns the model's context length in tokens, from its configuration or else its tokenizer."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in LENGTH_NAMES:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    limit = tokenizer.model_max_length
    return int(limit) if isinstance(limit, int) and limit < NO_LIMIT else None
