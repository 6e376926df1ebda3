"""Rows that have one of several environments: each is played with its own, and with its own tools in the prompt."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, weights
from support.tool_model import write_tool_model
from test_several_processes import for_two
from tool_runs import sha256_of, tool_plan
from worker_runs import Changes, Trained, events, planned_data

pytestmark = pytest.mark.stack

GAME = '''
class Adds:
    def reset(self, solution, **row) -> None:
        assert "environment" not in row
        self.calls = []

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: One.
            b: Another.
        """
        self.calls.append(a + b)
        return a + b

    def get_reward(self) -> float:
        return float(len(self.calls))


class Fails(Adds):
    add = None

    def fail(self, a: int, b: int) -> int:
        """Fails.

        Args:
            a: One.
            b: Another.
        """
        raise ValueError("no")

    def get_reward(self) -> float:
        return -1.0
'''
NAMES = ("sums", "faults")
CALLED = {"sums": "add", "faults": "fail"}


def environments(*classes: str) -> Changes:
    """Of a plan, by name."""
    known = {"path": "/recipes/mine.py", "sha256": sha256_of(GAME), "imports": {}, "config": {}, "timeout": 10.0}
    known["package"] = None
    each = zip(NAMES, classes, strict=True)
    return {name: {"name": name, "target": f"mine.py:{one}", **known} for name, one in each}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tool_model(tmp_path_factory.mktemp("models") / "tools")


@pytest.fixture(scope="module")
def rows(sums: Path) -> Path:
    """The sums, of which every third has the environment `faults`."""
    path = sums.with_name("of-environments.jsonl")
    own = [json.loads(line) for line in sums.read_text().splitlines()]
    named = [{**row, "kind": NAMES[place % 3 == 0]} for place, row in enumerate(own)]
    path.write_text("".join(json.dumps(row) + "\n" for row in named))
    return path


def plan_with(model: Path, rows: Path, *classes: str, **sections: Any) -> Changes:
    columns = {"solution": "{{ answer }}", "environment": "{{ kind }}"}
    data = planned_data(rows, columns=columns, environments=list(NAMES))
    return tool_plan(model, rows, data=data, environment_classes=environments(*classes), **sections)


@pytest.fixture(scope="module")
def played(trained: Callable[..., Trained], model: Path, rows: Path, held_out: Callable[..., Changes]) -> Trained:
    data = planned_data(
        rows,
        columns={"solution": "{{ answer }}", "environment": "{{ kind }}"},
        environments=list(NAMES),
        max_rows=11,
    )
    saving = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    plan = plan_with(model, rows, "Adds", "Fails", evaluation=held_out(data=data), arguments=saving)
    return trained(plan, user={"mine.py": GAME})


def _rows(folder: Path) -> list[Any]:
    return [json.loads(line)["rows"] for line in (folder / "completions.jsonl").read_text().splitlines()]


def _check_own_environments(run: Trained, rows: Path) -> None:
    """Each kept completion was played with the environment and judged by the reward of its own row."""
    kinds = {row["question"]: row["kind"] for row in map(json.loads, rows.read_text().splitlines())}
    seen = set()
    for row in (row for of_step in _rows(run.folder) for row in of_step):
        name = kinds[row["prompt"]]
        assert row["rewards"][NAMES[name == NAMES[0]]] is None
        assert row["rewards"]["faults"] in (None, -1.0)
        if "<tool_call>" in row["completion"]:
            seen.add(f'"name": "{CALLED[name]}"' in row["completion"])
    assert seen == {True}, "the prompt tells of the row's own tools alone"
    means = [(step["rewards/faults/mean"], step["rewards/sums/mean"]) for step in events(run.folder, "step")]
    assert {fault for fault, _ in means} == {None, -1.0}, "no row of a step, or all that there are"
    assert max(own for _, own in means if own is not None) > 0.3


def test_each_row_is_played_with_its_own_environment(played: Trained, rows: Path) -> None:
    assert played.exit_code == 0, played.output
    assert all(proof["ok"] is not False for proof in played.proofs().values()), played.proofs()
    _check_own_environments(played, rows)


def test_held_out_rows_have_their_own_environments_and_tools(played: Trained) -> None:
    for step in (0, 2):
        rows = [json.loads(line) for line in (played.folder / f"evaluation/step-{step}.jsonl").read_text().splitlines()]
        assert {row["columns"]["environment"] for row in rows} == {*NAMES}
        for row in rows:
            is_sum = row["columns"]["environment"] == "sums"
            assert (row["rewards"]["faults"] is None, row["rewards"]["sums"] is None) == (is_sum, not is_sum)
            if "<tool_call>" in row["completion"]:
                assert f'"name": "{CALLED[row["columns"]["environment"]]}"' in row["completion"]


def test_two_names_of_one_class_train_what_that_class_trains(
    trained: Callable[..., Trained], model: Path, rows: Path
) -> None:
    two_steps = {"max_steps": 2}
    several = trained(plan_with(model, rows, "Adds", "Adds", arguments=two_steps), user={"mine.py": GAME})
    one = environments("Adds", "Adds")["sums"]
    alone = trained(
        tool_plan(model, rows, environment_class={**one, "name": "Adds"}, data=planned_data(rows), arguments=two_steps),
        user={"mine.py": GAME},
    )
    assert several.exit_code == alone.exit_code == 0, several.output + alone.output
    texts = [[row["completion"] for of_step in _rows(run.folder) for row in of_step] for run in (several, alone)]
    assert texts[0] == texts[1]
    losses = [[line["loss"] for line in events(run.folder, "step")] for run in (several, alone)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert any(loss != 0 for loss in losses[0])


def test_a_run_goes_on_as_the_same(played: Trained, trained: Callable[..., Trained], tmp_path: Path) -> None:
    again = killed_after(played.folder, 1, tmp_path / "again")
    run = trained(json.loads((again / "plan.json").read_text()), folder=again, resume=True)
    assert run.exit_code == 0, run.output
    assert "resumed from checkpoint-1\n" in run.output
    assert _rows(played.folder) == _rows(again)
    assert weights(played.folder) == weights(again) != {}


def test_two_processes_play_the_same_rows(trained: Callable[..., Trained], model: Path, rows: Path) -> None:
    together = for_two(plan_with(model, rows, "Adds", "Fails", arguments={"per_device_train_batch_size": 8}))
    run = trained(together, user={"mine.py": GAME}, ranks=2)
    assert run.exit_codes == [0, 0], run.output
    _check_own_environments(run, rows)


@pytest.mark.parametrize(("name", "said"), [("words", "has the environment 'words'"), (None, "environment None")])
def test_a_row_of_no_environment_ends_the_run_before_its_first_step(
    name: str | None, said: str, trained: Callable[..., Trained], model: Path, rows: Path, tmp_path: Path
) -> None:
    own = [json.loads(line) for line in rows.read_text().splitlines()]
    own[40]["kind"] = name
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    plan = plan_with(model, tmp_path / "rows.jsonl", "Adds", "Fails")
    plan["data"]["columns"] = {"solution": "{{ answer }}"}
    own = [{**{key: value for key, value in row.items() if key != "kind"}, "environment": row["kind"]} for row in own]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    run = trained(plan, user={"mine.py": GAME})
    assert run.exit_code == 3
    assert f"row 41 {said}" in run.output or f"row 41 has the {said}" in run.output
