"""The prompt does not contain the right answer that the reward expects.

With `prompt: "{{ question }} {{ answer }}"` and `solution: "{{ answer }}"` the model copies the answer. The reward
rises and nothing is learned. The rule compares the expressions of `dataset.prompt` with those of `dataset.columns`, and
with the column that a reward reads unchanged. It also reads the rows' own prompts in the first 64 rows of a local
.jsonl file. A prompt of a single column is not reported if the row has no other question: the task is then to repeat or
change a text. Preflight reads the finished prompts of all rows.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import own_columns, sections_of_rows
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.local_rows import first_rows

ID = "DAT020"
ANSWERS = ("solution", "answer", "ground_truth", "expected", "gold")
QUESTIONS = frozenset(("question", "prompt", "problem", "instruction", "query", "input", "messages", "conversations"))


def check(context: Context) -> Iterator[Finding]:
    each = [finding for section, of_rows in sections_of_rows(context) for finding in _section(of_rows, section)]
    yield from {(finding.path, finding.message): finding for finding in each}.values()


def _section(context: Context, section: str) -> Iterator[Finding]:
    written = context.value("dataset.prompt")
    templates = context.mapping("dataset.columns")
    read = next((name for name in ANSWERS if name in templates), None)
    if written is None:
        yield from _of_rows(context, section, read)
        return
    answers = _expressions(str(templates[read])) if read else list(ANSWERS)
    shown = _expressions(str(written))
    if read and len({*answers}) > 1 and not {*answers} <= {*shown}:
        return  # the prompt shows a part of the answer, such as a name to repeat
    for expression in shown:
        if (expression in answers or any(_is_part(answer, expression) for answer in answers)) and (
            len({*shown}) > 1 or re.fullmatch(r"\w+\[-1\]\.\w+", expression) or _leaves_a_question(context, expression)
        ):
            yield _finding(context, "dataset.prompt", f"the prompt contains {{{{ {expression} }}}}, the right answer")
            return


def _of_rows(context: Context, section: str, read: str | None) -> Iterator[Finding]:
    """Compares the rows' own prompts with a column of answers that no template changes."""
    from grpo_recipes.contract.tasks.leaked_answers import rows_with_their_answer  # only without a template

    key = f"{section}.path"
    if read is not None or context.value(key) is None:
        return
    path = local_path(context.text(key), context.source.directory(context.path(key)))
    rows = [row for _, row in first_rows(path or "") if not isinstance(row, str)]
    column = next((name for name in ANSWERS if rows and name in rows[0]), None)
    texts = [_last_text(row.get("prompt")) for row in rows] if column else []
    if rows_with_their_answer(texts, [str(row.get(str(column)) or "") for row in rows] if column else []):
        yield _finding(context, key, f"{context.text(key)}: the prompts contain their {column}")


def _finding(context: Context, key: str, message: str) -> Finding:
    because = "the model is rewarded for copying it"
    return context.finding(message, key, because, severity="warning", fix="a prompt without the answer")


def _expressions(template: str) -> list[str]:
    """The expressions of a template without what only removes white space."""
    expressions = []
    for part in template.split("{{")[1:]:
        expression = part.partition("}}")[0].strip("- \n\t")
        while (shorter := _without_trim(expression)) != expression:
            expression = shorter
        expressions.append(expression)
    return expressions


def _without_trim(expression: str) -> str:
    """The expression without a filter or method at its end that changes only white space or the type."""
    for name in ("trim", "string"):
        before = expression.removesuffix(name).rstrip()
        if before != expression and before.endswith("|"):
            return before[:-1].rstrip()
    return expression.removesuffix(".strip()").rstrip()


def _is_part(answer: str, shown: str) -> bool:
    """Whether the answer is cut out of a column that the prompt shows whole and whose name says what it is."""
    return shown in (*ANSWERS, "output", "response", "completion") and answer.startswith(f"{shown}.split(")


def _leaves_a_question(context: Context, expression: str) -> bool:
    """Whether the rows have a question that the prompt, a single column, does not show."""
    return expression.isidentifier() and bool((own_columns(context) or frozenset()) & QUESTIONS - {expression})


def _last_text(prompt: object) -> str:
    last = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    content = last.get("content") if isinstance(last, dict) else last
    return content if isinstance(content, str) else ""
