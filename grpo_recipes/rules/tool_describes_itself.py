"""A tool says what it does and what each parameter is.

What the model reads of a tool is made of its name, type hints and docstring by `get_json_schema` of transformers, when
the first prompts are rendered, after the model was loaded. It raises DocstringParsingException without a docstring or
without a line for a parameter under `Args:`, and TypeHintParsingException for a parameter without a type hint or with
one that no JSON schema is made of: a class of your own, a set, a path. Types are int, float, str, bool, list, dict,
tuples of a fixed length, Literal, Enum classes, and unions of them. A description that is missing raises nothing, and
leaves the model to guess from the name. What a decorator makes of a function is not read. Methods of an environment are
tools too, without their `self`.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import told_functions
from grpo_recipes.user_files.functions.documented import Documented
from grpo_recipes.user_files.functions.tool_text import (
    argument_texts,
    description,
    has_type_in_brackets,
    unread_choices,
)

ID = "TOL003"
DOCSTRING = "transformers raises DocstringParsingException for it when the first prompts are rendered"
TYPE_HINT = "transformers raises TypeHintParsingException for it when the first prompts are rendered"


def check(context: Context) -> Iterator[Finding]:
    for told in told_functions(context):
        function, mark = told.function, context.source.mark(told.place)
        where = f"{told.file}:{function.line}"
        for message, because, fix in slips(function):
            yield context.finding(ID, f"{where}: {message}", told.section, because=[because], fix=fix, mark=mark)
        if function.text and not description(function.text):
            yield context.finding(
                ID,
                f"{where}: the docstring of {function.name} does not say what it does",
                told.section,
                because=["the model reads an empty description, and has the name alone to go by"],
                fix="a sentence above `Args:`",
                severity="warning",
                mark=mark,
            )


def slips(function: Documented) -> Iterator[tuple[str, str, str]]:
    """message, because and fix of all that is missing or cannot be said, in the order of what is raised."""
    name, parameters = function.name, [one for one in function.parameters if one.kind in ("plain", "positional only")]
    if not function.text:
        entries = "".join(f" {one.name}: ..." for one in parameters)
        sections = f", then a line `Args:` and one for each parameter:{entries}" if parameters else ""
        yield f"{name} has no docstring", DOCSTRING, f"a docstring that says what it does{sections}"
    unhinted = [one.name for one in parameters if not one.has_hint]
    if unhinted:
        fix = f"{unhinted[0]}: str, or whatever it is"
        yield f"{name} has no type hint for {', '.join(unhinted)}", TYPE_HINT, fix
    for one in parameters:
        if one.unsaid is not None:
            fix = "int, float, str, bool, list[...], dict, Literal[...], an Enum class, or a union of them"
            yield f"the type hint of {one.name} cannot be told to a model: {one.unsaid}", TYPE_HINT, fix
    if not function.text:
        return
    said = argument_texts(function.text)
    silent = [one.name for one in parameters if one.name not in said]
    if silent:
        bracketed = next((one for one in silent if has_type_in_brackets(function.text, one)), None)
        fix = f"a line `{silent[0]}: what it is` below `Args:`"
        fix += f"; `{bracketed} (type): ...` is not read, the type hint says the type" if bracketed else ""
        yield f"the docstring of {name} says nothing of {', '.join(silent)}", DOCSTRING, fix
    for one in parameters:
        choices = unread_choices(said.get(one.name, ""))
        if choices is not None:
            because = (
                "transformers reads them with json.loads, which raises for them when the first prompts are rendered"
            )
            yield f"the choices of {one.name} are no list of JSON: {choices}", because, '(choices: ["tea", "coffee"])'
