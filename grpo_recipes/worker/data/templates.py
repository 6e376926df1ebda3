"""A row of data becomes a prompt and columns, through sandboxed jinja2 templates."""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, pass_context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from grpo_recipes.contract.findings.finding import Path, dotted, mistake
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.data.bounded import TooMuch, bounded

Row = Mapping[str, Any]
LONGEST_TEXT = 4 << 20
"""Characters of a prompt or column; a context of a million tokens holds about as many."""
LONGEST_POWER_BITS = 4096


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox without powers of thousands of digits: while it computes one, Python looks at no clock."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > LONGEST_POWER_BITS:
            raise OverflowError(f"{left} ** {right} is too large")
        return super().call_binop(context, operator, left, right)


def row_renderer(data: Data, where: str) -> Callable[[Row, int], dict[str, Any]]:
    """The function that gives the new columns of a row and its index: `prompt`, and those of `data.columns`.

    where: the recipe section in messages, "dataset" or "evaluation". Rows are counted from 1 in messages.
    The function raises Refused for a template that a row cannot fill, and for a null in it.
    """
    environment = _Sandbox(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_refuse_null, optimized=False
    )
    sources: dict[Path, str] = {(where, "columns", name): text for name, text in data.columns.items()}
    if data.prompt is not None:
        sources[where, "prompt"] = data.prompt
    templates = {path: _compiled(environment, path, text) for path, text in sources.items()}

    def render(row: Row, index: int) -> dict[str, Any]:
        texts = {path: _filled(template, sources[path], path, row, index) for path, template in templates.items()}
        added: dict[str, Any] = {name: texts[where, "columns", name] for name in data.columns}
        prompt = texts[where, "prompt"] if data.prompt is not None else row["prompt"]
        if data.prompt is not None and data.prompt_format == "conversational":
            prompt = [{"role": "user", "content": prompt}]
        return {**added, "prompt": _with_system_prompt(prompt, data.system_prompt, where, index)}

    return render


def _with_system_prompt(prompt: Any, system_prompt: str | None, where: str, index: int) -> Any:
    if system_prompt is None:
        return prompt
    if isinstance(prompt, str):
        return f"{system_prompt}\n\n{prompt}"
    if prompt and prompt[0].get("role") == "system":
        raise Refused.of(
            f"{where}: row {index + 1} has a system message already",
            because=f"{where}.system_prompt would be a second one",
            fix=f"remove {where}.system_prompt",
        )
    return [{"role": "system", "content": system_prompt}, *prompt]


def _compiled(environment: ImmutableSandboxedEnvironment, path: Path, text: str) -> Template:
    try:
        with bounded():
            return environment.from_string(text)
    except (Exception, TooMuch) as problem:
        message = f"{dotted(path)}: not a jinja2 template"
        told = mistake(message, seen=[_template(text)], because=str(problem), path=path)
        raise Refused(told) from problem


def _filled(template: Template, text: str, path: Path, row: Row, index: int) -> str:
    try:
        with bounded():
            filled = template.render(dict(row))
        if len(filled) > LONGEST_TEXT:
            raise ValueError(f"its text has {len(filled):,} characters, and {LONGEST_TEXT:,} are the most")
        return filled
    except (Exception, TooMuch) as problem:  # a template may raise whatever the expressions in it raise
        columns = f"the row has the columns {', '.join(sorted(row))}"
        message = f"{dotted(path)}: row {index + 1} cannot fill the template"
        told = mistake(message, seen=[_template(text)], because=[str(problem), columns], path=path)
        raise Refused(told) from problem


def _template(text: str) -> str:
    return f"= template: {text}"


@pass_context  # without it jinja2 would compute what is constant while it compiles
def _refuse_null(_: object, value: object) -> object:
    """A null would become the word None in a prompt."""
    if value is None:
        raise ValueError("an expression of it is null in this row")
    return value
