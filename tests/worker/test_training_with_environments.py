"""Real trainings with an environment of the user's, and with a rollout."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, weights
from support.tool_model import write_tool_model
from tool_runs import sha256_of, tool_plan
from worker_runs import Changes, Trained, events, planned_data, planned_reward

pytestmark = pytest.mark.stack

GAME = '''
import os

class Game:
    """Adds."""

    def __init__(self, most: int) -> None:
        self.most, self.calls, self.asked = most, 0, None

    def reset(self, **row) -> str:
        self.calls, self.asked = 0, row["solution"]
        return "+"

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: One.
            b: Another.
        """
        self.calls += 1
        if self.calls > self.most:
            raise ValueError("enough")
        os.chdir("/")
        return a + b

    def get_reward(self) -> float:
        return float(self.calls)
'''
ROLLOUT = """
def rollout(prompts, trainer):
    tokenized = trainer.processing_class.apply_chat_template(prompts, add_generation_prompt=True, return_dict=True)
    ids = tokenized["input_ids"]
    completions, _ = trainer._generate_single_turn(ids, None, {}, trainer.num_generations)
    told = trainer.processing_class("=7")["input_ids"]
    return {
        "prompt_ids": ids,
        "completion_ids": [own + told for own in completions],
        "logprobs": None,
        "env_mask": [[1] * len(own) + [0] * len(told) for own in completions],
    }
"""


def pinned(name: str, text: str, **more: Any) -> Changes:
    known = {"path": "/recipes/mine.py", "sha256": sha256_of(text), "imports": {}}
    if name == "Game":
        known |= {"config": {}, "timeout": 10.0, "package": None}
    return {"name": name, "target": f"mine.py:{name}", **known, **more}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tool_model(tmp_path_factory.mktemp("models") / "tools")


@pytest.fixture(scope="module")
def game(trained: Callable[..., Trained], model: Path, sums: Path) -> Trained:
    environment = pinned("Game", GAME, config={"most": 1})
    plan = tool_plan(model, sums, environment_class=environment, arguments={"max_steps": 2})
    return trained(plan, user={"mine.py": GAME})


def test_methods_of_an_environment_are_called_and_proved(game: Trained) -> None:
    assert game.exit_code == 0, game.output
    proofs = game.proofs()
    assert [proofs[identity]["ok"] for identity in ("PRF008", "PRF019", "PRF020", "PRF021")] == [True] * 4, proofs
    step = events(game.folder, "step")[0]
    assert step["tools/add/calls"] == step["tools/call_frequency"] * 16 > 8
    assert 0 < step["tools/add/failures"] < step["tools/add/calls"]
    assert "tool add changed the working folder; that was undone" in game.output


def test_an_environment_has_a_reward_of_its_own(game: Trained) -> None:
    step = events(game.folder, "step")[0]
    assert step["rewards/Game/mean"] == pytest.approx(step["tools/add/calls"] / 16)
    assert step["reward"] == pytest.approx(step["rewards/Game/mean"] + step["rewards/even/mean"])


def test_kept_prompts_have_the_text_that_the_environment_adds(game: Trained, sums: Path) -> None:
    questions = {json.loads(line)["question"] for line in sums.read_text().splitlines()}
    prompts = {row["prompt"] for rows in _rows(game.folder) for row in rows}
    assert prompts and prompts <= {f"{question}+" for question in questions}


def test_a_rollout_makes_the_completions(trained: Callable[..., Trained], model: Path, sums: Path) -> None:
    plan = tool_plan(model, sums, rollout=pinned("rollout", ROLLOUT))
    run = trained(plan, user={"mine.py": ROLLOUT})
    assert run.exit_code == 0, run.output
    assert all(proof["ok"] is not False for proof in run.proofs().values()), run.proofs()
    assert run.proofs()["PRF008"]["ok"]
    assert {"PRF019", "PRF020", "PRF021"}.isdisjoint(run.proofs())
    rows = (run.folder / "completions.jsonl").read_text()
    assert "\\n[reply] =7" in rows


def test_a_rollout_need_not_call_what_a_shim_stands_around(
    trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    turn = "completions, _ = trainer._generate_single_turn(ids, None, {}, trainer.num_generations)"
    source = ROLLOUT.replace(turn, "completions = [[5 + place % 8] for place in range(len(ids))]")
    plan = tool_plan(
        model, sums, rollout=pinned("rollout", source), shims={"completion_ends": True}, arguments={"max_steps": 1}
    )
    run = trained(plan, user={"mine.py": source})
    assert source != ROLLOUT and run.exit_code == 0, run.output


@pytest.mark.parametrize("key", ["environment_class", "rollout"])
def test_a_file_that_changed_ends_the_run(key: str, trained: Callable[..., Trained], model: Path, sums: Path) -> None:
    more = {"config": {"most": 1}} if key == "environment_class" else {}
    planned = pinned("Game" if more else "rollout", GAME if more else ROLLOUT, **more)
    run = trained(tool_plan(model, sums, **{key: planned}), user={"mine.py": "changed = True\n"})
    assert run.exit_code == 3
    assert "changed since the plan was made" in run.output


# Says the row behind its prompt, so that the policy is asked another thing; its reward knows what was called.
TOLD = """
import random

class Game:
    \"\"\"Adds.\"\"\"

    def reset(self, **row) -> str:
        self.calls = []
        return f"{row['solution']}="

    def add(self, a: int, b: int) -> str:
        \"\"\"Adds two numbers.

        Args:
            a: One.
            b: Another.
        \"\"\"
        self.calls.append((a, b))
        return f"{a + b}{random.randrange(10)}"

    def get_reward(self) -> float:
        return float(len(self.calls))
"""


def saving_plan(model: Path, sums: Path) -> Changes:
    saving = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    return tool_plan(model, sums, environment_class=pinned("Game", TOLD), arguments=saving)


@pytest.fixture(scope="module")
def whole(trained: Callable[..., Trained], model: Path, sums: Path) -> Trained:
    """A run with an environment that nothing disturbed."""
    return trained(saving_plan(model, sums), user={"mine.py": TOLD})


def test_held_out_rows_have_environments_of_their_own(
    whole: Trained, trained: Callable[..., Trained], model: Path, sums: Path, held_out: Callable[..., Changes]
) -> None:
    assert whole.exit_code == 0, whole.output
    plan = {**saving_plan(model, sums), "evaluation": held_out(every_steps=1)}
    run = trained(plan, user={"mine.py": TOLD})
    assert run.exit_code == 0, run.output
    measured = events(run.folder, "evaluation")
    assert [line["step"] for line in measured] == [0, 1, 2]
    for line in measured:
        assert line["rewards"]["Game"] > 0.5, "the policy calls its method there, too"
        assert line["reward"] == pytest.approx(line["rewards"]["Game"] + line["rewards"]["even"])
    rows = [json.loads(line) for line in (run.folder / "evaluation" / "step-0.jsonl").read_text().splitlines()]
    assert all(row["prompt"].endswith(f"={row['columns']['solution']}=") for row in rows)
    assert _rows(whole.folder) == _rows(run.folder), "the training is the one without an evaluation"


@pytest.mark.parametrize("rewards", [[], [planned_reward("valid_json", weight=0.0)]], ids=["none", "measured"])
def test_the_reward_of_an_environment_is_enough(
    rewards: list[Changes],
    trained: Callable[..., Trained],
    model: Path,
    sums: Path,
    held_out: Callable[..., Changes],
) -> None:
    plan = tool_plan(
        model,
        sums,
        environment_class=pinned("Game", TOLD),
        rewards=rewards,
        evaluation=held_out(batch_size=11),
        arguments={"max_steps": 1, "reward_weights": [reward["weight"] for reward in rewards]},
    )
    run = trained(plan, user={"mine.py": TOLD})
    assert run.exit_code == 0, run.output
    assert all(proof["ok"] is not False for proof in run.proofs().values()), run.proofs()
    for step in events(run.folder, "step"):
        assert 0 < step["reward"] == pytest.approx(step["rewards/Game/mean"])
    for line in events(run.folder, "evaluation"):
        assert 0 < line["reward"] == pytest.approx(line["rewards"]["Game"])
    rows = [row for line in _rows(run.folder) for row in line]
    assert all(row["reward"] == row["rewards"]["Game"] for row in rows)
    card = (run.folder / "final" / "README.md").read_text()
    assert "- kind: environment\n  name: Game\n" in card, card


def test_an_environment_that_owns_its_data_is_trained(
    trained: Callable[..., Trained], model: Path, tmp_path: Path
) -> None:
    episodes = tmp_path / "episodes.jsonl"
    episodes.write_text("".join(json.dumps({"index": index}) + "\n" for index in range(8)))
    source = TOLD.replace("row['solution']", "row['index']")
    plan = tool_plan(
        model,
        episodes,
        environment_class=pinned("Game", source),
        data=planned_data(episodes, prompt="{{ '' }}", columns={}),
        rewards=[],
        arguments={"max_steps": 2, "reward_weights": []},
    )
    run = trained(plan, user={"mine.py": source})
    assert run.exit_code == 0, run.output
    assert all(proof["ok"] is not False for proof in run.proofs().values()), run.proofs()
    assert [step["reward"] == step["rewards/Game/mean"] for step in events(run.folder, "step")] == [True, True]


# Each object says of its row which objects there are beside it.
COUNTED = """
import gc
import weakref

ALIVE = weakref.WeakSet()


""" + TOLD.strip().replace(
    "        self.calls = []\n", "        self.calls = []\n        ALIVE.add(self)\n        gc.collect()\n"
).replace(
    "    def get_reward(self) -> float:\n", "    def get_reward(self) -> float:\n        print(f'alive {len(ALIVE)}')\n"
)


def test_objects_of_held_out_rows_are_made_a_batch_at_a_time(
    trained: Callable[..., Trained], model: Path, sums: Path, held_out: Callable[..., Changes]
) -> None:
    assert COUNTED.count("ALIVE") == 3
    many = held_out(samples=2, greedy=False, batch_size=4)
    plan = tool_plan(
        model, sums, environment_class=pinned("Game", COUNTED), evaluation=many, arguments={"max_steps": 1}
    )
    run = trained(plan, user={"mine.py": COUNTED})
    assert run.exit_code == 0, run.output
    alive = [int(found) for found in re.findall(r"alive (\d+)", run.output)]
    # 22 completions in 5 batches of 4 and one of 2, before and after a step of 16 completions.
    before, step, after = alive[:22], alive[22:38], alive[38:]
    assert len(after) == 22
    assert max(before) <= 4 + 1, "the trainer has one object to look at"
    assert max(after) <= 4 + max(step)
    rows = [json.loads(line) for line in (run.folder / "evaluation" / "step-0.jsonl").read_text().splitlines()]
    assert [(row["row"], row["sample"]) for row in rows] == [(row, sample) for row in range(11) for sample in (0, 1)]
    assert all(row["prompt"].endswith(f"={row['columns']['solution']}=") for row in rows)


def test_a_run_with_an_environment_is_gone_on_with_as_the_same(
    whole: Trained, trained: Callable[..., Trained], model: Path, sums: Path, tmp_path: Path
) -> None:
    again = killed_after(whole.folder, 1, tmp_path / "again")
    run = trained(saving_plan(model, sums), folder=again, resume=True)
    assert run.exit_code == 0, run.output
    assert "resumed from checkpoint-1\n" in run.output
    assert _rows(whole.folder) == _rows(again)
    assert weights(whole.folder) == weights(again) != {}


def _rows(folder: Path) -> list[Any]:
    return [json.loads(line)["rows"] for line in (folder / "completions.jsonl").read_text().splitlines()]


def _failing(body: str, method: str = "add") -> str:
    """The game with other lines at the begin of a method; what it imports is there."""
    source = "import subprocess\nimport time\n" + TOLD
    begin = {"add": "        self.calls.append", "reset": "        self.calls = []"}[method]
    assert begin in source
    return source.replace(begin, f"        {body}\n{begin}")


NEVER = """while True:
            try:
                time.sleep(60)
            except Exception:
                pass"""
UNTOLD = """class Odd:
            def __str__(self):
                raise ValueError("no words for it")
        return Odd()"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("raise KeyError('board')", "tool add failed: 'board'", id="raises"),
        pytest.param(NEVER, "tool add failed: add took longer than 0.3 seconds and was ended", id="hangs"),
        pytest.param(UNTOLD, "tool add failed: no words for it", id="cannot-be-told"),
        pytest.param("raise SystemExit(4)", "tool add failed: SystemExit: 4", id="leaves"),
    ],
)
def test_a_method_that_fails_is_told_and_counted(
    body: str, said: str, trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    source = _failing(body)
    environment = pinned("Game", source, timeout=0.3)
    plan = tool_plan(model, sums, environment_class=environment, arguments={"max_steps": 1})
    run = trained(plan, user={"mine.py": source})
    assert run.exit_code == 0, run.output
    assert said in run.output
    step = events(run.folder, "step")[0]
    assert step["tools/add/failures"] == step["tools/add/calls"] > 8


def test_what_a_method_returns_is_told_in_bounds(trained: Callable[..., Trained], model: Path, sums: Path) -> None:
    source = _failing("return {'board': 'x' * 1_000_000}")
    plan = tool_plan(model, sums, environment_class=pinned("Game", source), arguments={"max_steps": 1})
    run = trained(plan, user={"mine.py": source})
    assert run.exit_code == 0, run.output
    assert events(run.folder, "step")[0]["tools/add/failures"] == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            "assert int(row['solution']) % 3, 'no such board'",
            "environment Game.reset raised AssertionError: no such board",
            id="raises",
        ),
        pytest.param(
            "if int(row['solution']) % 3 == 0: time.sleep(60)",
            "Game.reset took longer than 0.3 seconds and was ended",
            id="hangs",
        ),
    ],
)
def test_a_reset_that_fails_ends_the_run_with_its_row(
    body: str, said: str, trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    source = _failing(body, "reset")
    run = trained(
        tool_plan(model, sums, environment_class=pinned("Game", source, timeout=0.3), arguments={"max_steps": 40}),
        user={"mine.py": source},
    )
    assert run.exit_code == 1, run.output
    told = json.dumps(run.record)
    assert said in told
    assert "mine.py:" in told
    assert "the prompt of its row is '" in told
    assert not (run.folder / "final").exists()
    assert run.record["status"] == "failed"


FAILING_REWARDS = {
    "raises": ("raise TimeoutError('no judge')", "Game.get_reward raised TimeoutError: no judge"),
    "leaves": ("raise SystemExit(4)", "Game.get_reward raised SystemExit: 4"),
    "hangs": ("WAIT(60)", "Game.get_reward took longer than 0.3 seconds and was ended"),
}


LONG_KINDS = [("def", "raises"), ("def", "hangs"), ("async def", "raises")]


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("def", "leaves"),
        ("async def", "leaves"),
        ("async def", "hangs"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in LONG_KINDS),
    ],
)
def test_a_reward_of_an_environment_that_fails_ends_the_run_with_its_row(
    kind: str, how: str, trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    body, said = FAILING_REWARDS[how]
    wait = {"def": "time.sleep", "async def": "await asyncio.sleep"}[kind]
    begin = "    def get_reward(self) -> float:\n"
    assert begin in TOLD
    changed = f"    {kind} get_reward(self) -> float:\n        {body.replace('WAIT', wait)}\n"
    source = "import asyncio\nimport time\n" + TOLD.replace(begin, changed)
    run = trained(
        tool_plan(model, sums, environment_class=pinned("Game", source, timeout=0.3)), user={"mine.py": source}
    )
    assert run.exit_code == 1, run.output
    told = json.dumps(run.record)
    assert said in told
    assert re.search(r"mine\.py:\d+: (raise|time|await) ?", told)
    assert "the prompt of its row is '" in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(('"logprobs": None,', ""), "rollout rollout returned no logprobs", id="a-key"),
        pytest.param(("[1] * len(own) + [0]", "[0]"), "of env_mask for the ", id="a-short-mask"),
        pytest.param(
            ("own + told for own in completions", "own for own in completions[1:]"), "list of 15 for", id="few"
        ),
        pytest.param(("return {", "raise OSError('no game')\n    return {"), "raised OSError: no game", id="raises"),
    ],
)
def test_a_rollout_that_does_not_fit_its_prompts_ends_the_run(
    change: tuple[str, str], said: str, trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    assert change[0] in ROLLOUT
    source = ROLLOUT.replace(*change)
    run = trained(tool_plan(model, sums, rollout=pinned("rollout", source)), user={"mine.py": source})
    assert run.exit_code in (1, 3), run.output
    told = json.dumps(run.record)
    assert "rollout rollout" in told
    assert said in told


def test_a_file_that_raises_ends_the_run_with_its_line(
    trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    text = "raise RuntimeError('no board')\n"
    planned = {**pinned("Game", text), "config": {"most": 1}}
    run = trained(tool_plan(model, sums, environment_class=planned), user={"mine.py": text})
    assert run.exit_code == 3, run.output
    assert "environment Game: mine.py cannot be loaded: RuntimeError: no board" in run.output
    assert "mine.py:1: raise RuntimeError('no board')" in run.output
    assert "Traceback" not in run.output


MUTE = """
class Mute(Exception):
    def __str__(self) -> str:
        raise TypeError
"""


def test_an_exception_that_cannot_say_its_text_ends_no_training(
    trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    text = MUTE + GAME.replace('ValueError("enough")', "Mute")
    environment = pinned("Game", text, config={"most": 0})
    plan = tool_plan(model, sums, environment_class=environment, arguments={"max_steps": 1})
    run = trained(plan, user={"mine.py": text})
    assert run.exit_code == 0, run.output
    assert re.search(r"tool add failed: Mute \(mine\.py:\d+: raise Mute", run.output)
