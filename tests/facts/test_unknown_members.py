"""The source of the installed trainer is compared with the members that a training relies on (STK019)."""

from pathlib import Path

import pytest
from support.releases import TESTED

from grpo_recipes.facts import unknown_members as members
from grpo_recipes.facts.source.package_facts import package_folder

TRL = package_folder("trl")
pytestmark = pytest.mark.skipif(TRL is None, reason="TRL is not installed")


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("def _calculate_rewards(", "def _judge(", "GRPOTrainer has no _calculate_rewards"),
        (
            "def _tokenize_prompts(self, prompts",
            "def _tokenize_prompts(self, rows",
            "_tokenize_prompts takes no prompts",
        ),
        (
            "    def _get_per_token_logps_and_entropies(",
            "    def _get_per_token_logps(self):\n        pass\n\n    def _get_per_token_logps_and_entropies(",
            "GRPOTrainer has both _get_per_token_logps_and_entropies and _get_per_token_logps",
        ),
    ],
    ids=["renamed", "another-argument", "doubled"],
)
def test_a_changed_member_is_named(
    old: str, new: str, difference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TRL is not None and members.unknown_members(TESTED["trl"]) == []
    (tmp_path / "trainer").mkdir()
    for name in ("grpo_trainer.py", "base_trainer.py"):
        text = (TRL / "trainer" / name).read_text(encoding="utf-8")
        (tmp_path / "trainer" / name).write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(members, "package_folder", lambda name: tmp_path if name == "trl" else package_folder(name))
    assert members.unknown_members(TESTED["trl"]) == [difference]
