"""Findings as SARIF 2.1.0, for code scanning and editors. Source: docs.oasis-open.org/sarif/sarif/v2.1.0."""

import hashlib
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes import __version__
from grpo_recipes.contract.findings.finding import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note", "not-checked": "note"}


def findings_sarif(by_file: Mapping[str, Sequence[Finding]], pages: Mapping[str, str]) -> str:
    """One run with the findings of all recipes. pages: of each rule id, the first line is its title."""
    found = [(finding, file) for file, findings in by_file.items() for finding in findings]
    ids = sorted({finding.rule for finding, _ in found})
    rules = [_rule(rule, pages.get(rule, rule)) for rule in ids]
    driver = {"name": "grpo-run", "semanticVersion": __version__, "rules": rules}
    results = [_result(finding, file, ids) for finding, file in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(rule: str, page: str) -> dict[str, Any]:
    title = page.partition("\n")[0]
    return {
        "id": rule,
        "shortDescription": {"text": title},
        "fullDescription": {"text": page},
        "help": {"text": f"{page}\n\ngrpo-run explain {rule}"},
    }


def _result(finding: Finding, file: str, ids: Sequence[str]) -> dict[str, Any]:
    mark = finding.mark
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(mark.file if mark else file)}}
    if mark is not None:
        place["region"] = {"startLine": mark.line, "startColumn": mark.column, "endColumn": mark.end_column}
    lines = [finding.message, *(f"because: {reason}" for reason in finding.because)]
    lines += [f"fix: {finding.fix}"] if finding.fix else []
    # What stays the same when lines are added above it, so that a known finding is not reported as a new one.
    same = hashlib.sha256(f"{finding.rule} {finding.key} {finding.message}".encode()).hexdigest()
    return {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(lines)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"ruleKeyMessage/v1": same},
    }


def _uri(file: str) -> str:
    """A path as a relative or file: URI."""
    path = file.replace("\\", "/")
    return ("file://" if path.startswith("/") else "") + urllib.parse.quote(path)
