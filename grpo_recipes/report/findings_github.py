"""Findings as workflow commands, which GitHub shows at their lines in a pull request.

Source: docs.github.com, "Workflow commands for GitHub Actions": data escapes % and line breaks, properties : and , too.
"""

from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import Finding

COMMANDS = {"error": "error", "warning": "warning", "note": "notice", "not-checked": "notice"}


def findings_github(by_file: Mapping[str, Sequence[Finding]]) -> str:
    """One line for each finding, each with its line break; "" for none."""
    return "".join(f"{_command(finding, file)}\n" for file, found in by_file.items() for finding in found)


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
    told = ",".join(f"{name}={_escaped(value, of_property=True)}" for name, value in properties.items())
    lines = [finding.message, *(f"because: {reason}" for reason in finding.because)]
    lines += [f"fix: {finding.fix}"] if finding.fix else []
    return f"::{COMMANDS[finding.severity]} {told}::{_escaped(chr(10).join(lines), of_property=False)}"


def _escaped(text: str, *, of_property: bool) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if of_property else text
