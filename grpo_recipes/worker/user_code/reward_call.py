"""Calls a reward function once and checks its result as TRL would. Runs where the reward runs."""

import asyncio
import inspect
import linecache
import math
import re
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.exchange_files import answer_of_part, write_answer
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code.isolation import RAISED_IN, RewardLeft, own_copy

NUMBERS = (float, int, bool)
MOST_CHARACTERS = 500
LARGEST_FLOAT32 = 3.4028234663852886e38
MISSING = re.compile(r"missing \d+ required .*?arguments?: (.*)$")
UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")


def call_reward(
    function: Any, given: dict[str, Any], count: int, user: str, importing: AbstractContextManager[Any]
) -> dict[str, Any]:
    """Returns a call's outcome: its kind, and its values, their fault or the exception. Catches everything.

    importing: entered for imports that are not part of the reward.
    """
    started = time.perf_counter()
    try:
        answer = function(**given)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_wait_for(answer))
        seconds = time.perf_counter() - started
        return {"seconds": seconds, **answer_taken(answer, count, importing)}
    except BaseException as problem:
        return {"seconds": time.perf_counter() - started, **outcome_of_exception(problem, user)}


def outcome_of_exception(problem: BaseException, user: str) -> dict[str, Any]:
    """Returns an exception as an outcome: its text, the user's line, and the parameters that a call lacked."""
    if isinstance(problem, RewardLeft) and problem.__cause__ is not None:
        problem = problem.__cause__  # the reward's name is reported separately
    own = text_of(problem)
    text = f"{type(problem).__name__}: {own}".rstrip(": ")[:MOST_CHARACTERS]
    line = place_of(problem, user)
    # Raised by the call of the function itself, not by a call inside it.
    is_of_the_call = isinstance(problem, TypeError) and not line
    missing = MISSING.search(own) if is_of_the_call else None
    unexpected = UNEXPECTED.search(own) if is_of_the_call else None
    return {
        "kind": "raised",
        "error": text,
        "place": line,
        "missing": re.findall(r"'(\w+)'", missing[1]) if missing else [],
        "unexpected": unexpected[1] if unexpected else "",
    }


def text_of(problem: BaseException) -> str:
    """Returns an exception's text, "" if its __str__ raises."""
    try:
        return str(problem)
    except Exception:
        return ""


def loading_failed(problem: BaseException, user: str) -> dict[str, Any]:
    """Returns the outcome for a reward that could not be loaded."""
    return {"shape": "own", "seconds": 0.0, **outcome_of_exception(problem, user)}


def place_of(problem: BaseException, user: str) -> str:
    """Returns the innermost line of the user's files, or of a shipped reward, as "rewards.py:12: its text"; or ""."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{Path(problem.filename).name}:{problem.lineno}: {(problem.text or '').strip()}".rstrip(": ")
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if is_reward_file(frame.filename, user)]
    if not own:
        return ""
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}: {line}".rstrip(": ")


def is_reward_file(file: str, user: str) -> bool:
    """Whether a source file is the user's, or a shipped reward."""
    return Path(file).parent == Path(user) or Path(file).parent.name == "rewards"


def parameters_of(function: Any, reward: Reward) -> list[str]:
    """Returns the names in the signature of the wrapped function, without those that the plan's keywords bind."""
    inner = inspect.getclosurevars(function).nonlocals.get("function", function)
    try:
        parameters = inspect.signature(inner).parameters.values()
    except (TypeError, ValueError):
        return []
    named = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    return [name for name in named if name not in reward.kwargs]


async def _wait_for(awaitable: Any) -> Any:
    return await awaitable


def answer_taken(answer: Any, count: int, importing: AbstractContextManager[Any]) -> dict[str, Any]:
    """Converts an answer as TRL does: iterate, None to NaN, count, float32 tensor."""
    what = type(answer).__name__
    try:
        values = [math.nan if value is None else value for value in answer]
    except TypeError:
        return _wrong(f"a single {what}" if isinstance(answer, NUMBERS) else what)
    if isinstance(answer, str | bytes | dict | set):  # the first of these are numbers or letters, or have no order
        return _wrong(what)
    if len(values) != count:
        return _wrong(f"{len(values)} values for {count} completions")
    if any(map(is_too_large, values)):
        return _wrong("an integer that is too large for a float")
    if all(type(value) in NUMBERS for value in values):
        return {"kind": "values", "values": [_single(value) for value in values]}
    if any(isinstance(value, str) for value in values):
        return _wrong(_kinds(values, what))
    with importing:
        import torch  # noqa: F401
    return _as_tensor(values, what)


def is_too_large(value: object) -> bool:
    """Whether a value is an integer for which torch raises OverflowError."""
    try:
        return isinstance(value, int) and not math.isfinite(value)
    except OverflowError:
        return True


def _as_tensor(values: list[Any], what: str) -> dict[str, Any]:
    """Converts rewards that are not plain numbers: a tensor's, NumPy's, or invalid ones."""
    import torch

    try:
        rewards = torch.zeros(len(values), 1)
        rewards[:, 0] = torch.tensor(values, dtype=torch.float32)
    except Exception:
        return _wrong(_kinds(values, what))
    return {"kind": "values", "values": [_single(value) for value in rewards[:, 0].tolist()]}


def _kinds(values: list[Any], what: str) -> str:
    return f"a {what} of {', '.join(sorted({type(value).__name__ for value in values}))}"


def _single(value: Any) -> float | None:
    """Returns a value in float32 precision, None for NaN; too large values become infinite, as in a tensor."""
    number = float(value)
    if math.isnan(number):
        return None
    return math.copysign(math.inf, number) if abs(number) > LARGEST_FLOAT32 else number


def _wrong(what: str) -> dict[str, Any]:
    return {"kind": "wrong", "error": what}


