"""Decides by the rewards' values whether guessed right answers are right, and lists rewards that got none."""

import re
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import (
    GARBAGE,
    GOLDS,
    OTHER,
    RewardSeen,
    by_case,
    mean,
    pays_golds,
)
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.trl_source import KEPT_COLUMNS, names_from_trl
from grpo_recipes.worker.preflight.golds import REFERENCES, columns_read
from grpo_recipes.worker.preflight.trials import Trials

# Columns that a completion should not have, by their names.
UNWANTED = re.compile("reject|forbid|bad|avoid|wrong|negativ|taboo|banned|harm|toxic|leak|secret|incorrect", re.I)


def judge_guess(inputs: Seen, made: Trials) -> None:
    """Keeps guessed right answers only if a reward pays them more than all other completions.

    Also if it would, were their column text instead of a number, or the reverse.
    """
    if not made.is_guess:
        return
    signs = {reward.name: _preference(reward) for reward in inputs.rewards}
    if any(sign > 0 for sign in signs.values()) or any(pays_golds(reward.retyped) for reward in inputs.rewards):
        return
    if made.reference is not None and not UNWANTED.search(made.reference):
        inputs.disliked = {name: made.reference for name, sign in signs.items() if sign < 0}
    inputs.gold, inputs.reference = "", None
    inputs.trial_texts = {case: texts for case, texts in made.texts.items() if case not in GOLDS and case != OTHER}


def _preference(reward: RewardSeen) -> int:
    """Returns 1 if a reward, with its weight, gives right answers the most of all, -1 for the least, else 0."""
    means = {} if reward.judged is None else {case: mean(of) or 0.0 for case, of in by_case(reward.judged).items()}
    golds = [reward.weight * means[case] for case in GOLDS if case in means]
    others = [reward.weight * means[case] for case in GARBAGE if case in means]
    if not golds or OTHER not in means or len({*golds, *others}) == 1:
        return 0
    return 1 if max(golds) > max(others) else -1 if max(golds) < min(others) else 0


def unknown_names(inputs: Seen, row: dict[str, Any], user: Path) -> dict[str, list[str]]:
    """Returns what functions that read no right answer read instead, although the rows have no such column.

    A parameter with a different name than a right answer may be an option with a default.
    """
    known = {*row, *KEPT_COLUMNS, *names_from_trl(), "environments", "prefills"}
    unknown = {}
    for reward, called in zip(inputs.plan.rewards, inputs.rewards, strict=True):
        read = columns_read(reward, user) if reward.kind == "python" else frozenset[str]()
        if inputs.reference not in read:
            unknown[reward.name] = sorted(read - known - ({*called.parameters} - {*REFERENCES}))
    return unknown


def untried(inputs: Seen, row: dict[str, Any], user: Path) -> list[str]:
    """Returns, for each function that reads columns and was called without right answers, what it reads."""
    columns = {*row} - {*KEPT_COLUMNS, *names_from_trl()}
    lines = []
    for reward in inputs.plan.rewards if not inputs.gold else ():
        read = sorted(columns & columns_read(reward, user)) if reward.kind == "python" else []
        if read and reward.name not in inputs.disliked:
            lines.append(f"{reward.name} with right answers: it reads {join_items(read)}, and none is known to be one")
    return lines
