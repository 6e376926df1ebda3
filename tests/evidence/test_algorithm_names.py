"""The settings that stand for an algorithm's name, by gradients of the real TRL beside each paper's own formula.

The formulas go over one completion at a time, in float64, and take nothing from TRL.
"""

from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import pytest
from library import Library

from grpo_recipes.schemas.other_names import algorithm_row

pytestmark = pytest.mark.stack

LENGTHS = (3, 6, 2, 5)
LONGEST = 6
ADVANTAGES = (1.3, -0.7, 0.4, -1.0)
DEFAULTS = {"loss_type": "dapo", "importance_sampling_level": "token", "epsilon": 0.2, "epsilon_high": None}


def _inputs() -> tuple[Any, Any, Any]:
    """Log-probabilities before and now, and the mask of tokens; some ratios leave each window."""
    import torch

    generator = torch.Generator().manual_seed(7)
    old = -torch.rand(len(LENGTHS), LONGEST, generator=generator, dtype=torch.float64) - 0.1
    moved = torch.randn(len(LENGTHS), LONGEST, generator=generator, dtype=torch.float64) * 0.3
    mask = torch.tensor([[place < length for place in range(LONGEST)] for length in LENGTHS]).double()
    return old, (old + moved).requires_grad_(), mask


def _trl(settings: dict[str, object], *, is_on_policy: bool = False) -> Any:
    """The gradient of TRL's own loss by the log-probabilities."""
    import torch
    from support.tracing.bare_trainer import bare_trainer

    old, now, mask = _inputs()
    values = {**DEFAULTS, **settings}
    trainer = bare_trainer(
        torch.nn.Linear(1, 1), {"accumulation": 1, "beta": 0.0, "completion": LONGEST, "autocast": None}
    )
    trainer.loss_type = values["loss_type"]
    trainer.importance_sampling_level = values["importance_sampling_level"]
    trainer.epsilon_low = values["epsilon"]
    trainer.epsilon_high = values["epsilon_high"] or values["epsilon"]
    trainer.args.delta = values.get("delta")
    for name, value in {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "vespo_k_pos": 2.0}.items():
        setattr(trainer.args, name, value)
    trainer.args.vespo_lambda_pos, trainer.args.vespo_k_neg, trainer.args.vespo_lambda_neg = 3.0, 3.0, 2.0
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (now, torch.zeros_like(now.detach()), None)
    ids = torch.zeros(len(LENGTHS), LONGEST, dtype=torch.long)
    batch = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": torch.tensor(ADVANTAGES, dtype=torch.float64),
        "old_per_token_logps": now.detach() if is_on_policy else old,
        "num_items_in_batch": mask.sum(),
    }
    (gradient,) = torch.autograd.grad(trainer._compute_loss(trainer.model, batch), now)
    return gradient


def _formula(of_one: Callable[[Any, Any, float], Any], divisor: float = 1.0) -> Any:
    """The gradient of a loss that is a sum over completions."""
    import torch

    old, now, _ = _inputs()
    ones = [
        of_one(now[row, :length], old[row, :length], advantage)
        for row, (length, advantage) in enumerate(zip(LENGTHS, ADVANTAGES, strict=True))
    ]
    (gradient,) = torch.autograd.grad(-sum(ones) / divisor, now)
    return gradient


def _clipped(ratio: Any, advantage: float, low: float, high: float) -> Any:
    import torch

    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def _gspo(now: Any, old: Any, advantage: float) -> Any:
    return _clipped((now - old).mean().exp(), advantage, 3e-4, 4e-4)


def _gspo_unclipped(now: Any, old: Any, advantage: float) -> Any:
    return (now - old).mean().exp() * advantage


def _gspo_token(now: Any, old: Any, advantage: float) -> Any:
    ratio = (now - old).mean().exp().detach() * (now - now.detach()).exp()
    return (_clipped(ratio, advantage, 3e-4, 4e-4)).mean()


def _dapo(now: Any, old: Any, advantage: float) -> Any:
    return _clipped((now - old).exp(), advantage, 0.2, 0.28).sum()


def _dr_grpo(now: Any, old: Any, advantage: float) -> Any:
    return _clipped((now - old).exp(), advantage, 0.2, 0.2).sum()


def _cispo(now: Any, old: Any, advantage: float) -> Any:
    return ((now - old).exp().clamp(max=5.0).detach() * advantage * now).sum()


def _sapo(now: Any, old: Any, advantage: float) -> Any:
    import torch

    temperature = 1.0 if advantage > 0 else 1.05
    return (torch.sigmoid(temperature * ((now - old).exp() - 1)) * 4 / temperature * advantage).mean()


