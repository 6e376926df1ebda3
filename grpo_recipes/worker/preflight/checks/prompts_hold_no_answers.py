"""No prompt contains its own right answer.

What: prompts with a message that begins or ends with their answer, or that contain a whole answer of at least 40
characters, if nine tenths of the rows do and the rest of the prompts differs; and rows whose question and answer are
among the examples that every prompt shows; and a worked solution (a column such as rationale or reasoning) in the
prompt, if nine tenths of them contain the answer. The answer is the text of the column that right answers are made
from. Options of a choice, and tasks that repeat or change a given text, are not reported.
Why: the model copies the answer. The reward rises, and nothing is learned that helps without the answer.
Fix: leave the answer out of dataset.prompt; leave rows that are shown as examples out of the data.
Example: 100 of 100 prompts contain their right answer
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, note, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.tasks.leaked_answers import rows_in_the_examples, rows_with_their_answer
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, content_of

ID = "PFL050"
ROLES = ("system", "assistant", "user")
WORKED = ("rationale", "reasoning", "explanation", "solution", "worked_solution", "cot", "chain_of_thought", "steps")
SHARE = 0.9


def check(inputs: Seen) -> Iterator[Finding]:
    if any("DAT020" in finding for finding in inputs.plan.findings):
        return  # validate named the template
    for rows in (inputs.data, *inputs.held_out):
        if rows is not None and inputs.reference is not None and inputs.reference in rows.rows.column_names:
            yield from _of(rows, inputs.reference)
            yield from _of_worked_solutions(rows, inputs.reference, inputs.plan.data.prompt or "")


def _of(rows: Rows, column: str) -> Iterator[Finding]:
    answers = ["" if value is None else str(value) for value in rows.rows[column]]
    for role in ROLES:
        prompts = [_text(prompt, role) for prompt in rows.prompts]
        if indices := rows_with_their_answer(prompts, answers):
            break
    if indices:
        yield warning(
            f"{rows.where}: {len(indices)} of {len(prompts)} prompts contain their right answer",
            (rows.where, "prompt"),
            because=(
                f"such as {cut(answers[indices[0]], 40)!r}, the {column} of row {rows.number(indices[0])}",
                "the model is rewarded for copying it",
            ),
            fix="a prompt without the answer",
        )
    elif indices := rows_in_the_examples(prompts, answers):
        yield note(
            f"{rows.where}: the examples in every prompt contain {len(indices)} of the {len(prompts)} rows",
            (rows.where, "prompt"),
            because=f"the questions and right answers of rows {join_items([*map(rows.number, indices)], 5)}",
            fix="use examples from other data, or leave these rows out",
        )


def _of_worked_solutions(rows: Rows, column: str, template: str) -> Iterator[Finding]:
    """Yields a column of the template that contains the answer of nearly every row."""
    answers = [str(value) for value in rows.rows[column]]
    for name in dict.fromkeys(re.findall(r"\{\{-?\s*(\w+)", template)):
        if name not in WORKED or name == column or name not in rows.rows.column_names:
            continue
        texts = zip(rows.rows[name], answers, strict=True)
        count = sum(
            re.search(rf"(?<![\w.]){re.escape(answer)}(?!\w)", str(text)) is not None
            for text, answer in texts
            if answer
        )
        if count >= SHARE * len(answers) > 0:
            yield warning(
                f"{rows.where}: the prompt contains {{{{ {name} }}}}, which has the right answer in {count} of "
                f"{len(answers)} rows",
                (rows.where, "prompt"),
                because=(
                    f"such as {cut(answers[0], 40)!r} in row {rows.number(0)}",
                    "the model reads the answer there",
                ),
                fix=f"a prompt without {name}",
            )


def _text(prompt: object, last: str) -> str:
    """Returns the texts of a prompt without the roles of its messages. last: the role whose messages come last."""
    messages = prompt if isinstance(prompt, list) else [prompt]
    ordered = sorted(messages, key=lambda message: isinstance(message, dict) and message.get("role") == last)
    return "\n".join(map(content_of, ordered))
