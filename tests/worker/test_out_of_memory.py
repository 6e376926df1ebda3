"""Memory that cannot be had is said by phase and step, with what each phase held and what to change.

The limits are real: each training runs in a process that the kernel gives no more to.
"""

from collections.abc import Callable

import pytest
from test_phase_peaks import estimates
from worker_runs import Changes, Trained

pytestmark = pytest.mark.stack
# A loss of 512 completions of 100 tokens keeps about 1 GB of activations, their cache is a twentieth of it.
MANY = {"per_device_train_batch_size": 512, "max_completion_length": 100, "generation_kwargs": {"min_new_tokens": 100}}
ASKS = """
def digits(completions, **kwargs):
    digits.calls += 1
    held = bytearray(10**15 if digits.calls == 3 else 1)
    return [float(len(completion[0]["content"]) % 2) for completion in completions]

digits.calls = 0
"""


def large(make_plan: Callable[..., Changes], **sections: object) -> Changes:
    """A plan whose update is much larger than the rest."""
    plan = make_plan(arguments=MANY, **sections)
    plan["batch"] |= {"micro_batch": 512, "prompts": 64}
    plan["expect"]["arguments"] = {"beta": 0.0}
    return plan


def test_a_training_that_fits_says_nothing(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(make_plan(), "little_memory")
    assert run.exit_code == 0, run.output
    assert "out of memory" not in run.output


def test_an_update_that_does_not_fit_is_said_with_what_was_held_and_what_to_change(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    asked = {"key": "training.on_out_of_memory", "value": "halve", "origin": "line 1", "kind": "machine"}
    settings = [{**asked, "why": "", "recipe_key": asked["key"]}]
    run = trained(large(make_plan, memory=estimates(update=1000), settings=settings), "little_memory")
    assert run.exit_code == 1, run.output
    assert [patch["value"] for patch in run.record["findings"][0]["patch"]] == [256]
    assert (run.record["status"], run.record["exit_code"], run.record["step"]) == ("failed", 1, 0)
    (finding,) = run.record["findings"]
    assert finding["message"].startswith("out of memory in step 1 while the policy was updated: ")
    assert finding["message"].endswith(" MiB more could not be had")
    assert "DefaultCPUAllocator" in finding["because"][0]
    assert "(estimated 0.98 GiB)" in finding["because"][1]
    assert finding["because"][1].startswith("most held by this process, phase by phase: load ")
    assert "training.per_device_train_batch_size: 256 (now 512)" in finding["fix"]
    assert "training.gradient_checkpointing: true" in finding["fix"]
    assert "a different experiment" in finding["notes"][0]
    assert run.record["message"] in run.output
    assert "Traceback" not in run.output
    assert run.record["memory"]["update"]["measured"] > run.record["memory"]["generate"]["measured"]
    assert run.record["memory"]["update"]["estimated"] == 1000 << 20


def test_generation_that_does_not_fit_is_told_from_the_update(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(large(make_plan), "little_memory_for_completions")
    assert run.exit_code == 1, run.output
    (finding,) = run.record["findings"]
    assert finding["message"].startswith("out of memory in step 1 while completions were made")
    assert "per_device_train_batch_size" not in finding["fix"]
    assert finding["patch"] == []
    assert "the plan has no estimate" in finding["because"][1]


def test_a_reward_that_asks_for_too_much_is_named_with_its_line_and_the_step(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    file = {"kind": "python", "target": "rewards.py:digits", "path": "/rewards.py", "sha256": sha256_of_text(ASKS)}
    reward = {"name": "digits", "weight": 1.0, "kwargs": {}, "imports": {}, "package": None, **file}
    run = trained(make_plan(rewards=[reward]), user={"rewards.py": ASKS})
    assert run.exit_code == 1, run.output
    (finding,) = run.record["findings"]
    assert finding["message"] == "out of memory in step 3 while completions were scored"
    assert finding["because"][:2] == ["MemoryError", "reward digits raised MemoryError"]
    assert finding["because"][2].startswith("rewards.py:4: held = ")


def test_another_error_keeps_its_own_words(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(make_plan(arguments={"optim": "no_such_optimizer"}))
    assert run.exit_code == 1
    assert "Traceback" in run.output
    assert "out of memory" not in run.output
