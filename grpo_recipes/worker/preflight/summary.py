"""Builds the parts of a preflight's output besides findings: figures, example prompts, and the table of rewards."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from grpo_recipes.worker._shared.inputs import IMAGES, decode_images
from grpo_recipes.worker.data.checked_rows import ENVIRONMENT
from grpo_recipes.worker.data.gold_rows import GoldRow, passes_of
from grpo_recipes.worker.preflight._shared.reward_seen import (
    GOLDS,
    TRAINED,
    JudgeSeen,
    RewardSeen,
    by_case,
    by_row,
    cut,
    mean,
)
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, prompt_as_text
from grpo_recipes.worker.preflight._shared.tokens import note_of_text_rows, word
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length

EXAMPLES = 2
MOST_CHARACTERS = 1500


def summarize(inputs: Seen) -> dict[str, Any]:
    """Returns, as JSON values, lines of (name, text), example prompts, and rewards by kind of completion."""
    lines = [*_data(inputs), *_prompts(inputs), *_ends(inputs), *_golds(inputs), *_environment(inputs)]
    lines += [("not tried", text) for text in inputs.untried]
    rewards = [_reward(inputs, reward) for reward in inputs.rewards]
    return {
        "lines": lines,
        "counted": _prompt_counts(inputs),
        "tools": _tools(inputs),
        "examples": _examples(inputs),
        "played": _play_values(inputs),
        "rewards": rewards,
        "judges": [_judge(inputs, judge) for judge in inputs.judges if judge.question],
    }


def _data(inputs: Seen) -> list[tuple[str, str]]:
    if inputs.data is None:
        return []
    options, total = inputs.options, inputs.data.total
    per_epoch = options.steps_per_epoch(total)
    lines = [("rows", f"{total}, {len(inputs.sample)} of them examined closely")]
    lines += _rows_left_out(inputs)
    if inputs.data.has_images:
        lines.append(("images", _images(inputs.data, inputs.sample)))
    for rows in inputs.held_out:
        name = rows.where.partition(".sets.")[2]
        lines.append(("evaluation", f"{f'{name}: ' if name else ''}{rows.total} rows"))
    if per_epoch and not inputs.plan.sources:
        steps = options.max_steps
        all_steps = f"{steps} steps are {_short(steps / per_epoch)} epochs" if steps else f"{options.epochs:g} epochs"
        lines.append(
            ("steps", f"{per_epoch} in an epoch, {options.batch.prompts} prompts in a generation; {all_steps}")
        )
    return lines


def _images(rows: Rows, sample: Sequence[int]) -> str:
    """Returns how many images the sampled rows have, and their sizes in pixels."""
    shown = [decode_images(rows.rows[index])[IMAGES] for index in sample]
    sizes = sorted((image.size for of_row in shown for image in of_row), key=lambda size: (math.prod(size), size))
    counts = sorted({len(of_row) for of_row in shown})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    size = " to ".join(f"{wide} x {high}" for wide, high in dict.fromkeys(sizes[:1] + sizes[-1:]))
    note = note_of_text_rows(rows.rows)
    return f"{each} per row{size and f', {size} pixels'}; their tokens count as part of the prompts{note}"


def _rows_left_out(inputs: Seen) -> list[tuple[str, str]]:
    """Returns how many rows a filter and a limit leave out, and the first ones with the reason."""
    left_out = None if inputs.data is None else inputs.data.left_out
    if left_out is None:
        return []
    examples = [("", f"row {index + 1}: {reason}") for index, reason in left_out.examples]
    return [("left out", left_out.words(inputs.plan.data.max_prompt_tokens)), *examples]


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _prompts(inputs: Seen) -> list[tuple[str, str]]:
    if not inputs.lengths:
        return []
    low, middle, high = min(inputs.lengths), statistics.median(inputs.lengths), max(inputs.lengths)
    text = f"{low} to {high} tokens, median {middle:g}"
    if inputs.data is not None and len(inputs.lengths) < len(inputs.data.prompts):
        text += f", of {len(inputs.lengths)} prompts"
    context = "unknown" if inputs.context is None else str(inputs.context)
    return [("prompts", f"{text}; completions up to {max_completion_length(inputs)}; context {context}")]


def _prompt_counts(inputs: Seen) -> dict[str, int] | None:
    """Returns the longest prompt and the most pixel values of a row, for memory estimates."""
    if not (lengths := inputs.lengths) or inputs.data is None:
        return None
    return {"longest": max(lengths), "counted": len(lengths), "rows": inputs.data.total, "pixels": inputs.pixels}


def _ends(inputs: Seen) -> list[tuple[str, str]]:
    if inputs.ends is None:
        return []
    prefills = {text for text in inputs.prefills if text}
    lines = [("prefill", f"{text!r}, with which prompts begin the answer") for text in sorted(prefills)[:1]]
    ids = (*inputs.ends.tokens, *inputs.ends.stop_token_ids)
    lines += [("ends", " ".join(word(inputs.tokenizer, token) for token in ids))]
    for stop in inputs.ends.stops:
        count = len(inputs.tokenizer(stop, add_special_tokens=False)["input_ids"])
        inside = sum(stop in text for text in inputs.texts)
        where = f", also in {inside} of {len(inputs.texts)} prompts, which are not searched" if inside else ""
        lines.append(("stop", f"{stop!r}, {count} token{'s' if count != 1 else ''}{where}"))
    return lines


def _golds(inputs: Seen) -> list[tuple[str, str]]:
    """Returns the length of a warm start, and of its gold completions."""
    lengths = [len(gold.completion) for gold in inputs.golds if isinstance(gold, GoldRow)]
    if not lengths or inputs.plan.warm_start is None or inputs.data is None:
        return []
    passes = _short(passes_of(inputs.plan, inputs.data.total))
    steps = f"{inputs.plan.warm_start.steps} steps, {passes} passes over the rows"
    return [("warm start", f"{steps}, on answers of {min(lengths)} to {max(lengths)} tokens")]


def _examples(inputs: Seen) -> list[dict[str, Any]]:
    if inputs.data is None:
        return []
    examples = []
    for index, row in enumerate(inputs.sample[:EXAMPLES]):
        text = inputs.texts[index] if index < len(inputs.texts) else prompt_as_text(inputs.data.prompts[row])
        right = {case: texts[index] for case, texts in inputs.trial_texts.items() if case in GOLDS}
        gold = inputs.golds[index] if index < len(inputs.golds) else None
        if gold is not None:
            text = f"none, it {gold}" if isinstance(gold, str) else inputs.tokenizer.decode(gold.completion)
            right[TRAINED] = text
        cut_text = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
        examples.append(
            {
                "row": inputs.data.number(row),
                "prompt": cut_text,
                "gold": {case: cut(text, 200) for case, text in right.items()},
            }
        )
    return examples


def _environment(inputs: Seen) -> list[tuple[str, str]]:
    if inputs.tools is None:
        return []
    each = inputs.tools_of or {"": inputs.tools}
    lines = []
    for name, tools in each.items() if inputs.plan.all_environments else ():
        environment = inputs.plan.environment_class or inputs.plan.environment_classes[name]
        if tools.resets:
            seconds = sum(reset.seconds for reset in tools.resets) / len(tools.resets)
            lines.append(
                ("environment", f"{environment.name}, reset for {len(tools.resets)} rows, {seconds * 1e3:.2g} ms each")
            )
    return lines


def _tools(inputs: Seen) -> list[dict[str, Any]]:
    """Returns each tool as described to the model."""
    described = inputs.tools.tools if inputs.tools is not None else ()
    return [{"name": tool.name, "schema": tool.schema} for tool in described]


def _play_values(inputs: Seen) -> dict[str, Any] | None:
    """Returns the calls with their answers, and the completion's rewards on the first row; None without tools."""
    if inputs.tools is None or inputs.data is None or not inputs.sample:
        return None
    rewards = {reward.name: _of_played(reward) for reward in inputs.rewards if PLAYED in _cases(reward)}
    if inputs.plan.environment_class is not None and inputs.tools.get_reward is not None:
        rewards[inputs.plan.environment_class.name] = inputs.tools.get_reward
    own = str(inputs.data.rows[inputs.sample[0]].get(ENVIRONMENT))
    if own in inputs.tools_of and inputs.tools_of[own].get_reward is not None:
        rewards[own] = inputs.tools_of[own].get_reward
    return {
        "row": inputs.data.number(inputs.sample[0]),
        "scripted": inputs.tools.scripted,
        "calls": [
            {
                "tool": call.tool,
                "arguments": call.arguments,
                "answer": call.text[:MOST_CHARACTERS],
                "failed": bool(call.by),
                "turn": call.is_turn,
                "seconds": call.seconds,
            }
            for call in inputs.tools.calls
        ],
        "answer": next(iter(inputs.trial_texts.get(PLAYED, [])), None) if inputs.tools.has_end else None,
        "tokens": inputs.played_tokens,
        "rewards": rewards,
        "judges": [_judge(inputs, judge) for judge in inputs.judges if judge.question],
    }


def _cases(reward: RewardSeen) -> dict[str, list[float | None]]:
    return by_case(reward.judged) if reward.judged is not None else {}


def _of_played(reward: RewardSeen) -> float | None:
    """Returns the played completion's value on the first row."""
    return _cases(reward)[PLAYED][0]


def _judge(inputs: Seen, judge: JudgeSeen) -> dict[str, Any]:
    assert inputs.data is not None
    row = inputs.data.number(inputs.sample[0])
    question, answer = (text[:MOST_CHARACTERS] for text in (judge.question, judge.answer))
    fields = {"question": question, "answer": answer, "score": judge.score}
    return {"name": judge.name, "at": judge.at, "row": row, **fields}


def _reward(inputs: Seen, reward: RewardSeen) -> dict[str, Any]:
    call = reward.judged
    each = {} if call is None else by_case(call)
    if call is not None and TRAINED in each:
        each[TRAINED] = [
            of_row[TRAINED] for row, of_row in by_row(call).items() if isinstance(inputs.golds[row], GoldRow)
        ]
    values = {case: mean(values) for case, values in each.items()}
    seconds = call.seconds / len(call.values) if call is not None else None
    return {"name": reward.name, "weight": reward.weight, "values": values, "seconds": seconds}
