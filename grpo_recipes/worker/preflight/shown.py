"""What a preflight shows beside its findings: figures, examples of prompts, and the table of rewards."""

import statistics
from typing import Any

from grpo_recipes.worker.preflight._shared.fault import cut
from grpo_recipes.worker.preflight._shared.reward_seen import GOLDS, RewardSeen, by_case, mean
from grpo_recipes.worker.preflight._shared.seen import Seen, prompt_as_text
from grpo_recipes.worker.preflight._shared.vocabulary import word
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length

EXAMPLES = 2
MOST_CHARACTERS = 1500


def shown(seen: Seen) -> dict[str, Any]:
    """As JSON values: lines of (name, text), examples of prompts, and rewards by kind of completion."""
    lines = [*_data(seen), *_prompts(seen), *_ends(seen)]
    return {"lines": lines, "examples": _examples(seen), "rewards": [_reward(reward) for reward in seen.rewards]}


def _data(seen: Seen) -> list[tuple[str, str]]:
    if seen.data is None:
        return []
    options, total = seen.options, seen.data.total
    per_epoch = options.steps_per_epoch(total)
    lines = [("rows", f"{total}, {len(seen.sample)} of them looked at closely")]
    if seen.held_out is not None:
        lines.append(("evaluation", f"{seen.held_out.total} rows"))
    if per_epoch:
        steps = options.max_steps
        all_steps = f"{steps} steps are {_short(steps / per_epoch)} epochs" if steps else f"{options.epochs:g} epochs"
        lines.append(
            ("steps", f"{per_epoch} in an epoch, {options.batch.prompts} prompts in a generation; {all_steps}")
        )
    return lines


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


def _reward(reward: RewardSeen) -> dict[str, Any]:
    call = reward.judged
    values = {case: mean(values) for case, values in by_case(call).items()} if call is not None else {}
    seconds = call.seconds / len(call.values) if call is not None else None
    return {"name": reward.name, "weight": reward.weight, "values": values, "seconds": seconds}
