"""Writes equal_rewards.md: of groups whose rewards never vary, which TRL counts as such, and what it trains on.

`python benchmarks/equal_rewards.py`, with the training stack; TRL's arithmetic is that of trl's grpo_trainer.py.
"""

from pathlib import Path

import torch
from trl import __version__
from trl.trainer.utils import nanstd

from grpo_recipes.worker._shared.equal_rewards import equal_groups

WEIGHTS = ((1.0, 0.5), (1.0, 0.2), (1.0, 0.3), (1.0, 0.4), (1.0, 0.05), (0.2,), (0.7,))
SIZES = (4, 8, 12, 16)
HEAD = """\
# Groups whose rewards never vary

Every reward function gives 1.0 to every completion, with the weights in the first column, so no group has variance.
"TRL" shows whether `frac_reward_zero_std` of trl {version} reports this, and the advantage that TRL trains; "here"
shows `groups_without_variance`. Written by `python benchmarks/equal_rewards.py` on a CPU; other devices round
differently.

| weights | {sizes} |
|---|{rules}|
"""


def of_trl(weights: torch.Tensor, size: int) -> tuple[bool, float]:
    """Whether TRL sees no variance in a group, and the largest advantage that it has then."""
    rewards = (torch.ones(size, len(weights)) * weights.unsqueeze(0)).nansum(dim=1).view(-1, size)
    deviation = nanstd(rewards, dim=1)
    advantages = (rewards - torch.nanmean(rewards, dim=1)) / (deviation + 1e-4)
    return bool(torch.isclose(deviation, torch.zeros_like(deviation))), float(advantages.abs().max())


def cell(weights: tuple[float, ...], size: int) -> str:
    """What both say of one group."""
    factors = torch.tensor(weights)
    is_seen, advantage = of_trl(factors, size)
    is_equal = bool(equal_groups(torch.ones(size, len(weights)), factors, size))
    return f"TRL {'yes' if is_seen else f'**no**, {advantage:.2g}'}; here {'yes' if is_equal else '**no**'}"


def main() -> None:
    """Writes the table."""
    sizes = " | ".join(f"groups of {size}" for size in SIZES)
    lines = [
        f"| {' + '.join(map(str, weights))} | {' | '.join(cell(weights, size) for size in SIZES)} |"
        for weights in WEIGHTS
    ]
    head = HEAD.format(version=__version__, sizes=sizes, rules="|".join("---" for _ in SIZES))
    Path(__file__).with_suffix(".md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
