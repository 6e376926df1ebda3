"""Tools that the prompt tells the model to call exist.

The chat template describes the recipe's tools to the model. If the prompt or the system prompt says "use
lookup_city(name)" and the tool is called query_population, a model that follows the prompt calls a tool that does not
exist, and TRL answers with an error. Only words that are written as a call, and that follow use, call, invoke or tool,
count; Python's own functions do not.
"""

import builtins
import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import join_items, nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import code_of_section, methods_for_model, read_environments, tools_of_recipe

ID = "TOL018"
_CALL = re.compile(r"(?i)\b(?:use|using|call|calling|invoke|tools?)\b[^.;!?\n{}]{0,40}?\b([a-z_]\w*)\(")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)


def check(context: Context) -> Iterator[Finding]:
    environments = read_environments(context)
    if context.has_section("rollout") or any(environment.is_open for environment in environments.values()):
        return
    names = [tool.name for tool in tools_of_recipe(context)]
    names += [name for environment in environments.values() for name in methods_for_model(environment)]
    if not names or (code_of_section(context, "environment") is not None and not environments):
        return
    for key in ("dataset.system_prompt", "dataset.prompt"):
        text = context.value(key)
        called = _CALL.findall(_TEMPLATE.sub("", text)) if isinstance(text, str) else []
        for name in dict.fromkeys(called):
            if name not in names and not hasattr(builtins, name):
                near = nearest_words(name, names, cutoff=0.5)
                yield context.finding(
                    f"the prompt tells the model to call {name}, which is not a tool of the recipe",
                    key,
                    [f"the tools are {join_items(names)}", "TRL answers a call of another name with an error"],
                    fix=f"{near[0] if near else names[0]}, not {name}",
                    severity="warning",
                )
