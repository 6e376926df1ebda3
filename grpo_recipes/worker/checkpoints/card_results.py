"""What a model card says of the held-out rows."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.metrics import figure, figures_of
from grpo_recipes.worker.checkpoints.card_text import code, table


def is_best(summary: Mapping[str, Any]) -> bool:
    """Whether a model is that of an earlier step than the last one of its run."""
    return summary.get("final_step") not in (None, summary["step"])


def held_out(summary: Mapping[str, Any]) -> list[str]:
    """The table of the held-out figures with their intervals, and how these were made."""
    evaluation = summary["evaluation"]
    heads = {"before": "before training", "after": "after training", "best": f"step {summary.get('final_step')}"}
    moments = [moment for moment in heads if moment in evaluation and (moment != "best" or is_best(summary))]
    if not moments:
        return []
    first, last = evaluation[moments[0]], evaluation[moments[-1]]
    columns = {heads[moment]: _texts(evaluation[moment], ".4f") for moment in moments}
    if (changed := last.get("change")) is not None:
        columns[f"change, {heads[moments[-1]]}"] = _texts(changed, "+.4f")
    names = dict.fromkeys(name for texts in columns.values() for name in texts)
    rows = [(name, *(texts.get(name, "none") for texts in columns.values())) for name in names]
    how = "most likely tokens" if first.get("greedy") else "sampled"
    many = f", {first['samples']} completions each" if first.get("samples") else ""
    parts = [f"Mean rewards on {first.get('count')} held-out rows{many}, {how}:", table(("", *columns), rows)]
    made = last.get("intervals")
    if made is not None:
        parts.append(
            f"In brackets the {made['level']:.0%} interval: {made['method']}, {made['resamples']} draws of seed "
            f"{made['seed']}. It is about other rows of this kind, not about another training."
        )
    if "passes" in last:
        passes = last["passes"]
        parts.append(f"A completion passes where {code(passes['reward'])} is {passes['at_least']:g} or more.")
    if "best" in moments:
        parts.append("The step was chosen by these same rows, so its figures are a little better than on others.")
    return parts


def _texts(event: Mapping[str, Any], shape: str) -> dict[str, str]:
    """The figures of an evaluation with their intervals, by name; those without a number are "none"."""
    known = {name: figure(value, ends, shape) for name, value, ends in figures_of(event, event.get("intervals") or {})}
    return {name: known.get(name, "none") for name in ("reward", *(event.get("rewards") or {}), *known)}
