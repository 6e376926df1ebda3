"""Findings as JSON, in the form of schemas/findings.schema.json."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes.contract.findings.finding import Finding

FINDINGS_FORMAT = 1


def finding_value(finding: Finding, file: str) -> dict[str, Any]:
    """One finding as JSON values; file, line and column are spread out for tools that want no nesting."""
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
    findings = [finding_value(finding, file) for file, found in by_file.items() for finding in found]
    document = {"findings_format": FINDINGS_FORMAT, "recipes": list(by_file), "findings": findings}
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)
