"""A plain prompt becomes the same tokens in every release.

TRL before 0.26 tokenizes a plain string without the tokenizer's special tokens, later releases with them: a model whose
tokenizer begins each text with a special token, as Llama's does, gets different prompts. The shim `prompt_tokens` adds
them on older releases too. Conversations are the same on all releases, unless they end with an assistant message; these
rows stop the run on older releases.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM014"
APPLIES_TO = {"trl": "<0.26"}
OWNS = ("shims.prompt_tokens",)
READS = ("dataset.prompt",)


def decide(context: Context) -> Iterator[Setting]:
    is_built = context.value("dataset.prompt") is not None
    if not is_built or context.value("dataset.prompt_format") == "standard":
        why = "this TRL leaves the tokenizer's special tokens out of plain prompts"
        yield rule_setting(OWNS[0], True, why)
