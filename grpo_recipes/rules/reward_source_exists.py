"""Each reward names one source, which exists and can be called by TRL.

Each reward has exactly one of `name` (shipped), `python` (file.py:function or module:function), `model` and `judge`.
TRL calls a reward function with keywords: prompts, completions, completion_ids, every column of the data set,
trainer_state and more with each release; a function without **kwargs fails with TypeError at the first reward, after
the first generation. grpo-run reads Python files and never runs them before you consent, which also covers imported
files in the same folder. The rule follows a name through `a = b`, functools.partial, objects of a class and these
files. It does not check rewards that another call or another package creates, although TRL can call them. An option
that a function neither has as a parameter nor reads from its **kwargs changes nothing. A shipped reward is called with
its options and without completions, and refuses a pattern, a number or a script that it cannot use; code_tests, which
needs a sandbox, does so in preflight.
"""

import ast
import os
from collections.abc import Iterator
from types import NoneType

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, Severity
from grpo_recipes.contract.findings.wording import flow, nearest_words, value_text
from grpo_recipes.facts.reward_keywords import rewards_of_trl
from grpo_recipes.rewards.catalog import LENGTH_OPTIONS, Signature, shipped_reward, shipped_rewards, why_options_refused
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.schemas.other_names import Row, reward_row
from grpo_recipes.user_files.functions.called_definition import called_definition
from grpo_recipes.user_files.functions.definitions import (
    CALLED_WITH,
    Definition,
    function_of,
    module_of,
    reads_any_keyword,
)
from grpo_recipes.user_files.local_files import name_list, near_path
from grpo_recipes.user_files.reward_imports import modules_beside, names_module

ID = "RWD001"
LONGEST = "GRPOConfig.max_completion_length"
# What a recipe may write for an option, by its annotation. The reward itself knows which numbers and texts it takes.
KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "int | None": (int, NoneType),
    "bool": (bool,),
    "bool | None": (bool, int, NoneType),
    "str": (str,),
    "Sequence[str]": (list,),
    "Sequence[str] | None": (list, NoneType),
}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", list: "a list"}


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        path: Path = ("rewards", index)
        sources = [kind for kind in ("name", "python", "model", "judge") if reward.get(kind) is not None]
        if len(sources) != 1:
            yield _at(
                context,
                path,
                f"rewards[{index}] has {'no source' if not sources else ' and '.join(sources)}",
                because=["a reward needs exactly one of name, python, model and judge"],
                fix=f"keep {sources[0]}, and remove {' and '.join(sources[1:])}" if sources else "name: exact_match",
                patch=[Patch((*path, kind), remove=True) for kind in sources[1:]],
            )
        elif sources == ["name"]:
            yield from _check_shipped(context, path, reward)
        elif sources == ["python"] and not names_module(str(reward["python"])):
            yield from _python(context, path, reward)


def _at(
    context: Context,
    path: Path,
    message: str,
    *,
    because: list[str],
    fix: str | None = None,
    patch: list[Patch] | None = None,
    severity: Severity = "error",
) -> Finding:
    mark = context.source.mark(path)
    return context.finding(message, "rewards", because, fix=fix, patch=patch or (), severity=severity, mark=mark)


def _check_shipped(context: Context, path: Path, reward: dict[str, object]) -> Iterator[Finding]:
    name = str(reward["name"])
    signature = shipped_reward(name)
    if signature is None:
        if name in rewards_of_trl(context.stack.version("trl")):
            right = f"trl.rewards:{name}"
            yield _at(
                context,
                (*path, "name"),
                f"grpo-run ships no reward {name}, but TRL does",
                because=["name is for grpo-run's own rewards; use python for a package"],
                fix=f"python: {right}",
                patch=[Patch((*path, "name"), remove=True), Patch((*path, "python"), right)],
            )
            return
        elsewhere = reward_row(name)
        if elsewhere is not None:
            yield _of_another_program(context, path, name, *elsewhere)
            return
        catalog = shipped_rewards()
        likely = (close := nearest_words(name, catalog, cutoff=0.7)) or [each for each in catalog if name in each]
        yield _at(
            context,
            (*path, "name"),
            f"grpo-run ships no reward {name}",
            because=[f"grpo-run ships {', '.join(sorted(catalog))}"],
            fix=f"name: {likely[0]}" if likely else f"python: rewards.py:{name}",
            patch=[Patch((*path, "name"), close[0])] if close else [],
        )
        return
    given = reward.get("options")
    options = given if isinstance(given, dict) else {}
    wrong = list(_options(context, path, name, signature, options))
    yield from wrong or (_try_options(context, (*path, "options"), name, options) if options else ())


