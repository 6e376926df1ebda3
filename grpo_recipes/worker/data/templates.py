"""Renders a row of data into a prompt and columns with sandboxed jinja2 templates."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jinja2 import StrictUndefined, Template, pass_context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from grpo_recipes.contract.findings.finding import Path, mistake, path_text
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.limits import TooMuch, limit_block

Row = Mapping[str, Any]
Made = TypeVar("Made")
ANSWER = "warm_start_answer"
"""The column of the gold answers of a warm start."""
GOLD: Path = ("warm_start", "answer")
LONGEST_TEXT = 4 << 20
"""Maximum characters of a prompt or column, about as many as fit in a context of a million tokens."""
NULL = "an expression in it is null for this row"
IN_CSV = "in a CSV file, an empty cell and words such as None, NA and null are null"
LONGEST_POWER_BITS = 4096
ROWS_AT_ONCE = 32


class Sandbox(ImmutableSandboxedEnvironment):
    """A jinja2 sandbox that refuses huge powers, which Python computes without checking the time limit.

    Its filters `int` and `float` raise ValueError for a text without a number unless the template names a default.
    jinja2's own make it 0.
    """

    intercepted_binops = frozenset({"**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filters |= {name: _without_silent_default(name, self.filters[name]) for name in ("int", "float")}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > LONGEST_POWER_BITS:
            raise OverflowError(f"{left} ** {right} is too large")
        return super().call_binop(context, operator, left, right)


class NoNumber(ValueError):
    """A filter `int` or `float` got a text that is not a number."""

    def __init__(self, name: str, value: object) -> None:
        super().__init__(f"`{name}` finds no number in {value!r}")
        self.name, self.value = name, value

    def fix(self, template: str) -> str:
        """Returns what to write: the text without its separators, if that is a number."""
        text = str(self.value).strip()
        before = re.search(rf"\{{\{{\s*([^{{}}|]+?)\s*\|\s*{self.name}\b", template)
        if before is None or not re.fullmatch(r"[-+]?\d{1,3}([,_' ]\d{3})+(\.\d+)?", text):
            return f"correct the row, or leave it out with dataset.filter; {self.name}(0) makes 0 of it"
        mark = next(character for character in text.lstrip("+-") if not character.isdigit())
        return f"{{{{ {before[1]} | replace({mark!r}, '') | {self.name} }}}}, without its separators"


def _without_silent_default(name: str, convert: Callable[..., Any]) -> Callable[..., Any]:
    def convert_strictly(value: object, *default: Any, **named: Any) -> Any:
        if default or "default" in named:
            return convert(value, *default, **named)
        number = convert(value, None, **named)
        if number is None:
            raise NoNumber(name, value)
        return number

    return convert_strictly


def rows_renderer(data: Data, where: str) -> Callable[[Mapping[str, Sequence[Any]], Sequence[int]], dict[str, Any]]:
    """Returns a function that renders `prompt` and `data.columns` for rows and their indices, by column.

    where: the recipe section in messages, "dataset" or "evaluation". Rows are counted from 1 in messages. The function
    raises Refused for a row that cannot fill a template, and for a null in it. Each text has its own time limit; a few
    rows share a memory limit, since setting it takes longer than rendering a row.
    """
    environment = Sandbox(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=refuse_null, optimized=False
    )
    sources: dict[Path, str] = {_key(where, name): text for name, text in data.columns.items()}
    if data.prompt is not None:
        sources[where, "prompt"] = data.prompt
    templates = {
        path: compile_template(functools.partial(environment.from_string, text), path, text)
        for path, text in sources.items()
    }

    def render(columns: Mapping[str, Sequence[Any]], indices: Sequence[int]) -> dict[str, Any]:
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        made: list[dict[str, Any]] = []
        path: Path = (where,)
        while len(made) < len(rows):
            try:
                with limit_block() as restart_limits:
                    for row in rows[len(made) : len(made) + ROWS_AT_ONCE]:
                        texts = {}
                        for path, template in templates.items():
                            restart_limits()
                            texts[path] = _text(template, row)
                        made.append(_new_columns(data, where, texts, row, indices[len(made)]))
            except Refused:
                raise
            except (Exception, TooMuch) as problem:  # a template may raise anything
                has = f"the row has the columns {', '.join(sorted(columns))}"
                message = f"{path_text(path)}: row {indices[len(made)] + 1} cannot fill the template"
                why, fix = [str(problem), has], None
                if isinstance(problem, NoNumber):
                    fix = problem.fix(sources[path])
                elif str(problem) == NULL and (name := _name_of_null(rows[len(made)], sources[path])) is not None:
                    why += [IN_CSV] if data.format == "csv" else []
                    fix = _fix_of_null(where, path, name)
                refusal = mistake(message, seen=[_template(sources[path])], because=why, fix=fix, path=path)
                raise Refused(refusal) from problem
        return {name: [row[name] for row in made] for name in (*data.columns, "prompt")}

    return render


def _key(where: str, column: str) -> Path:
    """Returns the key of a column's template."""
    return GOLD if column == ANSWER else (where, "columns", column)


