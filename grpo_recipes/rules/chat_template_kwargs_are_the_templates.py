"""Every key of chat_template_kwargs is a variable of the chat template.

TRL passes generation.chat_template_kwargs to apply_chat_template together with its own arguments. A name that TRL
passes too raises TypeError at the first batch, after loading the model. continue_final_message and
return_assistant_tokens_mask contradict what TRL passes and raise ValueError. A variable that the template does not read
is silently ignored: `enable_thinking` for a template that does not know it, or a typo. Plain prompts use no template at
all.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import not_at_hand
from grpo_recipes.rules._shared.training_rows import is_conversational
from grpo_recipes.rules.conversations_have_a_chat_template import template_text
from grpo_recipes.user_files.template import TemplateProblem, template_variables

ID = "TOK003"
KEY = "generation.chat_template_kwargs"
LARGEST_TEMPLATE = 1 << 20  # jinja2 needs two CPU seconds for as much
PASSED = ("add_generation_prompt", "chat_template", "conversation", "return_dict", "tokenize", "tools")
CONTRADICT = ("continue_final_message", "return_assistant_tokens_mask")
# Arguments that apply_chat_template reads itself.
OF_THE_CALL = ("documents", "max_length", "padding", "return_tensors", "tokenizer_kwargs", "truncation")


def check(context: Context) -> Iterator[Finding]:
    given = _kwargs(context)
    if not given:
        return
    if is_conversational(context) is False:
        message = "chat_template_kwargs has no effect on plain prompts"
        because = "the prompts are plain text, and TRL applies no chat template to them"
        fix = "remove chat_template_kwargs, or prompt_format: conversational"
        yield context.wrong(message, "GRPOConfig.chat_template_kwargs", because, fix=fix, severity="warning")
        return
    for name in given:
        if name in PASSED:
            yield _finding(
                context,
                name,
                f"{name} cannot be a variable of the template",
                "TRL passes it itself, and the call raises TypeError",
            )
        elif name in CONTRADICT and given[name]:
            why = "TRL asks for the beginning of an answer as token ids, which raises ValueError"
            yield _finding(context, name, f"{name} contradicts TRL's own arguments", why)
    known = _variables(context)
    others = [name for name in given if name not in (*PASSED, *CONTRADICT, *OF_THE_CALL)]
    if others and template_text(context) is None:
        what = f"whether the chat template reads {', '.join(others)}"
        yield not_at_hand(context, what, "GRPOConfig.chat_template_kwargs", "tokenizer_config.json")
    for name in others:
        if known is not None and name not in known:
            yield _not_read(context, name, known)


def _not_read(context: Context, name: str, known: frozenset[str]) -> Finding:
    """The finding for a variable that the template does not read, with the nearest one that it does."""
    because = f"the template reads {', '.join(sorted(known))}"
    finding = _finding(context, name, f"the chat template does not read {name}", because, warning=True)
    free = sorted(known - _kwargs(context).keys() - {*PASSED, "messages"})
    near = nearest_words(name, free, cutoff=0.8) or [word for word in free if f"_{name}" in word or f"_{word}" in name]
    if len(near) != 1 or "disable" in name:
        return finding
    path = ("generation", "chat_template_kwargs")
    patch = (Patch((*path, name), remove=True), Patch((*path, near[0]), _kwargs(context)[name]))
    return finding._replace(fix=f"write it as {near[0]}", patch=patch)


def _kwargs(context: Context) -> Mapping[str, object]:
    return context.mapping("GRPOConfig.chat_template_kwargs")


def _finding(context: Context, name: str, message: str, because: str, *, warning: bool = False) -> Finding:
    path = ("generation", "chat_template_kwargs", name)
    return context.wrong(
        message, "GRPOConfig.chat_template_kwargs", because, at=path, severity="warning" if warning else "error"
    )


def _variables(context: Context) -> frozenset[str] | None:
    """The variables that the template reads, None if unknown."""
    text = template_text(context)
    if not text or len(text) > LARGEST_TEMPLATE:
        return None
    try:
        return template_variables(text, is_chat=True)
    except TemplateProblem:
        return None
