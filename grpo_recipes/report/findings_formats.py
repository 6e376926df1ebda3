"""Formats findings as JSON, SARIF and GitHub annotations."""

import hashlib
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes import __version__
from grpo_recipes.contract.findings.finding import Finding

# Findings as workflow commands, which GitHub shows at their lines in a pull request.
#
# Source: docs.github.com, "Workflow commands for GitHub Actions": data escapes % and line breaks, properties : and ,
# too.


COMMANDS = {"error": "error", "warning": "warning", "note": "notice", "not-checked": "notice"}


def findings_github(by_file: Mapping[str, Sequence[Finding]]) -> str:
    """One line for each finding, each with its line break; "" for none."""
    return "".join(f"{_command(finding, file)}\n" for file, findings in by_file.items() for finding in findings)


def _command(finding: Finding, file: str) -> str:
    mark = finding.mark
    properties = {"file": mark.file if mark else file}
    if mark is not None:
        properties |= {
            "line": str(mark.line),
            "col": str(mark.column),
            "endColumn": str(max(mark.column, mark.end_column - 1)),
        }
    properties["title"] = f"{finding.rule} {finding.key}".rstrip()
    parameters = ",".join(f"{name}={_escape(value, of_property=True)}" for name, value in properties.items())
    lines = [finding.message, *(f"because: {reason}" for reason in finding.because)]
    lines += [f"fix: {finding.fix}"] if finding.fix else []
    return f"::{COMMANDS[finding.severity]} {parameters}::{_escape(chr(10).join(lines), of_property=False)}"


def _escape(text: str, *, of_property: bool) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if of_property else text


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note", "not-checked": "note"}


def findings_sarif(by_file: Mapping[str, Sequence[Finding]], pages: Mapping[str, str]) -> str:
    """One run with the findings of all recipes. pages: of each rule id, the first line is its title."""
    located = [(finding, file) for file, findings in by_file.items() for finding in findings]
    ids = sorted({finding.rule for finding, _ in located})
    rules = [_rule(rule, pages.get(rule, rule)) for rule in ids]
    driver = {"name": "grpo-run", "semanticVersion": __version__, "rules": rules}
    results = [_result(finding, file, ids) for finding, file in located]
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
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(mark.file if mark else file)}}
    if mark is not None:
        location["region"] = {"startLine": mark.line, "startColumn": mark.column, "endColumn": mark.end_column}
    lines = [finding.message, *(f"because: {reason}" for reason in finding.because)]
    lines += [f"fix: {finding.fix}"] if finding.fix else []
    # Stable when lines are added above, so that a known finding is not reported as new.
    same = hashlib.sha256(f"{finding.rule} {finding.key} {finding.message}".encode()).hexdigest()
    return {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(lines)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"ruleKeyMessage/v1": same},
    }


def _uri(file: str) -> str:
    """A path as a relative or file: URI."""
    path = file.replace("\\", "/")
    return ("file://" if path.startswith("/") else "") + urllib.parse.quote(path)


FINDINGS_FORMAT = 1


def finding_value(finding: Finding, file: str) -> dict[str, Any]:
    """One finding as JSON values; file, line and column are flattened for simple tools."""
    mark = finding.mark
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "file": mark.file if mark else file,
        "line": mark.line if mark else None,
        "column": mark.column if mark else None,
        "end_column": mark.end_column if mark else None,
        "key": finding.key,
        "message": finding.message,
        "because": list(finding.because),
        "fix": finding.fix,
        "patch": [patch._asdict() for patch in finding.patch],
    }


def findings_json(by_file: Mapping[str, Sequence[Finding]]) -> str:
    """The findings of several recipes in one document."""
    findings = [finding_value(finding, file) for file, of_file in by_file.items() for finding in of_file]
    document = {"findings_format": FINDINGS_FORMAT, "recipes": list(by_file), "findings": findings}
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)