def _name_of_null(row: Row, template: str) -> str | None:
    """Returns the first column of the template that is null in the row."""
    return next((name for name, value in row.items() if value is None and re.search(rf"\b{name}\b", template)), None)


def _fix_of_null(where: str, path: Path, name: str) -> str:
    """Returns what to do with a null. dataset.filter leaves out no held-out rows; a reward compares with columns."""
    text, left_out = f"a text for null: {{{{ {name} or 'None' }}}}", f"filter: {{{{ {name} is not none }}}}"
    if where != "dataset":
        left_out = "leave the row out of the file, since dataset.filter keeps held-out rows"
    if path == GOLD:
        return f"{left_out} under dataset"
    if path[1:2] == ("columns",):
        return f"{left_out}; or {text}, if that is a right answer"
    return f"write {text}; or {left_out}"


def _new_columns(data: Data, where: str, texts: Mapping[Path, str], row: Row, index: int) -> dict[str, Any]:
    added: dict[str, Any] = {name: texts[_key(where, name)] for name in data.columns}
    prompt = texts[where, "prompt"] if data.prompt is not None else row["prompt"]
    if data.prompt is not None and data.prompt_format == "conversational":
        prompt = [{"role": "user", "content": prompt}]
    return {**added, "prompt": _with_system_prompt(prompt, data.system_prompt, where, index)}


def _with_system_prompt(prompt: Any, system_prompt: str | None, where: str, index: int) -> Any:
    if system_prompt is None:
        return prompt
    if isinstance(prompt, str):
        return f"{system_prompt}\n\n{prompt}"
    if prompt and prompt[0].get("role") == "system":
        key = "dataset.system_prompt" if where.startswith("evaluation") else f"{where}.system_prompt"
        raise Refused.of(
            f"{where}: row {index + 1} has a system message already",
            because=f"{key} would be a second one",
            fix=f"remove {key}",
        )
    return [{"role": "system", "content": system_prompt}, *prompt]


def compile_template(make: Callable[[], Made], path: Path, text: str) -> Made:
    """Returns make()'s result for a template at a key of the recipe. Raises Refused if it cannot be parsed."""
    try:
        with limit_block():
            made = make()
    except (Exception, TooMuch) as problem:
        message = f"{path_text(path)}: not a jinja2 template"
        refusal = mistake(message, seen=[_template(text)], because=str(problem), path=path)
        raise Refused(refusal) from problem
    if isinstance(made, Template):
        made.globals = dict(made.globals)  # a ChainMap: copying it is half of a row's time, and nothing changes it
    return made


def _text(template: Template, row: Row) -> str:
    filled = template.render(row)
    if len(filled) > LONGEST_TEXT:
        raise ValueError(f"its text has {len(filled):,} characters, and the maximum is {LONGEST_TEXT:,}")
    return filled


def _template(text: str) -> str:
    return f"= template: {text}"


@pass_context  # without it jinja2 would evaluate constants while compiling
def refuse_null(_: object, value: object) -> object:
    """Raises for a null, which would become the word None in a prompt."""
    if value is None:
        raise ValueError(NULL)
    return value


_TRIAL: tuple[Any, ...] = ([{"role": "user", "content": "Why is the sky blue?"}],)


def refuse_endless_template(processing: Any, prompts: Iterable[Any] = _TRIAL, arguments: Any = None) -> None:
    """Raises Refused if the chat template exceeds the limits for a prompt; other errors are raised where it is used.

    arguments: of GRPOConfig.
    """
    for prompt in prompts:
        if isinstance(prompt, str) or getattr(processing, "chat_template", None) is None:
            continue
        how = {
            "tokenize": False,
            "add_generation_prompt": True,
            **((arguments or {}).get("chat_template_kwargs") or {}),
        }
        try:
            with contextlib.suppress(Exception), limit_block():
                processing.apply_chat_template(prompt, **how)
        except TooMuch as problem:
            fix = "a model or run from somebody you trust, or tokenizer.chat_template_path with a template of your own"
            raise Refused.of("the chat template cannot render a prompt", because=str(problem), fix=fix) from None
