"""The gold answers of a warm start are completions that generation could give.

A warm start trains on a row's prompt as generation gets it, followed by the gold answer and the end of the turn. An
environment adds what its reset returns to the prompt, and a rollout may change it in any way, so their prompts are not
those of the rows. The steps see no images. The sources of a mixture have different rows, so one template cannot give
the answers of all. With tools, the gold answer is trained as an answer without calls, which is reported, as is a text
that is the same for all rows. Warm-up that is as long as the warm start would never reach its learning rate.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "TRN014"
ANSWER, STEPS, WARM_UP = "warm_start.answer", "warm_start.steps", "warm_start.warmup_steps"
_OTHER_PROMPTS = {
    "environment": "what its reset returns is part of the prompt, and no row has it",
    "environments": "what their reset returns is part of the prompt, and no row has it",
    "rollout": "the function makes its own prompts and turns of the rows",
    "datasets": "its sources have different rows, and one template has to give the answers of all",
}


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("warm_start"):
        return
    others = [section for section in _OTHER_PROMPTS if context.source.values.get(section)]
    reason = _OTHER_PROMPTS[others[0]] if others else None
    if reason is None and image_columns(context):
        others, reason = ["dataset.images"], "its steps see the text of a prompt alone, generation also the images"
    if reason is not None:
        message = f"a warm start cannot be combined with `{others[0]}`"
        yield context.wrong(
            message, "warm_start", reason, fix="remove warm_start, or train it in a run before this one"
        )
    if context.value("tools"):
        message = "the warm start trains answers without calls of a tool"
        because = "the gold answer follows the prompt, which describes the tools, so the policy learns not to call them"
        fix = "a warm start of few steps, or none"
        yield context.finding(message, ANSWER, because, severity="warning", fix=fix)
    answer = str(context.value(ANSWER)).strip()
    if "{" not in answer:
        because = "the text has no expression in braces, so all rows train the same answer"
        fix = f'answer: "{{{{ {answer if answer.isidentifier() else "answer"} }}}}", with the name of a column'
        yield context.finding(f"each gold answer is {answer!r}", ANSWER, because, severity="warning", fix=fix)
    if context.whole(WARM_UP) >= context.whole(STEPS):
        message = f"warmup_steps {context.whole(WARM_UP)} leaves no step of the warm start at its learning rate"
        because = f"it has {context.whole(STEPS)} steps ({context.origin(STEPS)})"
        yield context.wrong(message, WARM_UP, because, 0)
