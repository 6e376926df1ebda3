"""A rollout takes the prompts and the trainer.

TRL calls `rollout(prompts, trainer)` once for each generation of a process, with one prompt for each completion, and
uses the result immediately. A function with other parameters raises TypeError at the first generation, after loading
the model; from `async def` TRL gets a coroutine and raises AttributeError.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import code_of_section
from grpo_recipes.user_files.functions.documented import Documented, read_function
from grpo_recipes.user_files.local_files import name_list

ID = "TOL011"
KEY = "rollout.python"


def check(context: Context) -> Iterator[Finding]:
    code = code_of_section(context, "rollout")
    try:
        function = None if code is None else read_function(code.path, code.name)
    except (OSError, SyntaxError, ValueError):
        return
    if code is None or function is None or function.is_decorated:
        return
    why = _why_not(function)
    if why is not None:
        message = f"{code.file}:{function.line}: {code.name} {why}"
        because = "TRL calls it as a plain function with two positional arguments, the prompts and the trainer"
        yield context.finding(message, KEY, because, fix=f"def {code.name}(prompts, trainer)")


def _why_not(function: Documented) -> str | None:
    """Why a call with two values fails or returns a coroutine; None if it works."""
    if function.is_async:
        return "is asynchronous"
    by_place = [parameter for parameter in function.parameters if parameter.kind in ("positional only", "plain")]
    named = [parameter for parameter in function.parameters if parameter.kind == "*"]
    needed = [parameter.name for parameter in by_place if parameter.is_needed]
    if len(needed) > 2:
        return f"also needs {name_list(needed[2:])}"
    if len(by_place) < 2 and not named:
        return f"takes only {name_list([parameter.name for parameter in by_place]) or 'nothing'}"
    return None
