"""The chat template exists, accepts the prompts, and renders them completely.

What: every message of the sample must appear in the text that the model gets. Catches a tokenizer without a chat
template, a template that refuses a role or leaves the system message out, and unknown variables.
Why: without a template TRL raises ValueError at the first step. If a template leaves something out, no error shows it:
the instruction is in the recipe, but the model never sees it.
Fix: tokenizer.chat_template_path; or, for a model without a template, dataset.prompt_format: standard.
Example: the chat template leaves the system message out of the prompt
Source: transformers' tokenization_utils_base.py (get_chat_template).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, warning
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, chat_template_kwargs, content_of, is_conversational

ID = "PFL011"
# Read by apply_chat_template itself.
OF_THE_CALL = ("documents", "max_length", "padding", "return_tensors", "tokenizer_kwargs", "truncation")


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None or inputs.data is None:
        return
    conversational = any(is_conversational(inputs.data.prompts[index]) for index in inputs.sample)
    if conversational and inputs.tokenizer.chat_template is None:
        yield mistake(
            "the prompts are messages, and the tokenizer has no chat template",
            ("tokenizer", "chat_template_path"),
            because=f"{inputs.plan.model.path} has none",
            fix="chat_template_path: chat.jinja; or prompt_format: standard under dataset",
        )
    elif inputs.template_problem:
        yield mistake(
            "a prompt cannot be rendered",
            ("tokenizer", "chat_template_path") if conversational else ("dataset", "prompt"),
            because=cut(inputs.template_problem, 300),
        )
    elif conversational:
        yield from _find_missing_messages(inputs, inputs.data)
        yield from _find_unknown_variables(inputs)


def _find_missing_messages(inputs: Seen, data: Rows) -> Iterator[Finding]:
    missing: dict[str, int] = {}
    for index, text in zip(inputs.sample, inputs.texts, strict=True):
        for message in data.prompts[index] or []:
            content = content_of(message).strip()
            if content and content not in text:
                missing.setdefault(str(message.get("role")), data.number(index))
    for role, row in missing.items():
        yield warning(
            f"the chat template leaves the {role} message out of the prompt, or changes it",
            ("dataset", "system_prompt") if role == "system" else ("tokenizer", "chat_template_path"),
            because=f"row {row}: its text is not in the model's prompt",
            fix="put the instruction into dataset.prompt" if role == "system" else None,
        )


def _find_unknown_variables(inputs: Seen) -> Iterator[Finding]:
    template = inputs.tokenizer.chat_template
    texts = list(template.values()) if isinstance(template, dict) else [str(template)]
    for name in chat_template_kwargs(inputs):
        if name not in OF_THE_CALL and not any(name in text for text in texts):
            yield warning(
                f"the chat template has no variable {name}",
                ("generation", "chat_template_kwargs", name),
                because="the value therefore has no effect",
                fix=f"remove {name}",
            )
