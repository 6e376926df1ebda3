"""The tokenizer of the model can be loaded.

What: preflight loads the tokenizer as a run does, from the model's folder, the hub's cache or the hub, without the
model.
Why: a run fails with the same message, and preflight cannot check prompts without it.
Fix: follow the library's message; set HF_TOKEN for a private model, or add the tokenizer's files to the folder.
Example: the tokenizer of ./model cannot be loaded, because there is no tokenizer.json in it
"""

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.reward_seen import cut, fault

ID = "PFL010"


def of_problem(problem: Exception, path: str) -> Finding:
    """The fault of a tokenizer or a chat template that cannot be loaded."""
    because = (f"{type(problem).__name__}: {cut(str(problem), 300)}",)
    key = ("model", "model_name_or_path")
    return fault("error", f"the tokenizer of {path} cannot be loaded", key, because, rule=ID)
