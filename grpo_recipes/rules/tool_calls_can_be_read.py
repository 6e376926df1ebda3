"""TRL can parse the tool calls that a model writes.

The chat template determines how a call is written. TRL recognizes some templates by their exact text. For any other it
raises ValueError ("Unrecognized chat template") when it builds the trainer, after loading the model, unless the
tokenizer itself has a `response_template` (trl 1.8 and transformers 5.13, or newer) or a `response_schema`, which only
transformers before 5.15 reads. The rule reads the template from the file of the recipe, the model's folder, or the
local hub cache. When TRL builds the trainer, it tests whether this template renders calls and answers.
"""

import hashlib
from collections.abc import Iterable, Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.requirements import read_responses, templates_with_parser
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import not_at_hand
from grpo_recipes.rules._shared.said_tools import turns_of
from grpo_recipes.rules.conversations_have_a_chat_template import MODEL, TEMPLATE, template_text
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.template import tokenizer_config

ID = "TOL006"


def check(context: Context) -> Iterator[Finding]:
    trl = context.stack.version("trl")
    turns = turns_of(context)
    if turns is None or trl is None or context.facts.release_status("trl", trl) != "known":
        return
    text = template_text(context)
    transformers = context.stack.version("transformers")
    known, keys = templates_with_parser(trl, transformers), read_responses(trl, transformers)
    if text is None:
        yield not_at_hand(context, "whether TRL can read the model's tool calls", turns, "tokenizer_config.json")
    if not text or hashlib.sha256(text.encode()).hexdigest() in known or _brings_its_own(context, keys) is not False:
        return
    named = context.value(TEMPLATE) is not None
    families = ", ".join(sorted({name.partition("_")[0] for name in known.values()}))
    yield context.finding(
        f"TRL cannot parse the tool calls of {'this chat template' if named else 'the chat template of the model'}",
        TEMPLATE if named else MODEL,
        [
            f"trl {trl} recognizes only some templates of {families}; for others it raises ValueError",
            f"the tokenizer has no {' and no '.join(keys)}, which this stack could read"
            if keys
            else f"with transformers {transformers} it reads no such field of a tokenizer",
        ],
        fix="use a model with one of these templates"
        + (f", or {keys[-1]} in its tokenizer_config.json" if keys else ""),
    )


def _brings_its_own(context: Context, keys: Iterable[str]) -> bool | None:
    model, revision = context.text(MODEL), context.value("model_init_kwargs.revision")
    path = local_path(model, context.source.directory(("model", "model_name_or_path")))
    config = tokenizer_config(path or model, None if revision is None else str(revision))
    return None if config is None else any(config.get(key) for key in keys)
