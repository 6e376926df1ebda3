"""Builds the parts of a preflight's output besides findings: figures, example prompts, and the table of rewards."""

import math
import random
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.inputs import IMAGES, decoded
from grpo_recipes.worker.data.unreadable_rows import ENVIRONMENT
from grpo_recipes.worker.preflight._shared.reward_seen import (
    EMPTY,
    GOLD,
    GOLD_IN_TAGS,
    GOLDS,
    NOISE,
    OTHER,
    WORDS,
    JudgeSeen,
    RewardSeen,
    by_case,
    cut,
    mean,
)
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, prompt_as_text
from grpo_recipes.worker.preflight._shared.tokens import told_of_text, word
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length

EXAMPLES = 2
MOST_CHARACTERS = 1500


def shown(seen: Seen) -> dict[str, Any]:
    """Returns, as JSON values, lines of (name, text), example prompts, and rewards by kind of completion."""
    lines = [*_data(seen), *_prompts(seen), *_ends(seen), *_environment(seen)]
    rewards = [_reward(reward) for reward in seen.rewards]
    return {
        "lines": lines,
        "counted": _counted(seen),
        "tools": _tools(seen),
        "examples": _examples(seen),
        "played": _played(seen),
        "rewards": rewards,
        "judges": [_judge(seen, judge) for judge in seen.judges if judge.question],
    }


def _data(seen: Seen) -> list[tuple[str, str]]:
    if seen.data is None:
        return []
    options, total = seen.options, seen.data.total
    per_epoch = options.steps_per_epoch(total)
    lines = [("rows", f"{total}, {len(seen.sample)} of them examined closely")]
    lines += _left_out(seen)
    if seen.data.has_images:
        lines.append(("images", _images(seen.data, seen.sample)))
    for rows in seen.held_out:
        name = rows.where.partition(".sets.")[2]
        lines.append(("evaluation", f"{f'{name}: ' if name else ''}{rows.total} rows"))
    if per_epoch and not seen.plan.sources:
        steps = options.max_steps
        all_steps = f"{steps} steps are {_short(steps / per_epoch)} epochs" if steps else f"{options.epochs:g} epochs"
        lines.append(
            ("steps", f"{per_epoch} in an epoch, {options.batch.prompts} prompts in a generation; {all_steps}")
        )
    return lines


def _images(rows: Rows, sample: Sequence[int]) -> str:
    """Returns how many images the sampled rows have, and their sizes in pixels."""
    shown = [decoded(rows.rows[place])[IMAGES] for place in sample]
    sizes = sorted((image.size for of_row in shown for image in of_row), key=lambda size: (math.prod(size), size))
    counts = sorted({len(of_row) for of_row in shown})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    size = " to ".join(f"{wide} x {high}" for wide, high in dict.fromkeys(sizes[:1] + sizes[-1:]))
    told = told_of_text(rows.rows)
    return f"{each} per row{size and f', {size} pixels'}; their tokens count as part of the prompts{told}"


def _left_out(seen: Seen) -> list[tuple[str, str]]:
    """Returns how many rows a filter and a limit leave out, and the first ones with the reason."""
    left_out = None if seen.data is None else seen.data.left_out
    if left_out is None:
        return []
    examples = [("", f"row {place + 1}: {reason}") for place, reason in left_out.examples]
    return [("left out", left_out.words(seen.plan.data.max_prompt_tokens)), *examples]


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _prompts(seen: Seen) -> list[tuple[str, str]]:
    if not seen.lengths:
        return []
    low, middle, high = min(seen.lengths), statistics.median(seen.lengths), max(seen.lengths)
    text = f"{low} to {high} tokens, median {middle:g}"
    if seen.data is not None and len(seen.lengths) < len(seen.data.prompts):
        text += f", of {len(seen.lengths)} prompts"
    context = "unknown" if seen.context is None else str(seen.context)
    return [("prompts", f"{text}; completions up to {max_completion_length(seen)}; context {context}")]


def _counted(seen: Seen) -> dict[str, int] | None:
    """Returns the longest prompt and the most pixel values of a row, for memory estimates."""
    if not seen.lengths or seen.data is None:
        return None
    return {"longest": max(seen.lengths), "counted": len(seen.lengths), "rows": seen.data.total, "pixels": seen.pixels}


def _ends(seen: Seen) -> list[tuple[str, str]]:
    if seen.ends is None:
        return []
    ids = (*seen.ends.tokens, *seen.ends.stop_token_ids)
    lines = [("ends", " ".join(word(seen.tokenizer, token) for token in ids))]
    for stop in seen.ends.stops:
        count = len(seen.tokenizer(stop, add_special_tokens=False)["input_ids"])
        inside = sum(stop in text for text in seen.texts)
        where = f", also in {inside} of {len(seen.texts)} prompts, which are not searched" if inside else ""
        lines.append(("stop", f"{stop!r}, {count} token{'s' if count != 1 else ''}{where}"))
    return lines


def _examples(seen: Seen) -> list[dict[str, Any]]:
    if seen.data is None:
        return []
    found = []
    for place, row in enumerate(seen.sample[:EXAMPLES]):
        text = seen.texts[place] if place < len(seen.texts) else prompt_as_text(seen.data.prompts[row])
        right = {case: texts[place] for case, texts in seen.trial_texts.items() if case in GOLDS}
        cut_text = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
        found.append(
            {
                "row": seen.data.number(row),
                "prompt": cut_text,
                "gold": {case: cut(text, 200) for case, text in right.items()},
            }
        )
    return found


