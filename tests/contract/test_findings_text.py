"""Findings as text."""

import pytest

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, by_place, mistake
from grpo_recipes.contract.findings.findings_text import WIDEST_LINE, bare_text, count_text, finding_text, findings_text

MARK = Mark("recipes/a.yaml", 4, 3, 33, "  gradient_accumulation_steps: 3")
FINDING = Finding(
    "BAT001",
    "error",
    "generation batch 9 is not a multiple of num_generations 8",
    "trl.gradient_accumulation_steps",
    MARK,
    because=("9 = per_device_train_batch_size 3 x 1 process x 3 steps",),
    fix="gradient_accumulation_steps: 8",
    patch=(Patch(("trl", "gradient_accumulation_steps"), 8),),
)


def test_a_finding_gives_place_source_line_reason_fix_and_page() -> None:
    assert finding_text(FINDING, "recipes/a.yaml") == (
        "recipes/a.yaml:4:3: error: generation batch 9 is not a multiple of num_generations 8 [BAT001]\n"
        "  |\n"
        "4 |   gradient_accumulation_steps: 3\n"
        "  |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = because: 9 = per_device_train_batch_size 3 x 1 process x 3 steps\n"
        "  = fix: gradient_accumulation_steps: 8\n"
        "  = more: grpo-run explain BAT001"
    )


def test_too_many_findings_are_counted_and_the_errors_come_first() -> None:
    warnings = [Finding("TRN001", "warning", f"warning {number}") for number in range(2000)]
    error = Finding("TRN002", "error", "the error")
    text = findings_text([*warnings, error], "x.yaml")
    assert text.startswith("x.yaml: error: the error [TRN002]\n")
    assert "warning 98 " in text and "warning 99 " not in text
    assert text.endswith("\n\n1,901 more findings are left out; grpo-run validate --format json prints all")
    assert "left out" not in findings_text(warnings[:100], "x.yaml")


def test_a_finding_without_a_place_names_the_file() -> None:
    finding = Finding("YML001", "error", "there is no such file")
    assert finding_text(finding, "x.yaml").splitlines() == [
        "x.yaml: error: there is no such file [YML001]",
        "  = more: grpo-run explain YML001",
    ]


def test_a_mistake_without_an_id_names_no_page() -> None:
    assert bare_text([mistake("port 1 is taken")]) == "port 1 is taken"
    assert finding_text(mistake("port 1 is taken", because="nginx has it"), "a.yaml") == (
        "a.yaml: error: port 1 is taken\n  = because: nginx has it"
    )


def test_what_was_seen_comes_before_the_reasons_and_notes_after_the_fix() -> None:
    finding = Finding(
        "PRF001",
        "error",
        "world: the proof failed",
        because=("one", "two"),
        fix="plan again",
        seen=("found    1", "planned  2"),
        notes=("asked for each time",),
    )
    assert bare_text([finding, mistake("and this", more="server.log")]) == (
        "world: the proof failed [PRF001]\n"
        "  found    1\n"
        "  planned  2\n"
        "  = because: one\n"
        "  = because: two\n"
        "  = fix: plan again\n"
        "  = note: asked for each time\n"
        "  = more: grpo-run explain PRF001\n"
        "and this\n"
        "  = more: server.log"
    )


def test_a_long_line_is_cut_around_its_place_and_control_characters_are_not_printed() -> None:
    text = "a" * 5000 + "\x1b[31mB" + "c" * 5000
    lines = finding_text(Finding("X1", "error", "m", mark=Mark("f", 1, 5006, 5007, text)), "f").splitlines()
    assert all(len(line) <= WIDEST_LINE + 4 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert lines[2][lines[3].index("^")] == "B"


def test_findings_are_sorted_by_place_and_those_without_one_come_last() -> None:
    first, second = Mark("a", 2, 1, 2, ""), Mark("a", 10, 1, 2, "")
    findings = [
        Finding("C", "error", "", mark=second),
        Finding("A", "error", ""),
        Finding("B", "error", "", mark=first),
    ]
    assert [finding.rule for finding in by_place(findings)] == ["B", "C", "A"]


@pytest.mark.parametrize(
    ("severities", "said"),
    [
        ([], "no findings"),
        (["error"], "1 error"),
        (["warning", "error", "error"], "2 errors, 1 warning"),
        (["not-checked", "not-checked"], "2 checks not made"),
    ],
    ids=["none", "one", "several", "not checked"],
)
def test_the_count_names_each_severity(severities: list, said: str) -> None:
    assert count_text([Finding("X", severity, "") for severity in severities]) == said


def test_several_findings_have_a_blank_line_between_them() -> None:
    assert findings_text([FINDING, FINDING], "").count("\n\n") == 1
