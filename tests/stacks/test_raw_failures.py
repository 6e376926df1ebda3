"""What TRL alone does with the five founding failures, written as its users write it, on every stack.

raw_expected.json has for each stack and failure what each experiment of raw_experiments.py is expected to show, or a
list where it shows now one and now another. A failure that no stack shows any more is nothing that grpo-run prevents.
What an older release does by itself changes with its pins alone, so --stacks quick asks the newest.
"""

import json
from pathlib import Path

import pytest
from environments import NEWEST, REFUSED, STACKS
from laboratory import Laboratory
from raw_experiments import FAILURES, RAW
from stacks_table import StacksTable

pytestmark = pytest.mark.stacks

EXPECTED: dict[str, dict[str, dict[str, str | list[str]]]] = {
    NEWEST if stack == "newest" else stack: failures
    for stack, failures in json.loads(Path(__file__).with_name("raw_expected.json").read_text(encoding="utf-8")).items()
}
CASES = [
    (stack, int(failure), label, [shown] if isinstance(shown, str) else shown)
    for stack, failures in EXPECTED.items()
    for failure, labels in failures.items()
    for label, shown in labels.items()
]


def test_every_stack_is_expected_to_show_something() -> None:
    assert sorted(EXPECTED) == sorted((*STACKS, *REFUSED))
    for stack in STACKS:
        for failure, labels in RAW.items():
            assert set(EXPECTED[stack][str(failure)]) >= set(labels) - {"full"}, (stack, failure)


@pytest.mark.parametrize(
    ("stack", "failure", "label", "expected"),
    [
        pytest.param(*case, id="-".join(map(str, case[:3])), marks=() if case[0] == NEWEST else pytest.mark.long)
        for case in CASES
    ],
)
def test_trl_alone_shows_what_is_expected(
    stack: str, failure: int, label: str, expected: list[str], laboratory: Laboratory, stacks_table: StacksTable
) -> None:
    outcome = RAW[failure][label].outcome(laboratory, stack)
    stacks_table.fill(stack, FAILURES[failure], outcome, label)
    assert outcome in expected
