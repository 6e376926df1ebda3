"""TRL supports the recipe's tools, environment or rollout.

GRPOTrainer accepts `tools` since trl 0.26, and only transformers 5 parses tool calls: on older releases it raises
ImportError after loading the model. Before trl 1.10, and with transformers before 5.13, it needs jmespath for that. A
release without tools would train a different experiment, so the rule does not drop the tools. Before trl 1.0 the tokens
of all turns were recomputed from the messages, and may differ from those that were sampled.

GRPOTrainer accepts `environment_factory` since trl 0.29, with transformers 5.2, and before 1.8 treats an environment's
`get_reward` as a tool. It accepts `rollout_func` since trl 0.25, and before 1.0 calls it only if vLLM generates, with
prompts that are already strings.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.requirements import PARAMETERS, needs_jmespath, transformers_for
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import command_for
from grpo_recipes.rules._shared.said_tools import code_of_section, read_environment

ID = "TOL001"
FIRST = "1.0.0"
"""Older releases recompute the tokens of all turns, and call a rollout only with vLLM."""
OWNS_A_REWARD = "1.8.0"
"""The first release in which an environment's get_reward is a reward."""
_ANEW = ("does not train on the tokens that were sampled",)
_ANEW_WHY = "after a tool's reply it recomputes the tokens of all turns from the messages"
BEFORE = {
    "tools": (*_ANEW, _ANEW_WHY),
    "environment": (*_ANEW, _ANEW_WHY),
    "rollout": (
        "does not call a rollout if transformers generates",
        "before trl 1.0 only vLLM calls it, with strings as prompts",
    ),
}
NEEDS = {"tools": "tools need", "environment": "an environment needs"}


def check(context: Context) -> Iterator[Finding]:
    for key in PARAMETERS:
        if context.value(key) if key == "tools" else code_of_section(context, key) is not None:
            yield from _of_one(context, key)


def _of_one(context: Context, key: str) -> Iterator[Finding]:
    parameters, trl = context.facts.parameters("GRPOTrainer"), context.stack.version("trl")
    if parameters is None or trl is None:
        return
    parameter = PARAMETERS[key]
    fix = f"trl=={FIRST} or newer"
    if parameter not in parameters:
        because = [f"its GRPOTrainer does not take {parameter}"]
        yield context.finding(f"trl {trl} does not support {key}", key, because, fix=fix)
        return
    if is_within(trl, f"<{FIRST}"):
        message, why = BEFORE[key]
        yield context.finding(f"trl {trl} {message}", key, why, fix=fix)
        return
    environment = read_environment(context) if key == "environment" else None
    if environment is not None and "get_reward" in environment[1].methods and is_within(trl, f"<{OWNS_A_REWARD}"):
        message = f"trl {trl} treats get_reward of {environment[0].name} as a tool"
        reason = "it shows the method to the model and ignores its reward"
        yield context.finding(message, key, reason, fix=f"trl=={OWNS_A_REWARD} or newer")
        return
    transformers, window = context.stack.version("transformers"), transformers_for(key, trl)
    if window is not None and transformers is not None and not is_within(transformers, window):
        message = f"{NEEDS[key]} transformers {window.removeprefix('>=')}"
        reason = f"the stack has transformers {transformers}, and GRPOTrainer raises ImportError"
        yield context.finding(message, key, reason, fix=f"transformers=={window.removeprefix('>=')} or newer")
        return
    if key in NEEDS and needs_jmespath(trl, transformers) and context.stack.version("jmespath") is None:
        yield _jmespath(context, key, trl, transformers)


def _jmespath(context: Context, key: str, trl: str, transformers: str | None) -> Finding:
    if not context.stack.is_known("jmespath"):
        message, because = "not checked: whether jmespath is installed", f"{context.stack.origin} does not say"
        return context.not_checked(message, key, because)
    why = f"trl {trl} parses tool calls with it on transformers {transformers}, and raises ImportError"
    return context.finding("jmespath is not installed", key, why, fix=command_for(context.stack, ["jmespath"]))
