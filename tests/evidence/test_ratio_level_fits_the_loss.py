"""LOS006: TRL warns of a ratio level that its loss is not made for, and of no other."""

import itertools

import pytest
from library import Library
from planned import resolved

from grpo_recipes.rules._shared.losses import LOSSES

pytestmark = pytest.mark.stack


def test_the_rule_warns_where_trl_does(library: Library, tmp_path_factory: pytest.TempPathFactory) -> None:
    pairs = list(itertools.product(LOSSES, ("token", "sequence")))
    told = library.call("in_trl.warned_of_levels", pairs=pairs).result
    rule = []
    for loss, level in pairs:
        grpo = {"loss_type": loss, "importance_sampling_level": level}
        found = resolved(tmp_path_factory.mktemp("level"), 1, grpo, {"prompts_per_step": 1, "max_steps": 1}).findings
        rule.append(any(finding.rule == "LOS006" for finding in found))
    assert rule == told
    assert sum(told) == 6
