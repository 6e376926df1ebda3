"""A member of TRL that a new release renames, doubles or changes stops the run by name, or the run stays the same.

Each test trains with a changed source of TRL's trainer and of the trainer of transformers.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tool_runs import FILE, planned_tool, tool_plan
from worker_runs import Changes, Trained

from grpo_recipes.contract.seams import SEAMS, seams_of
from grpo_recipes.worker.trainer.order import ORDER

pytestmark = pytest.mark.stack
Train = Callable[..., Trained]
MEMBERS = [seam.member for seam in seams_of("1.16.0") if seam.owner == "trainer"]
# Nothing of this training stands around them, so it stays the same.
WITHOUT_LAYERS = {"_tokenize_prompts", "create_optimizer", "get_decay_parameter_names", "log"}


@pytest.fixture(scope="module")
def of_tools(tool_model: Path, sums: Path) -> Changes:
    """Two steps with a tool, less padding, redrawn groups and a checkpoint, so that almost every seam has a layer."""
    arguments = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "gradient_accumulation_steps": 2}
    return tool_plan(tool_model, sums, planned_tool(), arguments=arguments, shims={"less_padding": "sorted"})


def _weights(run: Trained) -> str:
    (file,) = (run.folder / "final").glob("*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _renamed(member: str) -> list[str]:
    return [rf"(def |self\.|super\(\)\.){member}\(", rf"\1another_{member}("]


@pytest.mark.parametrize("member", [member for member in MEMBERS if member not in WITHOUT_LAYERS])
def test_a_renamed_member_stops_the_run_by_name(member: str, trained: Train, of_tools: Changes) -> None:
    run = trained(of_tools, user=FILE, call="rewritten", changes=[_renamed(member)])
    assert run.exit_code == 3, run.output
    assert f"grpo-run does not know this release: {member}" in run.output
    assert "GRPOTrainer has no such member" in run.output and "trl 1.16.0 is installed" in run.output


def test_renamed_members_that_nothing_stands_around_change_nothing(trained: Train, of_tools: Changes) -> None:
    assert {*MEMBERS} > WITHOUT_LAYERS
    unchanged = trained(of_tools, user=FILE)
    run = trained(of_tools, user=FILE, call="rewritten", changes=[*map(_renamed, sorted(WITHOUT_LAYERS))])
    assert (unchanged.exit_code, run.exit_code) == (0, 0), run.output
    assert _weights(run) == _weights(unchanged)


REWARDS = "_calculate_rewards"
CHANGED = {
    "another-key": ('"completion_mask"', '"mask_of_completions"', "its result has no completion_mask"),
    "another-argument": (
        r"\blogits_to_keep\b",
        "kept_logits",
        "it takes no logits_to_keep, but self, model,",
    ),
    "fewer-parts": (
        r"return completion_ids, logprobs\n",
        r"return (completion_ids,)\n",
        "it returns 1 parts, and grpo-run relies on 2 or more",
    ),
    "another-figure": (
        r'"completions/clipped_ratio"',
        '"completions/cut_ratio"',
        "figure completions/clipped_ratio",
    ),
    "other-figures-of-single-rewards": (
        r'f"rewards/',
        'f"reward_functions/',
        "figures of single rewards",
    ),
    "another-figure-of-the-loss": (
        r'\["entropy"\]',
        '["policy_entropy"]',
        "figure entropy",
    ),
    "doubled": (
        r"( +)_tag_names = ",
        r"\1_get_per_token_logps = None\n\g<0>",
        "GRPOTrainer also has _get_per_token_logps, which it replaced",
    ),
    "called-twice": (
        rf"= (self\.{REWARDS}\(.*\))",
        r"= [\1, \1][0]",
        "the first step called it 4 times, and grpo-run relies on 2",
    ),
    "not-called": (
        rf"def {REWARDS}\(",
        f"def {REWARDS}(self, *given):\n        return self._give(*given)\n\n    def _give(",
        "the first step called it 0 times, and grpo-run relies on 2",
    ),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_member_that_behaves_otherwise_stops_the_run(change: str, trained: Train, of_tools: Changes) -> None:
    old, new, because = CHANGED[change]
    changes = [[rf"self\.{REWARDS}\(", "self._give("]] if change == "not-called" else []
    run = trained(of_tools, user=FILE, call="rewritten", changes=[*changes, [old, new]])
    assert run.exit_code == 3, run.output
    assert because in run.output, run.output


def test_every_event_has_its_order() -> None:
    assert {seam.event for seam in SEAMS} | {"groups are known"} == ORDER.keys()
