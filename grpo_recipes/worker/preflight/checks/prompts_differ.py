"""Prompts differ from each other, and equal ones have equal references.

What: how many prompts are copies of an earlier one; if all are equal, the template probably lacks its braces. Also
equal prompts whose references (the column that right answers are made from) differ. And copies among held-out rows.
Why: copies only get more weight. But a prompt with two right answers teaches each of them half of the time, and a
prompt that is the same in every row teaches nothing about the rows. A model answers copies among held-out rows alike,
and intervals, which count each as a separate row, get too narrow: by half if each row is there four times.
Fix: remove copies from the data; write "{{ question }}" with braces.
Example: all 500 prompts are equal
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, note, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.prompt_shape import wrong_prompt
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, prompt_as_text, tasks_of

ID = "PFL004"
# A smaller share of copies gets no note.
MANY = 0.2


def check(inputs: Seen) -> Iterator[Finding]:
    data = inputs.data
    if data is None:
        return
    known = [(index, prompt) for index, prompt in enumerate(data.prompts) if wrong_prompt(prompt) is None]
    texts = {index: text for index, prompt in known if (text := prompt_as_text(prompt)).strip()}
    if inputs.tools is None or len(inputs.tools.prompts) < 2:  # otherwise the environment supplies the prompts
        tasks = tasks_of(data, inputs.plan)
        yield from _copies([tasks[index] for index in texts])
    if len(set(texts.values())) > 1:
        yield from _contradictions(inputs, data, texts)
    if inputs.tools is None:
        for rows in inputs.held_out:
            yield from _find_held_out_copies(rows, tasks_of(rows, inputs.plan))


def _find_held_out_copies(rows: Rows, tasks: list[str]) -> Iterator[Finding]:
    copies = len(tasks) - len(set(tasks))
    if copies >= MANY * len(tasks) > 0:
        yield warning(
            f"{rows.where}: {copies} of {len(tasks)} prompts are copies of an earlier one",
            (rows.where,),
            because="the model answers them alike, so the intervals of held-out rewards are too narrow",
            fix="each question once, and evaluation.samples for several answers",
        )


def _copies(texts: list[str]) -> Iterator[Finding]:
    if len(texts) < 2:
        return
    copies = len(texts) - len(set(texts))
    if copies == len(texts) - 1:
        yield warning(
            f"all {len(texts)} prompts are equal",
            ("dataset", "prompt"),
            because=f"each is {cut(texts[0])!r}",
            fix="write a column's name in braces: {{ question }}",
        )
    elif copies / len(texts) >= MANY:
        yield note(
            f"{copies} of {len(texts)} prompts are copies of an earlier one",
            ("dataset", "path"),
            because="repeated prompts get more weight than the others",
        )


def _contradictions(inputs: Seen, data: Rows, texts: dict[int, str]) -> Iterator[Finding]:
    if inputs.reference is None:
        return
    first: dict[str, tuple[int, object]] = {}
    contradictions = []
    references = list(data.rows[inputs.reference])
    for index, text in texts.items():
        reference = references[index]
        before, known = first.setdefault(text, (index, reference))
        if reference != known:
            contradictions.append(f"{data.number(before)} and {data.number(index)}")
    if contradictions:
        yield warning(
            f"{len(contradictions)} prompts are repeated with a different {inputs.reference}",
            ("dataset", "columns", inputs.reference),
            because=f"rows {join_items(contradictions)}",
            fix="remove the wrong rows",
        )