def _of_another_program(context: Context, path: Path, name: str, program: str, row: Row) -> Finding:
    rewards = [{key: value for key, value in reward.items() if key != "weight"} for reward in row["rewards"]]
    is_plain = len(rewards) == 1 and list(rewards[0]) == ["name"]
    return _at(
        context,
        (*path, "name"),
        f"grpo-run ships no reward {name}",
        because=[f"{name} is a reward of {program}: {row['because']}"],
        fix=f"write {', '.join(flow(reward) for reward in row['rewards'])}" if not is_plain else flow(rewards[0])[1:-1],
        patch=[Patch((*path, "name"), rewards[0]["name"])] if is_plain else [],
    )


def _options(
    context: Context, path: Path, name: str, signature: Signature, options: dict[str, object]
) -> Iterator[Finding]:
    known = (*signature.required, *signature.options)
    for option in options:
        if option not in (*known, *signature.columns):
            near = next(iter(nearest_words(option, [each for each in known if each not in options], cutoff=0.6)), None)
            renamed = [] if near is None else [Patch((*path, "options", near), options[option])]
            yield _at(
                context,
                (*path, "options", option),
                f"reward {name} has no option {option}",
                because=[f"its options are {', '.join(known)}" if known else "it has no options"],
                fix=f"remove {option}" if near is None else f"write it as {near}",
                patch=[Patch((*path, "options", option), remove=True), *renamed],
            )
    for option, value in options.items():
        kinds = KINDS.get(signature.kinds.get(option, ""), (object,))
        if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds and bool not in kinds):
            yield _at(
                context,
                (*path, "options", option),
                f"option {option} of reward {name} must be {WORDS[kinds[0]]}, not {value_text(value)}",
                because=[f"its options are {', '.join(known)}"],
            )
    for option in signature.required:
        if option not in options:
            yield _at(
                context,
                path,
                f"reward {name} needs the option {option}",
                because=[signature.doc],
                fix=f"options: {{{option}: ...}}",
            )


def _try_options(context: Context, path: Path, name: str, options: dict[str, object]) -> Iterator[Finding]:
    """The finding for options that the reward itself refuses."""
    if name in LENGTH_OPTIONS and options.get(LENGTH_OPTIONS[name]) is None:
        options = {**options, LENGTH_OPTIONS[name]: context.whole(LONGEST)}
    try:
        problem = why_options_refused(name, options)
    except ModuleNotFoundError as missing:
        why = [f"it needs {missing.name}, which is not installed here"]
        yield _at(context, path, f"not checked: the options of {name}", because=why, severity="not-checked")
        return
    if problem is not None:
        why = ["it raises ValueError at the first reward, after the first generation"]
        is_longer = problem.startswith("soft_punish_cache") and "is more than" in problem
        fix = "soft_punish_cache: a fifth of max_completion_len, as in DAPO" if is_longer else None
        yield _at(context, path, f"reward {name} refuses its options: {problem}", because=why, fix=fix)


