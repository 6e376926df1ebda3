"""A real training with tools: what is called, counted, kept and proved."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, weights
from support.tool_model import write_tool_model
from test_several_processes import for_two
from tool_runs import FILE, planned_tool, tool_plan
from worker_runs import Changes, Trained, events

pytestmark = pytest.mark.stack

Train = Callable[..., Trained]
ONE = {"max_steps": 1}


@pytest.fixture(scope="module")
def make_plan(tool_model: Path, sums: Path) -> Callable[..., Changes]:
    def make(*tools: Changes, **changes: Any) -> Changes:
        return tool_plan(tool_model, sums, *tools, **changes)

    return make


@pytest.fixture(scope="module")
def with_add(trained: Train, make_plan: Callable[..., Changes]) -> Trained:
    return trained(make_plan(planned_tool()), user=FILE)


def test_a_training_with_a_tool_holds_its_proofs(with_add: Trained) -> None:
    assert with_add.exit_code == 0, with_add.output
    proofs = with_add.proofs()
    assert all(proof["ok"] for proof in proofs.values()), proofs
    assert proofs["PRF019"]["shown"].endswith("tool replies outside the loss, without a gradient")
    apart = re.search(
        r"\d+ turns trained as they were sampled, \|log-prob difference\| max (\S+) of (\d+) tokens",
        proofs["PRF020"]["shown"],
    )
    assert apart is not None, proofs["PRF020"]
    assert float(apart[1]) < 1e-4
    assert int(apart[2]) > 40
    assert proofs["PRF021"]["shown"].endswith("tool calls per completion")
    assert "completions end at eos, nothing after" in proofs["PRF008"]["shown"]


def test_its_figures_are_those_of_trl_and_of_each_tool(with_add: Trained) -> None:
    steps = events(with_add.folder, "step")
    assert len(steps) == 3
    for step in steps:
        calls = step["tools/call_frequency"] * 16
        of_others = calls - step["tools/add/calls"]  # of tools that there are not, which fail
        assert 8 < step["tools/add/calls"] <= calls
        assert step["tools/add/failures"] + of_others == pytest.approx(step["tools/failure_frequency"] * calls)
        failed = step["tools/call_frequency"] * step["tools/failure_frequency"]
        assert step["tools/failed_call_frequency"] == pytest.approx(failed)
        assert 0 < step["tools/add/seconds"] == step["tools/seconds"]
        assert step["tools/generating_seconds"] > 0
        assert step["completions/with_tokens_after_end"] == 0
        assert step["completions/ended_by_eos"] + step["completions/ended_by_length"] == 1


def drawn_digits(folder: Path) -> list[str]:
    """The random digits of the tool, of each process that called it."""
    return [path.read_text() for path in (folder / "worker" / "user").glob("digits-*")]


def digits_of(rank: int, calls: list[int]) -> str:
    """The digits that the tool draws in so many calls of each step."""
    draws = ((step, call) for step, count in enumerate(calls) for call in range(1, count + 1))
    return "".join(str(random.Random(f"7 {rank} {step} {call}").randrange(10)) for step, call in draws)


def test_its_random_numbers_are_those_of_seed_step_and_call(with_add: Trained) -> None:
    steps = events(with_add.folder, "step")
    (drawn,) = drawn_digits(with_add.folder)
    planned = digits_of(0, [int(step["tools/add/calls"]) for step in steps])
    assert len(planned) - len(drawn) == sum(step["tools/add/failures"] for step in steps) < 9
    left = iter(planned)
    assert all(digit in left for digit in drawn), "in this order, without those of calls that failed before a draw"


def test_kept_completions_show_calls_and_replies(with_add: Trained) -> None:
    rows = [row for line in _completions(with_add) for row in line["rows"]]
    called = [row for row in rows if row.get("replies")]
    assert len(called) > len(rows) / 2
    for row in called:
        turns = row["completion"].split("\n")
        assert turns[0].startswith('<tool_call>{"name": "add", "arguments": {"a": ')
        assert sum(turn.startswith("[reply] r") for turn in turns) == row["replies"]


def test_rewards_judge_the_last_message_of_the_policy(with_add: Trained) -> None:
    rows = [row for line in _completions(with_add) for row in line["rows"] if row.get("replies")]
    judged = {row["completion"].split("\n")[-1][-1:] in tuple("02468") for row in rows}
    assert judged == {True, False}
    for row in rows:
        assert row["rewards"]["even"] == float(row["completion"].split("\n")[-1][-1:] in tuple("02468"))


def test_nothing_of_the_tools_is_left(with_add: Trained) -> None:
    found = [one for one in Path("/proc").glob("[0-9]*/cmdline") if b"tool_process" in _content(one)]
    own = [one for one in found if str(with_add.folder).encode() in _content(one.with_name("environ"))]
    assert own == []


def test_a_tool_that_fails_is_told_and_counted(trained: Train, make_plan: Callable[..., Changes]) -> None:
    run = trained(make_plan(planned_tool("fail"), arguments=ONE), user=FILE)
    assert run.exit_code == 0, run.output
    step = events(run.folder, "step")[0]
    assert step["tools/fail/failures"] == step["tools/fail/calls"] > 8
    assert step["tools/failure_frequency"] == 1
    assert re.search(r"tool fail failed: no \(tools\.py:\d+: raise ValueError", run.output)
    texts = [row["completion"] for line in _completions(run) for row in line["rows"] if row.get("replies")]
    assert all("[reply] r{'error': 'no'}" in text for text in texts)


def test_an_asynchronous_tool_is_called(trained: Train, make_plan: Callable[..., Changes]) -> None:
    source = (
        FILE["tools.py"].replace("def later", "def add").replace("def add(a: int, b: int) -> int:", "def old():", 1)
    )
    run = trained(make_plan(planned_tool("add", source, is_async=True), arguments=ONE), user={"tools.py": source})
    assert run.exit_code == 0, run.output
    assert events(run.folder, "step")[0]["tools/add/calls"] > 8
    assert run.proofs()["PRF019"]["ok"]


def test_no_call_is_said_with_what_the_policy_wrote(
    trained: Train, tiny_model: Path, tool_model: Path, make_plan: Callable[..., Changes], tmp_path: Path
) -> None:
    """A model of the same sizes that was taught nothing."""
    untaught = write_tool_model(tmp_path / "untaught", steps=0)
    plan = make_plan(planned_tool(), arguments=ONE)
    run = trained({**plan, "model": {**plan["model"], "path": str(untaught)}}, user=FILE)
    assert run.proofs()["PRF021"]["ok"] is None
    assert run.proofs()["PRF021"]["shown"].startswith("NO TOOL WAS CALLED; the first completion begins '")
    assert run.proofs()["PRF019"]["ok"] is None
    assert run.proofs()["PRF020"]["ok"] is True


def test_replies_that_do_not_fit_are_said(trained: Train, make_plan: Callable[..., Changes]) -> None:
    run = trained(make_plan(planned_tool(), arguments={"max_completion_length": 12, **ONE}), user=FILE)
    assert run.proofs()["PRF021"]["shown"] == "NO TOOL REPLY FITS into the 12 tokens of a completion"


BROKEN = {
    "tool_mask_that_is_lost": ("PRF019", "reply tokens are in the loss"),
    "tool_mask_of_ones": ("PRF019", "reply tokens are in the loss"),
    "tool_mask_that_is_shifted": ("PRF019", "reply tokens are in the loss"),
    "tool_mask_that_the_loss_does_not_use": ("PRF019", "the loss has a gradient for"),
    "own_turns_left_out": ("PRF019", "tokens that the policy wrote are not in the loss"),
    "turns_tokenized_anew": ("PRF020", "does not consist of the sampled tokens"),
    "prompts_of_another_template": ("PRF020", "does not consist of the sampled tokens"),
    "replies_that_the_loss_does_not_see": (
        "PRF020",
        "in later turns the loss scores samples differently than the policy",
    ),
    "loss_at_another_temperature": ("PRF020", "in first turns the loss scores samples differently than the policy"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_trainer_fails_the_proof(fault: str, trained: Train, make_plan: Callable[..., Changes]) -> None:
    run = trained(make_plan(planned_tool()), fault, user=FILE)
    proof, found = BROKEN[fault]
    assert run.exit_code == 3, run.output
    assert run.proofs()[proof]["ok"] is False
    assert found in run.output


def test_a_run_that_is_gone_on_with_is_the_same(
    trained: Train, make_plan: Callable[..., Changes], tmp_path: Path
) -> None:
    """The tool draws random numbers, which are those of the step whether the run was resumed or not."""
    plan = make_plan(planned_tool(), arguments={"save_strategy": "steps", "save_steps": 1, "max_steps": 3})
    whole = trained(plan, user=FILE)
    assert whole.exit_code == 0, whole.output
    again = trained(plan, user=FILE, folder=killed_after(whole.folder, 1, tmp_path / "again"), resume=True)
    assert again.exit_code == 0, again.output
    assert [line["rows"] for line in _completions(whole)] == [line["rows"] for line in _completions(again)]
    assert weights(whole.folder) == weights(again.folder) != {}


def test_shims_that_touch_completions_leave_the_proofs_true(trained: Train, make_plan: Callable[..., Changes]) -> None:
    plan = make_plan(planned_tool(), arguments=ONE, shims={"completion_ends": True, "max_prompt_length": 12})
    plan["expect"]["stop"] = ["9"]
    run = trained(plan, user=FILE)
    assert run.exit_code == 0, run.output
    proofs = run.proofs()
    assert [proofs[identity]["ok"] for identity in ("PRF008", "PRF019", "PRF020", "PRF021")] == [True] * 4, proofs
    step = events(run.folder, "step")[0]
    assert step["completions/ended_by_stop"] > 0
    assert step["completions/with_tokens_after_end"] == 0


def test_two_processes_call_tools_of_their_own(trained: Train, make_plan: Callable[..., Changes]) -> None:
    plan = for_two(make_plan(planned_tool(), arguments={"per_device_train_batch_size": 8, **ONE}))
    run = trained(plan, user=FILE, ranks=2)
    assert run.exit_codes == [0, 0], run.output
    proofs = run.proofs()
    assert [proofs[identity]["ok"] for identity in ("PRF001", "PRF008", "PRF019", "PRF020", "PRF021")] == [True] * 5
    step = events(run.folder, "step")[0]
    assert 8 < step["tools/add/calls"] <= step["tools/call_frequency"] * 16
    assert {digits[:4] for digits in drawn_digits(run.folder)} == {digits_of(rank, [4]) for rank in (0, 1)}


def _completions(run: Trained) -> list[Changes]:
    return [json.loads(line) for line in (run.folder / "completions.jsonl").read_text().splitlines()]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
