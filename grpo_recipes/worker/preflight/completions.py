"""The completions that rewards are tried on: right ones where the data has a reference, empty ones, and garbage."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker.preflight._shared.reward_seen import EMPTY, GOLD, GOLD_IN_TAGS, NOISE, OTHER, WORDS
from grpo_recipes.worker.preflight._shared.seen import prompt_as_text

# Columns that are taken for the right answer, the first one that the rows have.
REFERENCES = ("solution", "answer", "ground_truth", "reference", "target", "label", "expected", "gold")
# Columns of such names that say to a shipped reward what is asked, which is no answer.
ASKED = {"countdown": "target", "follows_instruction": "ground_truth"}
TAG = re.compile(r"<([A-Za-z_][\w-]*)>")
FILLER = "because of the above"
VOCABULARY = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "do",
    "eiusmod",
    "tempor",
    "incididunt",
]
SIGNS = "@#%&*~^|<>[]{}()\\/\"'`;:!?.,_-+=0123456789 \n\té漢字🙂"


@dataclass(frozen=True, slots=True)
class Trials:
    """texts: for each kind of completion its text by row. gold: how the right ones were made, "" without any.

    reference: the column that they were made from.
    """

    texts: dict[str, list[str]]
    gold: str
    reference: str | None


def trials(rows: Sequence[dict[str, Any]], columns: Sequence[str], rewards: tuple[Reward, ...], seed: int) -> Trials:
    """The completions for some rows. columns: those of the templates, which win over the row's own."""
    drawn = random.Random(seed)
    texts = {
        EMPTY: ["" for _ in rows],
        WORDS: [" ".join(drawn.choices(VOCABULARY, k=drawn.randint(1, 40))) for _ in rows],
        NOISE: ["".join(drawn.choices(SIGNS, k=drawn.randint(1, 60))) for _ in rows],
    }
    asked = {ASKED.get(reward.target) for reward in rewards if reward.kind == "shipped"}
    reference = _reference(rows, columns, [name for name in REFERENCES if name not in asked])
    if reference is None:
        return Trials(texts, "", None)
    right = ["" if row.get(reference) is None else str(row[reference]) for row in rows]
    gold = {GOLD: right}
    words = f"column {reference} as it is"
    tags = _tags(rows, rewards)
    if tags:
        gold[GOLD_IN_TAGS] = [_tagged(text, tags) for text in right]
        words += f", and in {' '.join(f'<{tag}>' for tag in tags)}"
    best = gold[GOLD_IN_TAGS] if tags else right
    others = [next((best[j] for j in _from(i, len(rows)) if right[j] != right[i]), "") for i in range(len(rows))]
    if all(others):
        texts[OTHER] = others
    return Trials({**gold, **texts}, words, reference)


def _from(start: int, count: int) -> list[int]:
    return [(start + step) % count for step in range(1, count)]


def _reference(rows: Sequence[dict[str, Any]], columns: Sequence[str], names: Sequence[str]) -> str | None:
    for name in [*(name for name in names if name in columns), *names]:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str | int | float) and str(value).strip() for value in values):
            return name
    return None


def _tags(rows: Sequence[dict[str, Any]], rewards: tuple[Reward, ...]) -> list[str]:
    """The tags that a format reward wants, or else those that every prompt of the rows names."""
    for reward in rewards:
        if reward.kind == "shipped" and reward.target == "tag_format":
            wanted = reward.kwargs.get("tags")
            return [str(tag) for tag in wanted] if isinstance(wanted, list | tuple) else ["think", "answer"]
    if any(reward.target == "reasoning_gym" and reward.kwargs.get("answer_in") == "answer_tag" for reward in rewards):
        return ["answer"]
    named = [dict.fromkeys(TAG.findall(prompt_as_text(row["prompt"]))) for row in rows]
    return [tag for tag in named[0] if all(tag in others for others in named)] if named else []


def _tagged(text: str, tags: list[str]) -> str:
    """The text in the tag `answer`, or else in the last one; the others are filled with words."""
    own = "answer" if "answer" in tags else tags[-1]
    return "\n".join(f"<{tag}>\n{text if tag == own else FILLER}\n</{tag}>" for tag in tags)
