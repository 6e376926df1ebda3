"""A newline does not stop a completion that needs several lines.

Generation ends at a stop string. With "\\n" as a stop, a completion has one line; if the prompt asks for each step on
its own line, or for the answer on the last line, only completions without the steps can be right.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GEN017"
STOP = "generation.stop"
_LINES = re.compile(
    r"(?i)\b(?:each|every|own|separate|new|last|final|several|multiple|two|three|four|five|following)\s+lines\b"
    r"|\b(?:own|separate|new|last|final)\s+line\b|\bline by line\b|\bone (?:\w+ )?per line\b"
)


def check(context: Context) -> Iterator[Finding]:
    stops = context.value(STOP)
    newlines = [stop for stop in (stops if isinstance(stops, list) else [stops]) if stop in ("\n", "\r\n")]
    for key in ("dataset.system_prompt", "dataset.prompt") if newlines else ():
        text = context.value(key)
        asked = _LINES.search(text) if isinstance(text, str) else None
        if asked:
            yield context.finding(
                f"stop {newlines[0]!r} ends each completion after one line, but the prompt asks for more",
                STOP,
                [f"{key.partition('.')[2]}: {' '.join(asked[0].split())!r}", "generation ends at a stop string"],
                fix="remove it from stop",
                severity="warning",
            )
            return
