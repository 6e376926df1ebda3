"""Findings as JSON, and in the forms of GitHub and SARIF."""

import json

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch
from grpo_recipes.report.findings_formats import findings_github, findings_json, findings_sarif

MARK = Mark("recipes/a b.yaml", 4, 3, 9, "  beta: 1")
FINDINGS = [
    Finding("BAT001", "error", "100% of 9, not 8", "grpo.x", MARK, ("one: two",), "x: 8"),
    Finding("STK010", "not-checked", "not checked"),
]


def test_no_findings_give_no_command() -> None:
    assert findings_github({"a.yaml": []}) == ""


def test_a_workflow_command_is_one_line_with_its_special_characters_escaped() -> None:
    assert findings_github({"recipes/a b.yaml": FINDINGS}).splitlines() == [
        "::error file=recipes/a b.yaml,line=4,col=3,endColumn=8,title=BAT001 grpo.x"
        "::100%25 of 9, not 8%0Abecause: one: two%0Afix: x: 8",
        "::notice file=recipes/a b.yaml,title=STK010::not checked",
    ]


def test_sarif_has_a_rule_for_each_id_and_a_place_for_each_result() -> None:
    run = json.loads(findings_sarif({"recipes/a b.yaml": FINDINGS}, {"BAT001": "A title.\n\nA page."}))["runs"][0]
    assert [(rule["id"], rule["shortDescription"]["text"]) for rule in run["tool"]["driver"]["rules"]] == [
        ("BAT001", "A title."),
        ("STK010", "STK010"),
    ]
    first, second = run["results"]
    assert (first["ruleIndex"], first["level"], second["ruleIndex"], second["level"]) == (0, "error", 1, "note")
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "recipes/a%20b.yaml"},
        "region": {"startLine": 4, "startColumn": 3, "endColumn": 9},
    }
    assert "region" not in second["locations"][0]["physicalLocation"]


def test_a_fingerprint_stays_when_the_line_moves() -> None:
    moved = Finding("BAT001", "error", "100% of 9, not 8", "grpo.x", Mark("a.yaml", 9, 3, 9, ""))
    prints = [
        json.loads(findings_sarif({"a.yaml": [finding]}, {}))["runs"][0]["results"][0]["partialFingerprints"]
        for finding in (FINDINGS[0], moved)
    ]
    assert prints[0] == prints[1]


def test_json_names_the_place_and_holds_the_fix_as_data() -> None:
    patched = Finding("BAT001", "error", "9 is no multiple of 8", "trl.x", MARK, patch=(Patch(("trl", "x"), 8),))
    value = json.loads(findings_json({"recipes/a b.yaml": [patched], "b.yaml": []}))
    assert value["recipes"] == ["recipes/a b.yaml", "b.yaml"]
    (finding,) = value["findings"]
    assert (finding["file"], finding["line"], finding["column"]) == ("recipes/a b.yaml", 4, 3)
    assert finding["rule"] == "BAT001"
    assert finding["patch"] == [{"path": ["trl", "x"], "value": 8, "remove": False}]
