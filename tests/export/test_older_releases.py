"""Releases of TRL that know no tools export their models too."""

import importlib
import sys

import pytest


@pytest.mark.stack
def test_a_release_without_templates_for_tools_has_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """trl 0.14 to 0.24 have no module trl.chat_template_utils."""
    import trl
    from trl import GRPOTrainer, chat_template_utils

    assert GRPOTrainer
    policy = "grpo_recipes.worker.answering.policy"
    monkeypatch.setitem(sys.modules, chat_template_utils.__name__, None)
    monkeypatch.delattr(trl, "chat_template_utils")
    monkeypatch.delitem(sys.modules, policy, raising=False)
    assert importlib.import_module(policy).Policy
