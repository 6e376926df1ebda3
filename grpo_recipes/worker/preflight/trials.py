"""Makes the completions that rewards are tried on: right answers if there is a reference, empty ones, and garbage."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker.preflight._shared.reward_seen import (
    BOXED,
    EMPTY,
    EVERY_GOLD,
    GOLD,
    GOLD_AS_ASKED,
    GOLD_BOXED,
    GOLD_IN_TAGS,
    GOLD_SHORT,
    NOISE,
    OTHER,
    PREFILLED,
    RESPELLED,
    WORDS,
)
from grpo_recipes.worker.preflight._shared.seen import prompt_as_text
from grpo_recipes.worker.preflight.golds import find_gold
from grpo_recipes.worker.preflight.spellings import respelled

TAG = re.compile(r"<([A-Za-z_][\w-]*)>")
PLACEHOLDER = r"(?:<[a-z][\w ]*>|\[[a-z][\w ]*\]|NUMBER\b|[A-Z]\b)"
# "#### <number>", "Answer: N" and {"answer": <number>}, or a quoted beginning: "Choice: ".
FORM = re.compile(rf"(#{{2,}} ?|\b[A-Z][a-z]+(?: [a-z]+)?: ?|\{{\"\w+\": ?\"?){PLACEHOLDER}(\"?\}}|)")
BEGINNING = re.compile(r"['\"`]([^'\"`\n]{1,30}[:#] ?)['\"`]()")
BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
NUMBER, WORD = re.compile(r"-?\d+(?:[.,]\d+)*"), re.compile(r"(?<!\\)\b[A-Za-z]{3,}")
MOST_LISTED, MOST_LETTERS = 10, 30
FILLER = "because of the above"
VOCABULARY = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit"]
SIGNS = "@#%&*~^|<>[]{}()\\/\"'`;:!?.,_-+=0123456789 \n\té漢字🙂"


@dataclass(frozen=True, slots=True)
class Trials:
    """The completions for rewards. texts: by kind and row. gold: how right answers were made, "" without any.

    reference: the column they were made from; is_guess: see golds.Gold.
    """

    texts: dict[str, list[str]]
    gold: str
    reference: str | None
    is_guess: bool = False


def trials(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    rewards: tuple[Reward, ...],
    seed: int,
    prefills: Sequence[str] = (),
    user: Path | None = None,
) -> Trials:
    """Returns the completions for some rows. columns: those of the templates, preferred to the row's own.

    prefills: what each row's prompt contains of its answer. Right answers are what a model would write after it.
    user: the folder of the rewards' files.
    """
    drawn = random.Random(seed)
    prefills = prefills or ["" for _ in rows]
    texts = {
        EMPTY: ["" for _ in rows],
        WORDS: [" ".join(drawn.choices(VOCABULARY, k=drawn.randint(1, 40))) for _ in rows],
        NOISE: ["".join(drawn.choices(SIGNS, k=drawn.randint(1, 60))) for _ in rows],
    }
    answers = find_gold(rows, columns, rewards, user)
    right = texts[WORDS] if answers is None else answers.texts
    tags = _tags(rows, rewards)
    after = [_continue(text, tags, prefill) for text, prefill in zip(right, prefills, strict=True)]
    if any(prefills) and any(reward.kind in ("python", "package") for reward in rewards):
        texts[PREFILLED] = [prefill + text for prefill, text in zip(prefills, after, strict=True)]
    if answers is None:
        return Trials(texts, "", None)
    gold = {GOLD: [text.removeprefix(prefill.rstrip()) for text, prefill in zip(right, prefills, strict=True)]}
    words = answers.words
    if after != right:
        gold[GOLD_IN_TAGS] = after
        words += f", and in {' '.join(f'<{tag}>' for tag in tags)}" if tags else ", and after its thinking"
    short = [_short(text) for text in right]
    if short != right:
        gold[GOLD_SHORT] = [_continue(text, tags, prefill) for text, prefill in zip(short, prefills, strict=True)]
        words += ", and the answer that it ends with"
    if any(reward.kind == "shipped" and reward.target in BOXED for reward in rewards):
        gold[GOLD_BOXED] = [rf"\boxed{{{_bare(text)}}}" for text in short]
        words += r", and in \boxed{}"
    if form := _form_in_prompts(rows):
        gold[GOLD_AS_ASKED] = [f"{form[0]}{text}{form[1]}" for text in short]
        words += f", and as {form[0]}...{form[1]}"
    best = gold.get(GOLD_IN_TAGS, right)
    form = form or ("", "")

    def written(answers: Sequence[str]) -> list[str]:
        """Returns other answers as right ones are written: in the asked form, or else in tags."""
        framed = [f"{form[0]}{text}{form[1]}" for text in answers]
        return [_continue(text, tags, prefill) for text, prefill in zip(framed, prefills, strict=True)]

    distinct = sorted({*right} - {""})
    if (
        2 <= len(distinct) <= MOST_LISTED
        and 2 * len(distinct) <= len(right)
        and max(map(len, distinct)) <= MOST_LETTERS
    ):
        texts[EVERY_GOLD] = written([", ".join(distinct)] * len(rows))
    if (other := respelled(right, [prompt_as_text(row["prompt"]) for row in rows])) != right:
        texts[RESPELLED] = written(other)
    others = [next((best[j] for j in _from(i, len(rows)) if right[j] != right[i]), "") for i in range(len(rows))]
    if all(others):
        texts[OTHER] = others
    return Trials({**gold, **texts}, words, answers.reference, answers.is_guess)


def _short(text: str) -> str:
    """Returns the answer at the end of a worked solution, after #### or in \\boxed{}; else the text."""
    boxes = BOX.findall(text)
    return text.rpartition("####")[2].strip() if "####" in text else boxes[-1] if boxes else text


