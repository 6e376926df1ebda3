"""The answers of tools fit into a completion.

What: the tokens of the played completion (calls, answers of tools and final message), compared with
max_completion_length. It is a note if preflight made the calls up, since a model would write different arguments.
Why: an answer that does not fit is left out, and the completion ends with the call: the model never reads the tool's
answer, and rewards never see the model's.
Fix: a larger generation.max_completion_length, or tools that return less.
Example: the played completion has 812 tokens, and completions have at most 256
Source: trl's grpo_trainer.py (_tool_call_loop).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length

ID = "PFL034"


def check(inputs: Seen) -> Iterator[Finding]:
    most = max_completion_length(inputs)
    if inputs.tools is None or inputs.played_tokens is None or not 0 < most < inputs.played_tokens:
        return
    yield mistake(
        f"the played completion has {inputs.played_tokens} tokens, and completions have at most {most}",
        ("generation", "max_completion_length"),
        because=f"{_calls(len(inputs.tools.turns))}; answers count, and an answer that does not fit is left out",
        fix=f"max_completion_length: {inputs.played_tokens}" if inputs.tools.scripted else None,
        severity="warning" if inputs.tools.scripted else "note",
    )


def _calls(count: int) -> str:
    return "it calls a tool once" if count == 1 else f"it calls tools {count} times"
