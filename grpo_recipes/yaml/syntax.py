"""Repeats PyYAML's sentence for a text that is not YAML, with a fix; recognized by PyYAML 6 and libyaml 0.2.5."""

import re

from yaml import MarkedYAMLError

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.ids import refusal
from grpo_recipes.yaml.page import Page, visible_text
from grpo_recipes.yaml.refusals import MAX_FIX, UNQUOTED, double_quoted

NO_SPACE = "a space is missing after the colon"
_NO_SPACE = r"\s*(?:- )?([A-Za-z_][\w.-]*):([^\s:/][^\s:]*)\s*"
_UNQUOTED_TEMPLATE = r"(?:^|[:\[,-]\s+)(\{\{)"
# Words of PyYAML's sentence with the fix, tried in order.
_FIXES = (
    (r"found unexpected (end|document)", "close the quote; inside single quotes write '' for one quote"),
    (r"tab character|'\\t'", "indent with spaces, not tabs"),
    (r"expected ','", "add the comma or the closing bracket; put a text with a bracket in single quotes"),
    (r"mapping values", "indent the keys of one mapping alike; put a text with a colon and a space in quotes"),
    (r"expected ':'", "write the line as `key: value`, or in quotes if it continues the text above"),
    (r"start any token|alphabetic|escape|decimal", "write the value in single quotes"),
    (r"", "indent the line like those around it, or write the value in single quotes"),
)


def syntax_finding(error: MarkedYAMLError, page: Page) -> Finding:
    """The finding for a text that is not YAML.

    It is where PyYAML stopped, or, if that is a later line, at the quote, bracket or line that does not end.
    """
    mark, context = error.problem_mark, error.context_mark
    why = f"{error.context or ''} {error.problem}"
    if mark is None or (context is not None and context.line < mark.line and "block mapping" not in why):
        mark = context
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = [*page.lines, ""]
    text = lines[min(line, len(page.lines))]
    template = re.search(_UNQUOTED_TEMPLATE, text[: column + 1])
    if template is not None and "quoted" not in why:
        start, end = template.start(1), len(text.rstrip())
        written = double_quoted(text[start:end])
        fix = written if written.isprintable() and len(written) <= MAX_FIX else "write the template in quotes"
        return refusal(ids.UNQUOTED_TEMPLATE, UNQUOTED, page.mark(line, start, end), fix)
    above = next((number for number in range(line - 1, -1, -1) if lines[number].strip()), line)
    for number in (line, above) if "expected ':'" in why or "mapping values" in why else ():
        if (right := missing_space(lines[number])) is not None:
            start = len(lines[number]) - len(lines[number].lstrip())
            because = "without it YAML reads the line as one text"
            return refusal(ids.SYNTAX, NO_SPACE, page.mark(number, start, start + 1), right, because)
    is_tab = text[column : column + 1] == "\t"
    fix = _FIXES[1][1] if is_tab else next(fix for words, fix in _FIXES if re.search(words, why))
    message = f"the text is not YAML: {visible_text(str(error.problem), 80)}"
    because = f"PyYAML found this {error.context or 'here'}"
    return refusal(ids.TAG if "tag" in why else ids.SYNTAX, message, page.mark(line, column, column + 1), fix, because)


def missing_space(text: str) -> str | None:
    """`beta: 0.04` for a line `beta:0.04`, else None."""
    match = re.fullmatch(_NO_SPACE, text)
    return f"{visible_text(match[1], 40)}: {visible_text(match[2], 40)}" if match else None
