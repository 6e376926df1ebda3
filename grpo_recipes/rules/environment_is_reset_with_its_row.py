"""The environment's `reset` takes the columns of its row.

Before each completion TRL calls `reset` with every column of the row as a keyword, including the prompt, and adds the
result to the last message. A class without `reset` raises ValueError when the trainer is built. A column that `reset`
does not take, or a parameter that no column fills, raises TypeError at the first completion. TRL never awaits `async
def reset`. With a vLLM server, TRL requests all completions of a row at once, with the prompt of the first, so `reset`
must return the same text for all of them.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import SaidCode, read_environment
from grpo_recipes.rules._shared.training_rows import columns_at, held_out_sets, own_columns
from grpo_recipes.user_files.functions.classes import Method
from grpo_recipes.user_files.local_files import name_list

ID = "TOL009"
KEY = "environment.python"
REMOVES, MODE = "GRPOConfig.remove_unused_columns", "GRPOConfig.vllm_mode"
OPEN = "def reset(self, **row)"


def check(context: Context) -> Iterator[Finding]:
    environment = read_environment(context)
    if environment is None:
        return
    code, environment_class = environment
    if not environment_class.may_have("reset"):
        message = f"{code.file}:{environment_class.line}: {code.name} has no method reset"
        because = "TRL raises ValueError when it builds the trainer"
        yield context.finding(message, KEY, because, fix=f"{OPEN}, which begins a new completion")
    elif "reset" in environment_class.methods and not environment_class.methods["reset"].function.is_decorated:
        yield from _of_reset(context, code, environment_class.methods["reset"])


def _of_reset(context: Context, code: SaidCode, reset: Method) -> Iterator[Finding]:
    function = reset.function
    where = f"{code.file}:{function.line}"
    if function.is_async:
        because = ["TRL does not await it, and would add a coroutine to the prompt"]
        yield context.finding(f"{where}: reset is asynchronous", KEY, because, fix=OPEN)
        return
    columns = _columns(context)
    plain = [parameter for parameter in function.parameters if parameter.kind == "plain"]
    if columns is not None:
        missing = [parameter.name for parameter in plain if parameter.is_needed and parameter.name not in columns]
        if missing:
            message = f"{where}: reset reads column {name_list(missing)}, which the rows do not have"
            fix = f'columns: {{{missing[0]}: "{{{{ ... }}}}"}} under dataset, with the column that holds it'
            yield context.finding(message, KEY, f"TRL calls it with {name_list(sorted(columns))}", fix=fix)
        untaken = sorted(columns - {parameter.name for parameter in plain})
        if untaken and all(parameter.kind != "**" for parameter in function.parameters):
            message = f"{where}: reset does not take {name_list(untaken)}"
            why = "TRL calls it with every column of the row, which raises TypeError at the first completion"
            yield context.finding(message, KEY, why, fix="add **others as the last parameter")
    yield from _of_sets(context, where, [parameter.name for parameter in plain if parameter.is_needed])
    if reset.returns and context.value("GRPOConfig.use_vllm") is True and context.value(MODE) == "server":
        message = "the server uses the first prompt of a row for all its completions"
        reason = f"{where}: the result of reset becomes part of the prompt"
        fix = "return the same text for the same row, or vllm_mode: colocate"
        yield context.finding(message, MODE, reason, fix=fix, severity="warning")


def _of_sets(context: Context, where: str, needed: list[str]) -> Iterator[Finding]:
    """The findings for held-out rows in local files that lack what `reset` reads."""
    for name, of_set in held_out_sets(context) if context.value(REMOVES) is not True else ():
        own = columns_at(of_set, "evaluation.path")
        columns = None if own is None else own | frozenset(of_set.mapping("dataset.columns")) | {"prompt"}
        missing = [] if columns is None else [column for column in needed if column not in columns]
        if missing and columns is not None:
            which = f"held-out set {name} does" if name else "the held-out rows do"
            message = f"{where}: reset reads column {name_list(missing)}, which {which} not have"
            fix = f'columns: {{{missing[0]}: "{{{{ ... }}}}"}} {"in the set" if name else "under dataset"}'
            yield of_set.finding(message, "evaluation.path", f"TRL calls it with {name_list(sorted(columns))}", fix=fix)


def _columns(context: Context) -> frozenset[str] | None:
    """The columns that TRL calls `reset` with; None if unknown."""
    if context.value(REMOVES) is True:
        return None
    own = own_columns(context)
    return None if own is None else own | frozenset(context.mapping("dataset.columns")) | {"prompt"}
