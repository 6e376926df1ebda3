"""An environment has instance methods that the model can call.

The model calls public methods of its completion's object. Some releases of TRL treat a static or class method as a tool
and others do not, and it has no access to the completion's state. A method without `self` raises at every call. Without
any methods, nothing happens between reset and reward. TRL calls `get_reward` without arguments; its reward has the
class's name and weight 1. If one of the recipe's rewards has the same name, every metric mixes the two up.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import OF_TRL, SaidCode, methods_for_model, read_environment
from grpo_recipes.user_files.functions.classes import Method
from grpo_recipes.user_files.local_files import name_list
from grpo_recipes.user_files.reward_imports import reward_names

ID = "TOL010"
KEY = "environment.python"


def check(context: Context) -> Iterator[Finding]:
    environment = read_environment(context)
    if environment is None:
        return
    code, environment_class = environment
    called = methods_for_model(environment_class)
    for name, method in environment_class.methods.items():
        if name in called or name in OF_TRL:
            yield from _of_method(context, code, name, method)
    if not called and not environment_class.is_open and not context.value("tools"):
        message = f"{code.file}:{environment_class.line}: {code.name} has no method that the model can call"
        because = "its public methods other than reset and get_reward are tools, and it has no others"
        yield context.finding(message, KEY, because, fix="a method with type hints and a docstring", severity="warning")
    if "get_reward" in environment_class.methods:
        function = environment_class.methods["get_reward"].function
        where = f"{code.file}:{function.line}"
        needed = [parameter.name for parameter in function.parameters if parameter.is_needed]
        if needed and not function.is_decorated:
            message = f"{where}: get_reward requires {name_list(needed)}"
            because = "TRL calls it without arguments, which raises TypeError at the first reward"
            yield context.finding(
                message, KEY, because, fix="def get_reward(self) -> float, reading the object's state"
            )
        names = reward_names(context.items("rewards"))
        if code.name in names:
            yield context.finding(
                f"a reward of the recipe has the same name as the environment's: {code.name}",
                "rewards",
                f"{where}: the environment's reward has the name of its class",
                fix="give the class another name",
                mark=context.source.mark(("rewards", names.index(code.name))),
            )


def _of_method(context: Context, code: SaidCode, name: str, method: Method) -> Iterator[Finding]:
    where = f"{code.file}:{method.function.line}"
    if method.bound_to != "object":
        kind = "a static method" if method.bound_to == "nothing" else "a class method"
        message = f"{where}: {name} is {kind}"
        why = "only some releases of TRL treat it as a tool, and it has no access to a completion's state"
        yield context.finding(
            message, KEY, why, fix=f"def {name}(self, ...), or _{name} if the model should not call it"
        )
    elif not method.takes_self:
        because = ["Python passes the object at every call, and the method raises TypeError"]
        yield context.finding(f"{where}: {name} takes no self", KEY, because, fix=f"def {name}(self, ...)")
