"""The tokenizer of the model can be loaded, and for rows with images its processor.

What: preflight loads the tokenizer as a run does, from the model's folder, the hub's cache or the hub, without the
model. For rows with images the model needs an image processor and, since trl 1.16, an image_token_id in its
config.json.
Why: a run fails with the same message, and preflight cannot check prompts without it.
Fix: follow the library's message; set HF_TOKEN for a private model, or add the tokenizer's files to the folder.
Example: the tokenizer of ./model cannot be loaded, because there is no tokenizer.json in it
"""

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.reward_seen import cut

ID = "PFL010"
KEY = ("model", "model_name_or_path")


def of_problem(problem: Exception, path: str) -> Finding:
    """Returns the fault for a tokenizer or chat template that cannot be loaded."""
    return mistake(f"the tokenizer of {path} cannot be loaded", KEY, _because(problem), rule=ID)


def of_processor(problem: Exception, path: str) -> Finding:
    """Returns the fault for a processor that cannot be loaded, for rows with images."""
    is_missing = isinstance(problem, OSError)
    fix = "copy processor_config.json or preprocessor_config.json from the model that it was made from"
    message = f"the rows have images, and the processor of {path} cannot be loaded"
    return mistake(message, KEY, _because(problem), fix if is_missing else None, rule=ID)


def of_no_image_token(path: str) -> Finding:
    """Returns the fault for a vision model whose configuration has no image_token_id."""
    because = ("trl suppresses this token in generation, and raises an error if it is missing",)
    fix = "write image_token_id into its config.json; or trl<1.16"
    return mistake(f"the configuration of {path} has no image_token_id", KEY, because, fix, rule=ID)


def _because(problem: Exception) -> tuple[str]:
    return (f"{type(problem).__name__}: {cut(str(problem), 300)}",)