_LONGEST_TEXT = 100
OF_THE_ROW = "the prompt of its row is "
_OF_THE_COMPLETION = "it raises for the completion "
_MOST_TRIED_S = 10.0
_LONGEST_ERROR = 500
_OF_JINJA = ("<template>", "<unknown>")
"""The files in tracebacks of templates."""
_NO_FILE = "data files are not copied with a reward: pass the absolute path as an option of the reward in the recipe"


def refuse_no_numbers(reward: str, answer: Any, given: Mapping[str, Any]) -> None:
    """Raises Refused for an answer that TRL cannot use: it needs one number or None per completion.

    given: the reward's arguments. An answer without a length is not checked, since it can be iterated only once.
    """
    count = len(given["completions"])
    if isinstance(answer, list | tuple) and len(answer) == count:
        if all(value is None or (type(value) in NUMBERS and not is_too_large(value)) for value in answer):
            return
    elif not hasattr(answer, "__len__") and hasattr(answer, "__iter__"):
        return
    wrong = answer_taken(answer, count, nullcontext()).get("error")
    if wrong is None:
        return
    values = answer if isinstance(answer, list | tuple) and len(answer) == count else []
    wrongs = (not isinstance(value, (*NUMBERS, type(None))) or is_too_large(value) for value in values)
    index = next((at for at, is_wrong in enumerate(wrongs) if is_wrong), 0)
    shown = f", and the answer for completion {index + 1} is {short_text(values[index])}" if values else ""
    raise Refused.of(
        f"reward {reward} returned {wrong}, not one number for each completion",
        because=[f"it was called with {count} completions{shown}", *_prompt(given, index)],
        fix="return [score(completion) for completion in completions], where score returns a number",
    )


def explain_reward(problem: BaseException, user: Path) -> tuple[Mistake, str] | None:
    """Returns a reward's exception as a mistake and a traceback of the reward's lines; None if no reward raised it."""
    cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
    notes = [str(note) for note in getattr(problem, "__notes__", ()) if str(note).startswith(RAISED_IN)]
    if not notes and not isinstance(problem, RewardLeft):
        return None
    text = f"{type(cause).__name__}: {text_of(cause)}".rstrip(": ")[:_LONGEST_ERROR]
    message = str(problem) if not notes else f"{notes[0].removeprefix(RAISED_IN)} raised {text}"
    line = place_of(cause, str(user))
    own = cause.__traceback__
    while own is not None and not is_reward_file(own.tb_frame.f_code.co_filename, str(user)):
        own = own.tb_next
    trace = "".join(traceback.format_exception(type(cause), cause, own or cause.__traceback__, chain=own is None))
    fix = _NO_FILE if isinstance(cause, FileNotFoundError) else None
    known = (OF_THE_ROW, _OF_THE_COMPLETION)
    of_row = [note for note in getattr(cause, "__notes__", ()) if str(note).startswith(known)]
    return Mistake.of(message, because=[*([line] if line else []), *of_row], fix=fix), trace


def explain_template(problem: BaseException) -> Mistake | None:
    """Returns an exception that a chat template raised as a mistake, None for any other exception."""
    names = {frame.filename for frame in traceback.extract_tb(problem.__traceback__)}
    if type(problem).__module__ != "jinja2.exceptions" and names.isdisjoint(_OF_JINJA):
        return None
    because = " ".join(f"{type(problem).__name__}: {text_of(problem)}".split())[:_LONGEST_ERROR]
    fix = "prompts that the template accepts, or tokenizer.chat_template_path with a different template"
    return Mistake.of("the chat template rejects a prompt", because=because, fix=fix)


def note_completion(
    problem: Exception, reward: Callable[..., Any], given: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Notes the first completion for which a reward raises the same exception when called only with it.

    given, options: the reward's arguments; given has lists with one entry per completion. The search stops after ten
    seconds.
    """
    count, began = len(given["completions"]), time.monotonic()
    silent = {name: lambda *_: None for name in ("log_metric", "log_extra") if name in given}
    for index in range(count):
        if time.monotonic() - began > _MOST_TRIED_S:
            return
        arguments = {
            name: value[index : index + 1] if isinstance(value, list) and len(value) == count else value
            for name, value in given.items()
        }
        try:
            reward(**own_copy({**arguments, **silent, **options}))
        except type(problem) as again:
            if str(again) == str(problem):
                problem.add_note(f"{_OF_THE_COMPLETION}{short_text(given['completions'][index])}")
                problem.add_note(f"{OF_THE_ROW}{short_text((given.get('prompts') or [None] * count)[index])}")
                return
        except Exception:
            return


def answer_of(show: Callable[[], Mapping[str, Any]], here: Path, user: Path) -> int:
    """Writes the result or the error of a part of the worker into its folder. Returns 0, whatever the result.

    user: the folder of the run's code, since a reward may fail.
    """
    try:
        answer = answer_of_part(EXIT_DONE, shown=show())
    except Mistake as problem:
        answer = answer_of_part(EXIT_STOPPED if isinstance(problem, Refused) else EXIT_FAILED, problem.findings)
    except Exception as problem:
        of_reward = explain_reward(problem, user)
        mistake = explain_template(problem) if of_reward is None else of_reward[0]
        if mistake is None:
            raise
        answer = answer_of_part(EXIT_FAILED, mistake.findings)
    write_answer(here, answer)
    return 0


def _prompt(given: Mapping[str, Any], index: int) -> list[str]:
    prompts = given.get("prompts")
    return [f"the prompt of completion {index + 1} is {short_text(prompts[index])}"] if prompts else []


def short_text(value: object) -> str:
    """Returns a value on one line; for a conversation, the last message."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    if isinstance(value, int) and is_too_large(value):  # Python refuses to write its digits
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
