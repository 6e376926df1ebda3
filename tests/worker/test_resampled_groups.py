"""Groups without variance are redrawn, and what is trained is as if the prompts that are kept had been the batch."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, trained_lines, weights
from test_several_processes import for_two
from worker_runs import Changes, Trained, events, planned_data, planned_reward

pytestmark = pytest.mark.stack

# Which prompts are worth the same whatever is answered depends on the prompt alone; other groups vary by their tokens.
MINE = """
import json, os
from pathlib import Path

SEEN = Path(__file__).with_name(f"seen-{os.environ.get('RANK', '0')}.jsonl")

def mine(completions, completion_ids, solution, log_extra, **kwargs):
    log_extra("answer", list(solution))
    with SEEN.open("a") as file:
        file.write(json.dumps(solution) + "\\n")
    return [
        0.5 if int(answer) % 10 in EQUAL else sum(token * (place + 7) for place, token in enumerate(ids)) % 97 / 97
        for ids, answer in zip(completion_ids, solution)
    ]
"""
EQUAL, VARIED, NEVER = "(0, 2, 5, 8)", "()", "range(10)"
ROUNDS, GROUPS, SIZE, STEPS = 3, 2, 8, 3


@pytest.fixture
def plan(make_plan: Callable[..., Changes], sha256_of_text: Callable[[str], str]) -> Callable[..., Changes]:
    """Plans with the reward, and so many rounds."""

    def make(rounds: int, equal: str = EQUAL, **changes: Any) -> Changes:
        text = MINE.replace("EQUAL", equal)
        rewards = [planned_reward("mine.py:mine", name="mine", kind="python", sha256=sha256_of_text(text))]
        arguments = {"max_steps": STEPS, **changes.pop("arguments", {})}
        made = make_plan(arguments=arguments, rewards=rewards, resample_groups=rounds, kept_completions=16, **changes)
        made["expect"]["arguments"] = {}
        return made

    return make


def user(equal: str = EQUAL) -> dict[str, str]:
    return {"mine.py": MINE.replace("EQUAL", equal)}


def answers_in_order(sums: Path, seed: int = 7) -> list[str]:
    """The answers of the rows in the order of the first epoch."""
    import torch

    rows = [json.loads(line)["answer"] for line in sums.read_text().splitlines()]
    return [rows[place] for place in torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()]


def is_equal(answer: str) -> bool:
    return int(answer) % 10 in (0, 2, 5, 8)


def expected(order: list[str], steps: int, groups: int = GROUPS) -> tuple[list[list[str]], list[list[str]]]:
    """The prompts of each call of the reward, and those that each step trains."""
    calls, trained = [], []
    for step in range(steps):
        kept = order[step * groups : (step + 1) * groups]
        calls.append(list(kept))
        further = iter(order[::-1][step * groups * ROUNDS :])
        for _ in range(ROUNDS):
            missing = [place for place, answer in enumerate(kept) if is_equal(answer)]
            drawn = [next(further) for _ in missing]
            if drawn:
                calls.append(drawn)
            for place, answer in zip(missing, [one for one in drawn if not is_equal(one)], strict=False):
                kept[place] = answer
        trained.append(kept)
    return calls, trained


def seen(folder: Path, rank: int = 0) -> list[list[str]]:
    """What the reward was called with: the answers of each call."""
    return [json.loads(line) for line in (folder / "worker" / "user" / f"seen-{rank}.jsonl").read_text().splitlines()]


def trained_prompts(folder: Path) -> list[list[str]]:
    """The prompts of completions.jsonl by step, one for each group."""
    lines = [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]
    return [[row["prompt"] for row in line["rows"]][::SIZE] for line in lines]


def without_own(folder: Path) -> list[Changes]:
    return [{key: value for key, value in line.items() if "resample/" not in key} for line in trained_lines(folder)]


def test_further_prompts_take_the_place_of_groups_without_variance(
    plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path
) -> None:
    import pandas

    run = trained(plan(ROUNDS, arguments={"log_completions": True}), user=user())
    assert run.exit_code == 0, run.output
    calls, kept = expected(answers_in_order(sums), STEPS)
    assert [call[::SIZE] for call in seen(run.folder)] == calls
    assert len(calls) > STEPS
    steps = events(run.folder, "step")
    assert sum(step["resample/groups_redrawn"] for step in steps) == sum(map(len, calls)) - STEPS * GROUPS
    left = [sum(map(is_equal, answers)) for answers in kept]
    assert [step["resample/groups_left"] for step in steps] == left
    assert [step["groups_without_variance"] for step in steps] == [count / GROUPS for count in left]
    drawn_first = trained(plan(0), user=user())
    assert steps[0]["resample/reward"] == events(drawn_first.folder, "step")[0]["reward"] != steps[0]["reward"]
    # The figures and the completions are of what is trained.
    for step, prompts, answers in zip(steps, trained_prompts(run.folder), kept, strict=True):
        assert len(prompts) == GROUPS
        sums_of = [prompt.rpartition("\n")[2].strip("=") for prompt in prompts]
        assert [str(sum(map(int, one.split("+")))) for one in sums_of] == answers
        rows = [row for line in completions(run.folder) if line["step"] == step["step"] for row in line["rows"]]
        assert step["reward"] == pytest.approx(sum(row["reward"] for row in rows) / len(rows))
        assert step["completions/mean_length"] == pytest.approx(sum(row["tokens"] for row in rows) / len(rows))
        file = run.folder / "checkpoints" / "completions" / f"completions_{step['step']:05}.parquet"
        assert list(pandas.read_parquet(file)["answer"])[::SIZE] == answers


def completions(folder: Path) -> list[Changes]:
    return [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]


KINDS = [
    pytest.param({}, id="as it is", marks=pytest.mark.long),
    pytest.param({"steps_per_generation": 2, "beta": 0.1}, id="two steps of a generation, with a reference"),
    pytest.param({"num_iterations": 2, "scale_rewards": "batch"}, id="two iterations", marks=pytest.mark.long),
]


@pytest.mark.parametrize("arguments", KINDS)
def test_a_run_whose_groups_vary_is_the_one_without_resampling(
    arguments: Changes, plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    runs = [trained(plan(rounds, VARIED, arguments=arguments), user=user(VARIED)) for rounds in (0, ROUNDS)]
    assert [run.exit_code for run in runs] == [0, 0], runs[1].output
    assert trained_lines(runs[0].folder) == without_own(runs[1].folder)
    assert weights(runs[0].folder) == weights(runs[1].folder) != {}
    assert (runs[0].folder / "completions.jsonl").exists()
    told = [step.get("resample/rounds") for step in events(runs[1].folder, "step")]
    assert {0.0} <= set(told) <= {0.0, None}


def test_groups_that_never_vary_stay(
    plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    """Of seven rows a generation takes two and then, in pairs, the other five; the last pair lacks one."""
    rows = {json.loads(line)["answer"]: line for line in sums.read_text().splitlines(keepends=True)}
    (tmp_path / "few.jsonl").write_text("".join([*rows.values()][:7]))
    data = planned_data(tmp_path / "few.jsonl")
    runs = [trained(plan(rounds, NEVER, data=data), user=user(NEVER)) for rounds in (0, ROUNDS)]
    assert [run.exit_code for run in runs] == [0, 0], runs[1].output
    steps = events(runs[1].folder, "step")
    calls = [call[::SIZE] for call in seen(runs[1].folder)]
    assert [len(call) for call in calls] == [2, 2, 2, 1] * STEPS
    of_generations = [set(chain(*calls[start : start + 4])) for start in range(0, len(calls), 4)]
    assert [len(answers) for answers in of_generations] == [7] * STEPS, "each row once"
    assert [step["resample/prompts"] for step in steps] == [7] * STEPS
    assert [step["resample/groups_redrawn"] for step in steps] == [5] * STEPS
    assert [(step["resample/groups_left"], step["resample/rounds"]) for step in steps] == [(GROUPS, ROUNDS)] * STEPS
    assert trained_prompts(runs[1].folder) == trained_prompts(runs[0].folder)


def test_no_score_of_a_pass_that_only_draws_is_trained(
    plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    """The first step on a generation has the policy that made it: ratios of 1, and no KL to the reference yet."""
    arguments = {"steps_per_generation": 2, "beta": 0.1, "per_device_train_batch_size": 8, "epsilon": 1e-6}
    run = trained(plan(ROUNDS, arguments=arguments), user=user())
    assert run.exit_code == 0, run.output
    first, second, *_ = events(run.folder, "step")
    assert first["resample/groups_redrawn"] > 0
    assert first["kl"] == pytest.approx(0, abs=1e-9)
    assert first["clip_ratio/region_mean"] == 0 < second["clip_ratio/region_mean"]


def test_prompts_that_are_cut_are_counted_once(plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(plan(ROUNDS, shims={"max_prompt_length": 2}), user=user())
    assert run.exit_code == 0, run.output
    assert sum(step["resample/rounds"] for step in events(run.folder, "step")) > 0
    assert f"{STEPS * GROUPS} of {STEPS * GROUPS} prompts were cut to their last 2 tokens" in run.output


SAVES = {"max_steps": 8, "save_strategy": "steps", "save_steps": 4}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="each step", marks=pytest.mark.long),
        pytest.param({"num_iterations": 2}, id="two steps of a generation"),
    ],
)
def test_a_resumed_run_draws_as_if_nothing_had_happened(
    more: Changes, plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    planned = plan(ROUNDS, arguments={**SAVES, **more})
    (tmp_path / "whole").mkdir()
    whole = trained(planned, user=user(), folder=tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    calls, kept = expected(answers_in_order(sums), SAVES["max_steps"] // more.get("num_iterations", 1))
    assert [call[::SIZE] for call in seen(whole.folder)] == calls
    assert len(calls) > len(kept)
    again = killed_after(whole.folder, 4, tmp_path / "again")
    done = trained(planned, folder=again, resume=True)
    assert done.exit_code == 0, done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}


def test_a_second_epoch_draws_from_the_end_of_its_own_order(
    plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    """Fifteen rows are seven generations of two prompts."""
    import torch

    lines = sums.read_text().splitlines(keepends=True)[:15]
    (tmp_path / "few.jsonl").write_text("".join(lines))
    run = trained(plan(ROUNDS, arguments={"max_steps": 9}, data=planned_data(tmp_path / "few.jsonl")), user=user())
    assert run.exit_code == 0, run.output
    generator = torch.Generator().manual_seed(7)
    rows = [json.loads(line)["answer"] for line in lines]
    orders = [[rows[place] for place in torch.randperm(len(rows), generator=generator).tolist()] for _ in range(2)]
    calls, kept = expected(orders[1], 2)
    assert [call[::SIZE] for call in seen(run.folder)][-len(calls) :] == calls
    assert len(calls) > len(kept) == 2


@pytest.mark.parametrize(
    ("micro_batch", "size"),
    [
        pytest.param(12, 8, id="a group that both share"),
        pytest.param(9, 3, id="three of nine", marks=pytest.mark.long),
    ],
)
def test_two_processes_draw_what_one_does(
    micro_batch: int, size: int, plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    """The middle group of three lies on both; groups of three are drawn in pairs, since each process has whole rows."""
    arguments = {"num_generations": size, "per_device_train_batch_size": 2 * micro_batch}
    alone = trained(plan(ROUNDS, arguments=arguments), user=user())
    assert alone.exit_code == 0, alone.output
    planned = for_two(plan(ROUNDS, arguments={**arguments, "per_device_train_batch_size": micro_batch}))
    planned["expect"]["arguments"] = {}
    together = trained(planned, user=user(), ranks=2)
    assert together.exit_codes == [0, 0], together.output

    figures = ("resample/groups_redrawn", "resample/groups_left", "resample/rounds", "groups_without_variance")
    both = [
        [[step[name] for name in figures] for step in events(run, "step")] for run in (alone.folder, together.folder)
    ]
    assert both[0] == both[1]
    of_both = [first + second for first, second in zip(*(seen(together.folder, rank) for rank in (0, 1)), strict=True)]
    for call, call_of_both in zip(seen(alone.folder), of_both, strict=True):
        assert call_of_both[: len(call)] == call
        assert set(call_of_both[len(call) :]) <= {call[0]}, "filled up with the first group"


@pytest.mark.long
@pytest.mark.parametrize("step", [3, 6], ids=["in the first epoch", "in the second epoch"])
def test_a_run_that_is_resumed_in_some_epoch_draws_as_if_nothing_had_happened(
    step: int, plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    """Eleven rows are five generations of two prompts: twelve steps are in three epochs."""
    (tmp_path / "few.jsonl").write_text("".join(sums.read_text().splitlines(keepends=True)[:11]))
    saves = {"max_steps": 12, "save_strategy": "steps", "save_steps": 3}
    planned = plan(ROUNDS, arguments=saves, data=planned_data(tmp_path / "few.jsonl"))
    (tmp_path / "whole").mkdir()
    whole = trained(planned, user=user(), folder=tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    again = killed_after(whole.folder, step, tmp_path / "again")
    done = trained(planned, folder=again, resume=True)
    assert done.exit_code == 0, done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}


def test_a_generation_that_no_step_begins_with_has_its_own_further_prompts(
    plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path
) -> None:
    """Three micro-batches of a group are a generation, and two a step: generations begin in steps 0, 1, 3 and 4."""
    arguments = {
        "per_device_train_batch_size": SIZE,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 3,
        "max_steps": 6,
    }
    run = trained(plan(ROUNDS, arguments=arguments), user=user())
    assert run.exit_code == 0, run.output
    calls, _ = expected(answers_in_order(sums), 4, groups=3)
    assert [call[::SIZE] for call in seen(run.folder)] == calls
