"""A pattern for completions reaches the generator, which supports it.

`vllm_structured_outputs_regex` restricts completions to a regular expression. Only vLLM supports it: if transformers
generates, TRL never reads it, and the model answers freely. vLLM parses the pattern at the first completion, after
loading the model, and raises if it is not a regular expression. vLLM 0.31 also raises for constructs that need memory
of the text: back references, lookahead or lookbehind, and word boundaries.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.patterns import ask
from grpo_recipes.rules._shared.context import Context

ID = "GEN007"
PATTERN, USE_VLLM = "GRPOConfig.vllm_structured_outputs_regex", "GRPOConfig.use_vllm"
# Python's messages for mistakes that vLLM's engines refuse too; each knows forms that the other lacks.
NO_PATTERN = (
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "unterminated character set",
    "nothing to repeat",
    "min repeat greater than max repeat",
    "bad character range",
)
_ESCAPE_OR_BRACKETS = r"(\\.)|\[\^?\]?(?:\\.|[^\]\\])*+\]?"
WITH_MEMORY = {
    r"\\[1-9]": "a back reference",
    r"\(\?<?[=!]": "a lookahead or lookbehind",
    r"\\[bB]": "a word boundary",
}


def check(context: Context) -> Iterator[Finding]:
    pattern = context.value(PATTERN)
    if pattern is None:
        return
    if context.value(USE_VLLM) is not True:
        yield context.wrong(
            "vllm_structured_outputs_regex has no effect: transformers generates",
            PATTERN,
            [
                "TRL passes it only to vLLM, and completions would silently ignore it",
                f"use_vllm is {str(context.value(USE_VLLM)).lower()}: {context.origin(USE_VLLM)}",
            ],
            fix="use_vllm: true, or remove vllm_structured_outputs_regex",
        )
    elif isinstance(pattern, str):
        yield from _find_unsupported(context, pattern)


def _find_unsupported(context: Context, pattern: str) -> Iterator[Finding]:
    fix = "a different pattern, or remove vllm_structured_outputs_regex"
    problem = ask((pattern,), ())[0].problem.partition(" at position ")[0]
    if problem.startswith(NO_PATTERN):
        why = "vLLM refuses it at the first generation"
        yield context.wrong(f"the pattern is not a regular expression: {problem}", PATTERN, why, fix=fix)
        return
    # An escaped backslash does not escape what follows it; brackets hold only characters.
    plain = re.sub(_ESCAPE_OR_BRACKETS, lambda match: (match[1] or "").replace("\\\\", ""), pattern)
    features = [what for regex, what in WITH_MEMORY.items() if re.search(regex, plain)]
    if features:
        why = "vLLM 0.31 refuses it at the first generation; other releases may use other engines"
        yield context.wrong(f"the pattern has {features[0]}", PATTERN, why, fix=fix, severity="warning")
