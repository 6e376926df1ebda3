"""Tools, environments and rollouts are for releases that take them.

GRPOTrainer takes `tools` since trl 0.26, and the answers of a model are read for tool calls by transformers 5 alone: on
older releases it raises ImportError after the model was loaded. Before trl 1.10, and with transformers before 5.13, it
needs jmespath for that. A release without tools would train another experiment, so nothing is left out. Before trl 1.0
the tokens of all turns were made anew from the messages, and may not be those that were sampled.

It takes `environment_factory` since trl 0.29, with transformers 5.2, and before 1.8 calls an environment's `get_reward`
a tool. It takes `rollout_func` since trl 0.25, and before 1.0 calls it where vLLM generates alone, with prompts that
are texts already.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.tools import PARAMETERS, needed_transformers, needs_jmespath
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import read_environment, said_code

ID = "TOL001"
FIRST = "1.0.0"
"""Before it the tokens of all turns were made anew, and a rollout was asked by vLLM alone."""
OWNS_A_REWARD = "1.8.0"
"""From it on get_reward of an environment is a reward."""
_ANEW = ("does not train on the tokens that were sampled",)
_ANEW_WHY = "behind a tool's reply it makes the tokens of all turns anew from the messages"
BEFORE = {
    "tools": (*_ANEW, _ANEW_WHY),
    "environment": (*_ANEW, _ANEW_WHY),
    "rollout": ("asks no rollout where transformers generate", "vLLM alone calls it there, with texts for prompts"),
}
NEEDS = {"tools": "tools need", "environment": "an environment needs"}


def check(context: Context) -> Iterator[Finding]:
    for key in PARAMETERS:
        if context.value(key) if key == "tools" else said_code(context, key) is not None:
            yield from _of_one(context, key)


def _of_one(context: Context, key: str) -> Iterator[Finding]:
    parameters, trl = context.facts.parameters("GRPOTrainer"), context.stack.version("trl")
    if parameters is None or trl is None:
        return
    parameter = PARAMETERS[key]
    fix = f"trl=={FIRST} or a newer one"
    if parameter not in parameters:
        because = [f"its GRPOTrainer takes no {parameter}"]
        yield context.finding(ID, f"trl {trl} has no {key}", key, because=because, fix=fix)
        return
    if is_within(trl, f"<{FIRST}"):
        message, why = BEFORE[key]
        yield context.finding(ID, f"trl {trl} {message}", key, because=[why], fix=fix)
        return
    environment = read_environment(context) if key == "environment" else None
    if environment is not None and "get_reward" in environment[1].methods and is_within(trl, f"<{OWNS_A_REWARD}"):
        yield context.finding(
            ID,
            f"trl {trl} takes get_reward of {environment[0].name} for a tool",
            key,
            because=["it tells the model of the method, and rewards nothing with what it returns"],
            fix=f"trl=={OWNS_A_REWARD} or a newer one",
        )
        return
    transformers, window = context.stack.version("transformers"), needed_transformers(key, trl)
    if window is not None and transformers is not None and not is_within(transformers, window):
        yield context.finding(
            ID,
            f"{NEEDS[key]} transformers {window.removeprefix('>=')}",
            key,
            because=[f"the stack has transformers {transformers}, with which GRPOTrainer raises ImportError"],
            fix=f"transformers=={window.removeprefix('>=')} or a newer one",
        )
        return
    if key in NEEDS and needs_jmespath(trl, transformers) and context.stack.version("jmespath") is None:
        yield _jmespath(context, key, trl, transformers)


def _jmespath(context: Context, key: str, trl: str, transformers: str | None) -> Finding:
    if not context.stack.is_known("jmespath"):
        message, because = "not checked: whether jmespath is installed", f"{context.stack.origin} does not say"
        return context.finding(ID, message, key, because=[because], severity="not-checked")
    return context.finding(
        ID,
        "jmespath is not installed",
        key,
        because=[f"trl {trl} reads tool calls with it on transformers {transformers}, and raises ImportError"],
        fix="pip install jmespath",
    )
