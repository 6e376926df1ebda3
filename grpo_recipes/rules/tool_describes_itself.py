"""A tool describes itself and each of its parameters.

transformers' `get_json_schema` builds the tool description for the model from the function's name, type hints and
docstring, when it renders the first prompts, after loading the model. It raises DocstringParsingException without a
docstring or without a line for a parameter under `Args:`, and TypeHintParsingException for a parameter without a type
hint or with one that has no JSON schema: your own class, a set, a path. Types are int, float, str, bool, list, dict,
tuples of a fixed length, Literal, Enum classes, and unions of them. Before 5.24, transformers does not read a line that
gives the type in brackets, `name (type): ...`. A missing description raises no error but leaves
the model to guess from the name. The rule cannot see how a decorator changes a function. Methods of an environment are
tools too, without their `self`.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.requirements import reads_types_in_docstrings
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import functions_for_model
from grpo_recipes.user_files.functions.docstring_texts import argument_texts, choices_not_read, description
from grpo_recipes.user_files.functions.documented import Documented

ID = "TOL003"
DOCSTRING = "transformers raises DocstringParsingException when the first prompts are rendered"
TYPE_HINT = "transformers raises TypeHintParsingException when the first prompts are rendered"


def check(context: Context) -> Iterator[Finding]:
    reads_types = reads_types_in_docstrings(context.stack.version("transformers"))
    for tool in functions_for_model(context):
        function, mark = tool.function, context.source.mark(tool.place)
        where = f"{tool.file}:{function.line}"
        for message, because, fix in slips(function, reads_types=reads_types):
            yield context.finding(f"{where}: {message}", tool.section, because, fix=fix, mark=mark)
        if function.text and not description(function.text):
            message = f"{where}: the docstring of {function.name} does not say what it does"
            why = "the model reads an empty description and sees only the name"
            yield context.finding(
                message, tool.section, why, fix="add a sentence above `Args:`", severity="warning", mark=mark
            )


def slips(function: Documented, *, reads_types: bool) -> Iterator[tuple[str, str, str]]:
    """message, because and fix for everything that is missing or unsupported, in the order in which it raises.

    reads_types: whether transformers reads `name (type): ...`.
    """
    name, kinds = function.name, ("plain", "positional only")
    parameters = [parameter for parameter in function.parameters if parameter.kind in kinds]
    if not function.text:
        entries = "".join(f" {parameter.name}: ..." for parameter in parameters)
        sections = f", then `Args:` with a line for each parameter:{entries}" if parameters else ""
        yield f"{name} has no docstring", DOCSTRING, f"add a docstring that says what it does{sections}"
    unhinted = [parameter.name for parameter in parameters if parameter.hint is None]
    if unhinted:
        fix = f"{unhinted[0]}: str, or its type"
        yield f"{name} has no type hint for {', '.join(unhinted)}", TYPE_HINT, fix
    for parameter in parameters:
        unsaid = function.unsaid(parameter)
        if unsaid is not None:
            fix = "int, float, str, bool, list[...], dict, Literal[...], an Enum class, or a union of them"
            yield f"the type hint of {parameter.name} has no JSON schema: {unsaid}", TYPE_HINT, fix
    if not function.text:
        return
    texts = argument_texts(function.text, reads_types=reads_types)
    silent = [parameter.name for parameter in parameters if parameter.name not in texts]
    if silent:
        typed = [] if reads_types else sorted({*silent} & argument_texts(function.text, reads_types=True).keys())
        fix = f"add a line `{silent[0]}: DESCRIPTION` below `Args:`"
        if typed:
            fix += f"; this transformers does not read `{typed[0]} (type): ...`, since the type hint gives the type"
        yield f"the docstring of {name} does not describe {', '.join(silent)}", DOCSTRING, fix
    for parameter in parameters:
        choices = choices_not_read(texts.get(parameter.name, ""))
        if choices is not None:
            because = "transformers reads them with json.loads, which raises when the first prompts are rendered"
            message = f"the choices of {parameter.name} are not a JSON list: {choices}"
            yield message, because, '(choices: ["tea", "coffee"])'
