"""No rule without evidence: each is proven on the real libraries, or listed as stricter with its reason."""

import re
from pathlib import Path

from stricter import PROVEN_IN, STRICTER

import grpo_recipes.resolve
from grpo_recipes.rules.catalog import rules

EVIDENCE = Path(__file__).parent
ROOT = EVIDENCE.parents[1]
ID_LINE = re.compile(r'^[A-Z_]+ = "([A-Z]{3}\d{3})"$', re.MULTILINE)


def _ids_of_the_resolver() -> set[str]:
    files = Path(grpo_recipes.resolve.__file__).parent.rglob("*.py")
    return {rule for file in files for rule in ID_LINE.findall(file.read_text(encoding="utf-8"))}


def test_every_rule_is_proven_or_listed() -> None:
    ids = {rule.id for rule in rules()} | _ids_of_the_resolver()
    by_name = {rule.id for rule in rules() if (EVIDENCE / f"test_{rule.name}.py").exists()}
    assert ids - by_name - set(STRICTER) - set(PROVEN_IN) == set()
    assert (set(STRICTER) | set(PROVEN_IN)) - ids == set(), "listed, and no rule any more"
    assert set(STRICTER) & by_name == {"BAT001"}, "proven, and listed as not to be"


def test_evidence_that_lies_elsewhere_is_there() -> None:
    for rule, place in PROVEN_IN.items():
        module = next((r.name for r in rules() if r.id == rule), None)
        text = (ROOT / place).read_text(encoding="utf-8")
        assert rule in text or module is not None, place
        if rule.startswith("SHM"):
            shim = next(key.partition(".")[2] for r in rules() if r.id == rule for key in r.owns)
            assert shim in text, f"{place} does not speak of {shim}"