def _environment(seen: Seen) -> list[tuple[str, str]]:
    if seen.tools is None:
        return []
    each = seen.tools_of or {"": seen.tools}
    found = []
    for name, tools in each.items() if seen.plan.all_environments else ():
        one = seen.plan.environment_class or seen.plan.environment_classes[name]
        if tools.resets:
            seconds = sum(reset.seconds for reset in tools.resets) / len(tools.resets)
            found.append(
                ("environment", f"{one.name}, reset for {len(tools.resets)} rows, {seconds * 1e3:.2g} ms each")
            )
    return found


def _tools(seen: Seen) -> list[dict[str, Any]]:
    """Returns each tool as described to the model."""
    described = seen.tools.tools if seen.tools is not None else ()
    return [{"name": one.name, "schema": one.schema} for one in described]


def _played(seen: Seen) -> dict[str, Any] | None:
    """Returns the calls with their answers, and the completion's rewards on the first row; None without tools."""
    if seen.tools is None or seen.data is None or not seen.sample:
        return None
    rewards = {reward.name: _of_played(reward) for reward in seen.rewards if PLAYED in _cases(reward)}
    if seen.plan.environment_class is not None and seen.tools.get_reward is not None:
        rewards[seen.plan.environment_class.name] = seen.tools.get_reward
    own = str(seen.data.rows[seen.sample[0]].get(ENVIRONMENT))
    if own in seen.tools_of and seen.tools_of[own].get_reward is not None:
        rewards[own] = seen.tools_of[own].get_reward
    return {
        "row": seen.data.number(seen.sample[0]),
        "scripted": seen.tools.scripted,
        "calls": [
            {
                "tool": call.tool,
                "arguments": call.arguments,
                "answer": call.text[:MOST_CHARACTERS],
                "failed": bool(call.by),
                "turn": call.is_turn,
                "seconds": call.seconds,
            }
            for call in seen.tools.calls
        ],
        "answer": next(iter(seen.trial_texts.get(PLAYED, [])), None) if seen.tools.has_end else None,
        "tokens": seen.played_tokens,
        "rewards": rewards,
        "judges": [_judge(seen, judge) for judge in seen.judges if judge.question],
    }


def _cases(reward: RewardSeen) -> dict[str, list[float | None]]:
    return by_case(reward.judged) if reward.judged is not None else {}


def _of_played(reward: RewardSeen) -> float | None:
    """Returns the played completion's value on the first row."""
    return _cases(reward)[PLAYED][0]


def _judge(seen: Seen, judge: JudgeSeen) -> dict[str, Any]:
    assert seen.data is not None
    row = seen.data.number(seen.sample[0])
    question, answer = (text[:MOST_CHARACTERS] for text in (judge.question, judge.answer))
    said = {"question": question, "answer": answer, "score": judge.score}
    return {"name": judge.name, "at": judge.at, "row": row, **said}


def _reward(reward: RewardSeen) -> dict[str, Any]:
    call = reward.judged
    values = {case: mean(values) for case, values in by_case(call).items()} if call is not None else {}
    seconds = call.seconds / len(call.values) if call is not None else None
    return {"name": reward.name, "weight": reward.weight, "values": values, "seconds": seconds}


# Makes the completions that rewards are tried on: right answers if there is a reference, empty ones, and garbage.


# Columns that may have the right answer; the first one present is used.
REFERENCES = ("solution", "answer", "ground_truth", "reference", "target", "label", "expected", "gold")
# Columns with such names that give a shipped reward the task, not the answer.
ASKED = {"countdown": "target", "follows_instruction": "ground_truth"}
TAG = re.compile(r"<([A-Za-z_][\w-]*)>")
FILLER = "because of the above"
VOCABULARY = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit"]
SIGNS = "@#%&*~^|<>[]{}()\\/\"'`;:!?.,_-+=0123456789 \n\té漢字🙂"


@dataclass(frozen=True, slots=True)
class Trials:
    """The completions for rewards. texts: by kind and row. gold: how right answers were made, "" without any.

    reference: the column they were made from.
    """

    texts: dict[str, list[str]]
    gold: str
    reference: str | None


def trials(rows: Sequence[dict[str, Any]], columns: Sequence[str], rewards: tuple[Reward, ...], seed: int) -> Trials:
    """Returns the completions for some rows. columns: those of the templates, preferred to the row's own."""
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
    """Returns the tags that a format reward expects, or else those that every prompt mentions."""
    for reward in rewards:
        if reward.kind == "shipped" and reward.target == "tag_format":
            wanted = reward.kwargs.get("tags")
            return [str(tag) for tag in wanted] if isinstance(wanted, list | tuple) else ["think", "answer"]
    if any(reward.target == "reasoning_gym" and reward.kwargs.get("answer_in") == "answer_tag" for reward in rewards):
        return ["answer"]
    named = [dict.fromkeys(TAG.findall(prompt_as_text(row["prompt"]))) for row in rows]
    return [tag for tag in named[0] if all(tag in others for others in named)] if named else []


def _tagged(text: str, tags: list[str]) -> str:
    """Returns the text in the tag `answer`, or else in the last one, with filler in the others."""
    own = "answer" if "answer" in tags else tags[-1]
    return "\n".join(f"<{tag}>\n{text if tag == own else FILLER}\n</{tag}>" for tag in tags)
