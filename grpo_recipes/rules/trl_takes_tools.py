"""Tools are for releases that take them.

GRPOTrainer takes `tools` since trl 0.26, and the answers of a model are read for tool calls by transformers 5 alone: on
older releases it raises ImportError after the model was loaded. Before trl 1.10, and with transformers before 5.13, it
needs jmespath for that. A release without tools would train another experiment, so nothing is left out. Before trl 1.0
the tokens of all turns were made anew from the messages, and may not be those that were sampled.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.tools import PARAMETERS, needed_transformers, needs_jmespath
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context

ID = "TOL001"
KEY = "tools"
FIRST = "1.0.0"
"""Before it the tokens of all turns were made anew."""


def check(context: Context) -> Iterator[Finding]:
    parameters, trl = context.facts.parameters("GRPOTrainer"), context.stack.version("trl")
    if not context.value(KEY) or parameters is None or trl is None:
        return
    parameter = PARAMETERS[KEY]
    if parameter not in parameters:
        yield context.finding(
            ID,
            f"trl {trl} has no {KEY}",
            KEY,
            because=[f"its GRPOTrainer takes no {parameter}"],
            fix=f"trl=={FIRST} or a newer one",
        )
        return
    if is_within(trl, f"<{FIRST}"):
        yield context.finding(
            ID,
            f"trl {trl} does not train on the tokens that were sampled",
            KEY,
            because=["behind a tool's reply it makes the tokens of all turns anew from the messages"],
            fix=f"trl=={FIRST} or a newer one",
        )
        return
    transformers, window = context.stack.version("transformers"), needed_transformers(KEY, trl)
    if window is not None and transformers is not None and not is_within(transformers, window):
        yield context.finding(
            ID,
            f"{KEY} need transformers {window.removeprefix('>=')}",
            KEY,
            because=[f"the stack has transformers {transformers}, with which GRPOTrainer raises ImportError"],
            fix=f"transformers=={window.removeprefix('>=')} or a newer one",
        )
        return
    if needs_jmespath(trl, transformers) and context.stack.version("jmespath") is None:
        yield _jmespath(context, trl, transformers)


def _jmespath(context: Context, trl: str, transformers: str | None) -> Finding:
    if not context.stack.is_known("jmespath"):
        message, because = "not checked: whether jmespath is installed", f"{context.stack.origin} does not say"
        return context.finding(ID, message, KEY, because=[because], severity="not-checked")
    return context.finding(
        ID,
        "jmespath is not installed",
        KEY,
        because=[f"trl {trl} reads tool calls with it on transformers {transformers}, and raises ImportError"],
        fix="pip install jmespath",
    )
