"""Templates name the columns of a row in double braces.

dataset.prompt and dataset.columns are jinja2 templates: `{{ question }}` is the column, but `{question}`, as in
Python's format, stays in the text. Every prompt then contains `{question}`, training runs, and only the reward shows
it. The rule warns if the word is a column of the data, or if the template contains nothing else that could be a column.
A `dataset.filter` without braces is the same for all rows, which is an error. `dataset.system_prompt` is not a
template: `{{ question }}` in it stays as it is, and so does the `\\boxed{{}}` of a Python format string.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import own_columns

ID = "GRP010"
SYSTEM = "dataset.system_prompt"
_DOUBLE = r"\{\{[ ]?[A-Za-z_][^{}]*\}\}|\{%[^{}]*%\}"
_DOUBLED = r"\{\{([^{}]*)\}\}"
_SINGLE = re.compile(r"(?<![\w{\\$])\{[ ]?([A-Za-z_]\w{0,99})[ ]?\}(?!\})")


def check(context: Context) -> Iterator[Finding]:
    condition = context.value("dataset.filter")
    if isinstance(condition, str) and "{" not in condition:
        because = "without double braces it is text, the same for all rows"
        meant = re.sub(r"(?<![=!<>])=(?!=)", "==", condition).replace("&&", "and").replace("||", "or")
        reasons = [because, *(["jinja2 compares with ==, and joins with and, or"] if meant != condition else [])]
        message = f"the filter {condition} is not an expression"
        yield context.wrong(message, "dataset.filter", reasons, f"{{{{ {meant} }}}}")
    system = context.value(SYSTEM)
    if isinstance(system, str) and ("{{" in system or "{%" in system) and (braces := re.search(_DOUBLE, system)):
        message, because = f"{braces[0][:60]} in system_prompt stays text", "only prompt and columns are templates"
        fix = "write it in dataset.prompt, or without braces"
        yield context.finding(message, SYSTEM, because, fix=fix, severity="warning")
    elif isinstance(system, str) and (pairs := re.findall(_DOUBLED, system)):
        message, because = f"{{{{{pairs[0][:50]}}}}} in system_prompt has two braces", "it is plain text, not formatted"
        right = re.sub(_DOUBLED, r"{\1}", system)
        fix = f"single braces: {{{pairs[0][:50]}}}"
        yield context.wrong(message, SYSTEM, because, right, fix=fix, severity="warning")
    templates: list[tuple[Path, object]] = [(("dataset", "prompt"), context.value("dataset.prompt"))]
    templates += [(("dataset", "columns", name), text) for name, text in context.mapping("dataset.columns").items()]
    single = [(path, text) for path, text in templates if isinstance(text, str) and _SINGLE.search(text)]
    columns = own_columns(context) if single else None
    for path, text in single:
        words = list(dict.fromkeys(_SINGLE.findall(text)))
        if columns is not None:
            words = [word for word in words if word in columns]
        elif "{{" in text or "{%" in text:
            words = []
        if words:
            yield _finding(context, path, text, words)


def _finding(context: Context, path: Path, text: str, words: list[str]) -> Finding:
    right = _SINGLE.sub(lambda match: f"{{{{ {match[1]} }}}}" if match[1] in words else match[0], text)
    shown = ", ".join(f"{{{word}}}" for word in words)
    message = f"{shown} in {path[-1]} is text, not a column"
    because = "jinja2 reads a column only in double braces, so every row gets the same words"
    fix = f"write it as {', '.join(f'{{{{ {word} }}}}' for word in words)}"
    return context.wrong(message, ".".join(map(str, path[:2])), because, right, at=path, fix=fix, severity="warning")
