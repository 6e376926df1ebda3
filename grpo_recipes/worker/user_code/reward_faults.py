"""What a reward did wrong, with its name, its line and the prompt: TRL's own errors say none of them."""

import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.user_code.contained import RAISED_IN, RewardLeft
from grpo_recipes.worker.user_code.outcome import NUMBERS, answer_taken, is_reward_file, place_of, text_of

_LONGEST_TEXT = 100
OF_THE_ROW = "the prompt of its row is "
_LONGEST_ERROR = 500
_NO_FILE = "no data file travels with a reward: give its absolute path as an option of the reward in the recipe"


def refuse_no_numbers(reward: str, found: Any, given: Mapping[str, Any]) -> None:
    """Raises Refused for an answer that TRL cannot take: it has one number or None for each completion.

    given: what the reward was called with. An answer without a length is left to TRL, who alone may go through it.
    """
    count = len(given["completions"])
    if isinstance(found, list | tuple) and len(found) == count:
        if all(value is None or type(value) in NUMBERS for value in found):
            return
    elif not hasattr(found, "__len__") and hasattr(found, "__iter__"):
        return
    wrong = answer_taken(found, count, nullcontext()).get("error")
    if wrong is None:
        return
    values = found if isinstance(found, list | tuple) and len(found) == count else []
    place = next((at for at, value in enumerate(values) if not isinstance(value, (*NUMBERS, type(None)))), 0)
    shown = f", and the answer for completion {place + 1} is {short_text(values[place])}" if values else ""
    raise Refused.of(
        f"reward {reward} returned {wrong}, not one number for each completion",
        because=[f"it was called with {count} completions{shown}", *_prompt(given, place)],
        fix="return [score(completion) for completion in completions], where score returns a number",
    )


def explained_reward(problem: BaseException, user: Path) -> tuple[Mistake, str] | None:
    """What a reward raised, as a mistake and as a traceback of its own lines; None where no reward raised it."""
    cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
    notes = [str(note) for note in getattr(problem, "__notes__", ()) if str(note).startswith(RAISED_IN)]
    if not notes and not isinstance(problem, RewardLeft):
        return None
    text = f"{type(cause).__name__}: {text_of(cause)}".rstrip(": ")[:_LONGEST_ERROR]
    message = str(problem) if not notes else f"{notes[0].removeprefix(RAISED_IN)} raised {text}"
    place = place_of(cause, str(user))
    own = cause.__traceback__
    while own is not None and not is_reward_file(own.tb_frame.f_code.co_filename, str(user)):
        own = own.tb_next
    said = "".join(traceback.format_exception(type(cause), cause, own or cause.__traceback__, chain=own is None))
    fix = _NO_FILE if isinstance(cause, FileNotFoundError) else None
    of_row = [note for note in getattr(cause, "__notes__", ()) if str(note).startswith(OF_THE_ROW)]
    return Mistake.of(message, because=[*([place] if place else []), *of_row], fix=fix), said


def _prompt(given: Mapping[str, Any], place: int) -> list[str]:
    prompts = given.get("prompts")
    return [f"the prompt of completion {place + 1} is {short_text(prompts[place])}"] if prompts else []


def short_text(value: object) -> str:
    """A value on one line; of a conversation the last message."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