def _python(context: Context, path: Path, reward: dict[str, object]) -> Iterator[Finding]:
    file, _, name = str(reward["python"]).rpartition(":")
    key_path = (*path, "python")
    absolute = os.path.normpath(os.path.join(context.source.directory(key_path), file))
    try:
        target = called_definition(absolute, name)
    except OSError as error:
        near = near_path(file, absolute) if isinstance(error, FileNotFoundError) else None
        fix = f"python: {near}:{name}, if you meant that" if near else "a path relative to the recipe"
        yield _at(context, key_path, f"{file}: {error.strerror or error}", because=[f"looked for {absolute}"], fix=fix)
        return
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else error
        yield _at(context, key_path, f"{file}{line}: {text}", because=["the file is not Python source"])
        return
    if target is None:
        functions, is_bound = module_of(absolute).callables, name in module_of(absolute).bound
        close = nearest_words(name, functions, cutoff=0.5) if not is_bound else []
        yield _at(
            context,
            key_path,
            f"{file} has no function {name}",
            because=[
                *([f"{name} in it is not a function"] if is_bound else []),
                f"its functions are {name_list(functions)}" if functions else "it has no functions",
            ],
            fix=f"python: {file}:{close[0]}" if close else None,
            patch=[Patch(key_path, f"{file}:{close[0]}")] if close else [],
        )
        return
    yield from _definition(context, key_path, name, target, reward)
    try:
        modules_beside(absolute)
    except (OSError, ValueError) as error:
        text = (error.strerror if isinstance(error, OSError) else None) or str(error)
        because = ["a run copies everything that a reward imports from its folder into the run folder"]
        fix = "move its code into the file or its folder, or install the package elsewhere"
        yield _at(context, key_path, text, because=because, fix=fix)


def _definition(
    context: Context, key_path: Path, name: str, target: Definition | str, reward: dict[str, object]
) -> Iterator[Finding]:
    if isinstance(target, str):
        yield _at(
            context,
            key_path,
            f"not checked: how {name} is called; its source does not show it",
            because=[target],
            severity="not-checked",
        )
    elif isinstance(target.node, ast.ClassDef):
        if not (target.node.bases or target.node.keywords or target.decorators or _is_gone_through(target.node)):
            yield _at(
                context,
                key_path,
                f"{name} is a class, but TRL calls a function or an object",
                because=["calling the class creates an object, not a list of numbers", f"it is defined at {target.at}"],
                fix=f"write {name.lower()}_reward = {name}() in the file, and {name.lower()}_reward in the recipe",
            )
    elif not target.decorators:
        yield from _signature(context, key_path, name, target, reward)


def _is_gone_through(node: ast.ClassDef) -> bool:
    """Whether calling the class may give something that TRL can iterate over."""
    return any(isinstance(each, ast.FunctionDef) and each.name in ("__new__", "__iter__") for each in node.body)


def _signature(
    context: Context, path: Path, name: str, target: Definition, reward: dict[str, object]
) -> Iterator[Finding]:
    assert not isinstance(target.node, ast.ClassDef)
    function = function_of(target.node)
    if function.positional_only:
        yield _at(
            context,
            path,
            f"{name} accepts {', '.join(function.positional_only)} only by position",
            because=["TRL calls reward functions with keywords", f"it is declared at {target.at}"],
            fix="remove the / from its parameters",
        )
    if not function.takes_any_keyword:
        missing = ", ".join(word for word in CALLED_WITH if word not in function.parameters)
        signature = ", ".join([*function.parameters, "**kwargs"])
        right = f"def {getattr(target.node, 'name', '')}({signature})"
        yield _at(
            context,
            path,
            f"{name} has no **kwargs",
            because=[f"TRL also passes {missing and f'{missing} and '}every column", f"it is declared at {target.at}"],
            fix=f"lambda {signature}: ..." if isinstance(target.node, ast.Lambda) else right,
        )
    options = reward.get("options")
    given = set(options) if isinstance(options, dict) else set()
    unknown = sorted(given - set(function.parameters))
    if unknown and function.takes_any_keyword and not reads_any_keyword(target.node):
        yield _at(
            context,
            (*path[:-1], "options", unknown[0]),
            f"{name} does not read its option {', '.join(unknown)}",
            because=[f"its **kwargs takes it, and no line of {target.at} reads them"],
            fix=f"a parameter {unknown[0]} of {name}, or remove the option",
            severity="warning",
        )
    unknown += sorted(target.bound - set(function.parameters))
    if unknown and not function.takes_any_keyword:
        yield _at(
            context,
            path,
            f"{name} has no parameter {', '.join(unknown)}",
            because=[f"its parameters are {', '.join(function.parameters)}"],
        )