def _vespo(now: Any, old: Any, advantage: float) -> Any:
    k, rate = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
    ratio = (now - old).sum().exp().detach()
    return (ratio**k * (rate * (1 - ratio)).exp() * advantage * now).sum()


def _luspo(now: Any, old: Any, advantage: float) -> Any:
    return len(now) * _clipped((now - old).mean().exp(), advantage, 0.2, 0.2)


TOKENS, COMPLETIONS = float(sum(LENGTHS)), float(len(LENGTHS))
FORMULAS = [
    ("gspo", _gspo, COMPLETIONS),
    ("gspo_token", _gspo_token, COMPLETIONS),
    ("dapo", _dapo, TOKENS),
    ("bnpo", _dr_grpo, TOKENS),
    ("dr_grpo", _dr_grpo, COMPLETIONS * LONGEST),
    ("cispo", _cispo, TOKENS),
    ("sapo", _sapo, COMPLETIONS),
    ("vespo", _vespo, TOKENS),
    ("luspo", _luspo, COMPLETIONS),
]


def _settings(name: str) -> dict[str, object]:
    row = algorithm_row(name)
    assert row is not None
    return dict(row["set"])


@pytest.mark.parametrize(("name", "of_one", "divisor"), FORMULAS)
def test_the_settings_of_a_name_have_its_gradient(name: str, of_one: Callable[..., Any], divisor: float) -> None:
    import torch

    gradient = _trl(_settings(name))
    assert gradient.abs().max() > 0 or name.startswith("gspo")
    torch.testing.assert_close(gradient, _formula(of_one, divisor), rtol=1e-6, atol=1e-9)


def test_gspos_ratio_is_that_of_a_completion_where_nothing_is_clipped() -> None:
    import torch

    wide = {**_settings("gspo"), "epsilon": 0.99, "epsilon_high": 9.0}
    torch.testing.assert_close(_trl(wide), _formula(_gspo_unclipped, COMPLETIONS), rtol=1e-6, atol=1e-9)


def test_verls_third_clip_is_delta() -> None:
    """Dual clip: for a negative advantage no token costs more than clip_ratio_c times it."""
    import torch

    def dual(now: Any, old: Any, advantage: float) -> Any:
        plain = _clipped((now - old).exp(), advantage, 0.2, 0.2)
        return (torch.maximum(plain, torch.tensor(1.3 * advantage)) if advantage < 0 else plain).sum()

    torch.testing.assert_close(_trl({"delta": 1.3}), _formula(dual, TOKENS), rtol=1e-6, atol=1e-9)


SOURCE = "def one(completions, **kwargs):\n    return [3.0 * len(set(text)) for text in completions]\n"
SOURCE += "def two(completions, **kwargs):\n    return [0.5 * text.count('1') + len(text) % 5 for text in completions]"


def test_gdpo_normalizes_each_reward_in_its_group_and_the_sum_over_the_batch(library: Library) -> None:
    arguments = {
        **_settings("gdpo"),
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "reward_weights": [1.0, 0.3],
    }
    told = library.call("in_trl.advantages", arguments=arguments, rewards=SOURCE).result
    sums = [0.0] * 8
    for weight, rewards in zip((1.0, 0.3), told["rewards"], strict=True):
        for start in (0, 4):
            group = rewards[start : start + 4]
            for place, reward in enumerate(group, start):
                sums[place] += weight * (reward - mean(group)) / (stdev(group) + 1e-4)
    wanted = [(value - mean(sums)) / (stdev(sums) + 1e-4) for value in sums]
    assert stdev(wanted) > 0.5
    assert told["advantages"] == pytest.approx(wanted, abs=1e-4)


def test_dr_grpo_without_scaling_is_rloo_but_for_a_constant() -> None:
    """On-policy, RLOO's gradient is (r - mean of the others) times the completion's, averaged over completions."""
    import torch

    count = len(ADVANTAGES)
    others = [reward - (sum(ADVANTAGES) - reward) / (count - 1) for reward in ADVANTAGES]
    own = [reward - sum(ADVANTAGES) / count for reward in ADVANTAGES]  # the advantages without a deviation
    assert own == pytest.approx(list(ADVANTAGES))
    _, now, mask = _inputs()
    (rloo,) = torch.autograd.grad(-((now * mask).sum(-1) * torch.tensor(others)).mean(), now)
    found = _trl(_settings("dr_grpo"), is_on_policy=True)
    torch.testing.assert_close(found * LONGEST * count / (count - 1), rloo, rtol=1e-6, atol=1e-9)
