"""Prompts differ from each other, and equal ones have equal references.

What: how many prompts are copies of an earlier one; if all are equal, the template probably lacks its braces. Also
equal prompts whose references (the column that right answers are made from) differ.
Why: copies only get more weight. But a prompt with two right answers teaches each of them half of the time, and a
prompt that is the same in every row teaches nothing about the rows.
Fix: remove copies from the data; write "{{ question }}" with braces.
Example: all 500 prompts are equal
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.contract.prompt_shape import wrong_prompt
from grpo_recipes.worker.preflight._shared.reward_seen import cut, fault
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, prompt_as_text

ID = "PFL004"
# A smaller share of copies gets no note.
MANY = 0.2


def check(seen: Seen) -> Iterator[Finding]:
    data = seen.data
    if data is None:
        return
    known = [(place, prompt) for place, prompt in enumerate(data.prompts) if wrong_prompt(prompt) is None]
    texts = {place: text for place, prompt in known if (text := prompt_as_text(prompt)).strip()}
    if seen.tools is None or len(seen.tools.prompts) < 2:  # otherwise the environment supplies the prompts
        yield from _copies(list(texts.values()))
    if len(set(texts.values())) > 1:
        yield from _contradictions(seen, data, texts)


def _copies(texts: list[str]) -> Iterator[Finding]:
    if len(texts) < 2:
        return
    copies = len(texts) - len(set(texts))
    if copies == len(texts) - 1:
        yield fault(
            "warning",
            f"all {len(texts)} prompts are equal",
            ("dataset", "prompt"),
            because=(f"each is {cut(texts[0])!r}",),
            fix="write a column's name in braces: {{ question }}",
        )
    elif copies / len(texts) >= MANY:
        yield fault(
            "note",
            f"{copies} of {len(texts)} prompts are copies of an earlier one",
            ("dataset", "path"),
            because=("repeated prompts get more weight than the others",),
        )


def _contradictions(seen: Seen, data: Rows, texts: dict[int, str]) -> Iterator[Finding]:
    if seen.reference is None:
        return
    first: dict[str, tuple[int, object]] = {}
    found = []
    references = list(data.rows[seen.reference])
    for place, text in texts.items():
        reference = references[place]
        before, known = first.setdefault(text, (place, reference))
        if reference != known:
            found.append(f"{data.number(before)} and {data.number(place)}")
    if found:
        yield fault(
            "warning",
            f"{len(found)} prompts are repeated with a different {seen.reference}",
            ("dataset", "columns", seen.reference),
            because=(f"rows {listed(found)}",),
            fix="remove the wrong rows",
        )
