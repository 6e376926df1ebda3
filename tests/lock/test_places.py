"""A plan is launched by somebody else, from somewhere else: its files are found again, or named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import REWARD, STACK, drift_of, make_project, planned, states


def test_a_run_folder_finds_its_files_where_the_whole_checkout_lies_now(tmp_path: Path, grpo_run: Callable) -> None:
    planned(make_project(tmp_path / "alice" / "project"), grpo_run)
    shutil.move(tmp_path / "alice", tmp_path / "bob")
    moved = tmp_path / "bob" / "project" / "runs" / "first"
    code, lines = drift_of(moved, grpo_run)
    assert (code, states(lines), states(lines, "cannot be verified")) == (0, {}, {})
    again = tmp_path / "again"
    assert grpo_run(str(moved), "--target", STACK, "--dry-run", "--out", str(again)).code == 0
    plan = json.loads((again / "plan.json").read_text())
    assert plan["model"]["path"] == str(tmp_path / "bob" / "project" / "model")
    assert plan["data"]["path"] == str(tmp_path / "bob" / "project" / "rows.jsonl")
    assert plan["tokenizer"]["chat_template_path"] == str(tmp_path / "bob" / "project" / "chat.jinja")
    assert plan["evaluation"]["data"]["path"] == str(tmp_path / "bob" / "project" / "held-out.jsonl")
    assert "alice" not in (again / "recipe.yaml").read_text()


def test_the_files_of_held_out_sets_are_found_again(tmp_path: Path, grpo_run: Callable) -> None:
    sets = {"few": {"path": "./held-out.jsonl", "max_rows": 2}, "new": {"path": "./held-out.jsonl"}}
    how = {"sets": sets, "decided_by": "new", "every_steps": 1, "keep_best": True}
    planned(make_project(tmp_path / "alice" / "project", {"evaluation": how}), grpo_run)
    shutil.move(tmp_path / "alice", tmp_path / "bob")
    code, lines = drift_of(tmp_path / "bob" / "project" / "runs" / "first", grpo_run)
    assert (code, states(lines), states(lines, "cannot be verified")) == (0, {}, {})


@pytest.mark.parametrize("place", ["beside the recipe", "elsewhere, from the recipe's folder"])
def test_a_plan_alone_finds_its_files_beside_the_recipe(
    tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    run = planned(make_project(tmp_path / "alice"), grpo_run)
    sent = tmp_path / "mail" / "plan.json"
    sent.parent.mkdir()
    shutil.copy(run / "plan.json", sent)
    bob = make_project(tmp_path / "bob")
    if place == "beside the recipe":
        sent = shutil.move(sent, bob / "plan.json")
    else:
        monkeypatch.chdir(bob)
    shutil.rmtree(tmp_path / "alice")
    code, lines = drift_of(sent, grpo_run)
    assert (code, states(lines), states(lines, "cannot be verified")) == (0, {}, {})


def test_what_is_nowhere_is_named_with_where_it_was(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "alice"), grpo_run)
    sent = tmp_path / "mail" / "first"
    shutil.copytree(run, sent)
    shutil.rmtree(tmp_path / "alice")
    code, lines = drift_of(sent, grpo_run)
    missing = {what for what, line in lines.items() if line["new"] == "missing"}
    assert (code, missing) == (2, {"model", "chat template", "dataset", "evaluation"})
    assert set(lines) == missing, "the run folder has the code of rewards"
    assert str(tmp_path / "alice" / "model") in str(lines["model"]["why"])


def test_what_is_nowhere_can_be_given_another_place(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "alice"), grpo_run)
    shutil.move(tmp_path / "alice" / "model", tmp_path / "store")
    assert drift_of(run, grpo_run)[0] == 2
    code, lines = drift_of(run, grpo_run, "--set", f"model.model_name_or_path={tmp_path / 'store'}")
    assert (code, states(lines)) == (0, {}), "the same weights elsewhere are the same experiment"


def test_of_two_places_the_one_with_the_planned_content_is_taken(tmp_path: Path, grpo_run: Callable) -> None:
    planned(make_project(tmp_path / "alice"), grpo_run)
    shutil.copytree(tmp_path / "alice", tmp_path / "bob")
    (tmp_path / "alice" / "rows.jsonl").write_text('{"question": "9+9="}\n' * 8)
    code, lines = drift_of(tmp_path / "bob" / "runs" / "first", grpo_run)
    assert (code, states(lines)) == (0, {})


def test_nothing_of_a_plan_is_believed_but_its_recipe(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    plan = json.loads((run / "plan.json").read_text())
    plan["environment"] = {"LD_PRELOAD": "/tmp/evil.so"}
    plan["arguments"]["GRPOConfig"]["learning_rate"] = 1.0
    plan["rewards"][0]["target"] = "../../../evil.py:last_digit"
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "launch.sh").write_text("echo evil\n")
    again = tmp_path / "again"
    assert grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(again)).code in (0, 2)
    if again.exists():
        written = (again / "plan.json").read_text() + (again / "launch.sh").read_text()
        assert "evil" not in written
        assert json.loads((again / "plan.json").read_text())["arguments"]["GRPOConfig"]["learning_rate"] != 1.0


def test_the_places_of_a_new_plan_are_those_of_the_run_folder(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    (tmp_path / "a" / "rewards.py").unlink()
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (0, {})
    assert (run / "worker" / "user" / "rewards.py").read_text() == REWARD