def _bare(text: str) -> str:
    """Returns an answer as it is written into \\boxed{}: the last number of a sentence, else without $ around it."""
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers and WORD.search(text) else text.strip().strip("$")


def _from(start: int, count: int) -> list[int]:
    return [(start + step) % count for step in range(1, count)]


def _form_in_prompts(rows: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """Returns what comes before and after an answer in the last form that every prompt asks for; None without one."""
    asked = [
        [
            (before, after)
            for pattern in (BEGINNING, FORM)
            for before, after in pattern.findall(prompt_as_text(row["prompt"]))
        ]
        for row in rows
    ]
    return (
        next((form for form in reversed(asked[0]) if all(form in others for others in asked)), None) if asked else None
    )


def _tags(rows: Sequence[dict[str, Any]], rewards: tuple[Reward, ...]) -> list[str]:
    """Returns the tags that a format reward expects, or else those that every prompt mentions."""
    for reward in rewards:
        if reward.kind == "shipped" and reward.target == "tag_format":
            wanted = reward.kwargs.get("tags")
            return [str(tag) for tag in wanted] if isinstance(wanted, list | tuple) else ["think", "answer"]
    if any(reward.target == "reasoning_gym" and reward.kwargs.get("answer_in") == "answer_tag" for reward in rewards):
        return ["answer"]
    named = [dict.fromkeys(TAG.findall(FORM.sub("", prompt_as_text(row["prompt"])))) for row in rows]
    return [tag for tag in named[0] if all(tag in others for others in named)] if named else []


def _continue(text: str, tags: list[str], prefill: str) -> str:
    """Returns what a model writes after the prefill: the text in the tag `answer`, or else in the last one.

    The other tags have filler. Tags that the prefill opened are only closed, and those that it closed are left out.
    """
    opened = [tag for tag in TAG.findall(prefill) if f"</{tag}>" not in prefill]
    own = "answer" if "answer" in tags else tags[-1] if tags else None
    parts = [f"{FILLER}\n</{tag}>" for tag in opened if tag not in tags]
    for tag in tags:
        if f"</{tag}>" not in prefill:
            begin = "" if tag in opened else f"<{tag}>\n"
            parts.append(f"{begin}{text if tag == own else FILLER}\n</{tag}>")
    return "\n".join(parts if tags else [*parts, text])
