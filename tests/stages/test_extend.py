"""`grpo-run RUNDIR --extend KEY=VALUE`: a finished run made longer, in a folder of its own."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from stage_runs import FIRST, OTHERS, Command, Run

from grpo_recipes.contract.files.folder_lock import LAUNCHING, hold_lock
from grpo_recipes.contract.integrity.run_folder import record_text

pytestmark = pytest.mark.stack


def content_of(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def weights(run: Run) -> str:
    return hashlib.sha256((run.folder / "final/adapter_model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def longer(command: Command, first: Run, place: Path) -> Run:
    """The first run, of two steps, made four steps long."""
    before = content_of(first.folder)
    done = command("first", "--extend", "training.max_steps=4", "--out", "longer", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert content_of(first.folder) == before, "the old folder is as it was"
    return Run(done.returncode, done.stdout + done.stderr, place / "longer")


def test_two_steps_and_two_more_are_the_run_of_four_steps_bit_for_bit(longer: Run, staged: Callable[..., Run]) -> None:
    training = {**FIRST["training"], "max_steps": 4}  # type: ignore[dict-item]
    whole = staged("whole", training=training)
    assert whole.code == 0, whole.said
    assert weights(longer) == weights(whole)
    for name in ("loss", "reward", "grad_norm", "learning_rate", "num_tokens"):
        assert longer.figures(name) == whole.figures(name)[2:]
    record = json.loads((longer.folder / "run.json").read_text())
    assert (record["status"], record["step"], record["max_steps"]) == ("completed", 4, 4)
    assert record["resumed"] == ["extends first from checkpoint-2"]


def test_a_longer_run_says_what_it_came_from(longer: Run, first: Run, command: Command, place: Path) -> None:
    digest = hashlib.sha256((first.folder / "plan.json").read_bytes()).hexdigest()
    assert (longer.plan["extends"]["use"], longer.plan["extends"]["plan_sha256"]) == ("extend", digest)
    said = command("diff", "first", "longer", cwd=place).stdout
    assert f"     extends first, step 2, plan {digest[:12]}" in said
    assert "training.max_steps" in said
    card = (longer.folder / "final/README.md").read_text()
    made_of = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    (run,) = made_of["ancestors"]
    assert (run["name"], run["use"], run["step"], run["plan_sha256"]) == ("first", "extend", 2, digest)
    assert "This run extended first with `--extend`, from step 2. The recipe below trains its whole length" in card
    assert "with `--extend`" not in (first.folder / "final/README.md").read_text()


def test_a_schedule_that_begins_anew_is_said(command: Command, place: Path, staged: Callable[..., Run]) -> None:
    linear = staged("linear", training={**FIRST["training"], "lr_scheduler_type": "linear"})  # type: ignore[dict-item]
    assert linear.code == 0, linear.said
    done = command("linear", "--extend", "training.max_steps=4", "--out", "linear-longer", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "the schedule linear is computed for the new length: after step 2" in done.stderr
    rates = Run(0, "", place / "linear-longer").figures("learning_rate")
    whole = FIRST_RATE * 0.5, FIRST_RATE * 0.25
    assert rates == pytest.approx(whole)


def test_a_longer_run_is_made_longer_and_compared_with_the_policy_before_the_shortest_one(
    command: Command, place: Path, staged: Callable[..., Run]
) -> None:
    short = staged("measured", evaluation={"path": OTHERS, "max_rows": 8})
    assert short.code == 0, short.said
    for name, older, steps in (("measured-longer", "measured", 3), ("measured-longest", "measured-longer", 4)):
        done = command(older, "--extend", f"training.max_steps={steps}", "--out", name, cwd=place)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "schedule" not in done.stderr.replace("its schedule and its position", "")
        rows = (place / name / "evaluation/step-0.jsonl").read_bytes()
        assert rows == (short.folder / "evaluation/step-0.jsonl").read_bytes()
        evaluation = json.loads((place / name / "run.json").read_text())["evaluation"]
        assert (evaluation["before"]["step"], evaluation["after"]["step"]) == (0, steps)
        assert evaluation["after"]["change"]["intervals"]["reward"]
        assert "nothing was held out" not in done.stdout
    plan = json.loads((place / "measured-longest/plan.json").read_text())
    assert [run["name"] for run in plan["extends"]["before"]] == ["measured"]


FIRST_RATE = 0.002  # of recipes/quickstart.yaml


def test_what_cannot_be_made_longer_is_told_why(first: Run, command: Command, place: Path) -> None:
    def refused(*words: str) -> str:
        done = command(*words, cwd=place)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    assert "it takes training.max_steps=NUMBER or" in refused("first", "--extend", "grpo.beta=0.1")
    assert "the new length does not extend it" in refused("first", "--extend", "training.max_steps=2")
    assert "--extend changes nothing else" in refused("first", "--extend", "training.max_steps=4", "--smoke")
    assert "is a recipe, but --extend needs a run folder" in refused("first.yaml", "--extend", "training.max_steps=4")

    (spaced := place / "a run").mkdir()
    shutil.copytree(first.folder, spaced, dirs_exist_ok=True)
    record = json.loads((spaced / "run.json").read_text())
    (spaced / "run.json").write_text(record_text(spaced, {**record, "status": "interrupted"}))
    assert f"= fix: grpo-run '{spaced}' --resume" in refused("a run", "--extend", "training.max_steps=4")
    with hold_lock(spaced, LAUNCHING):
        # A lock of this process holds nothing up in it.
        words = [sys.executable, "-m", "grpo_recipes.cli.main", "a run", "--extend", "training.max_steps=4"]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=300)
        assert (done.returncode, "it is still training" in done.stderr) == (2, True), done.stderr

    shutil.copytree(first.folder, place / "bare")
    shutil.rmtree(place / "bare/checkpoints")
    assert "has no complete checkpoint" in refused("bare", "--extend", "training.max_steps=4")
    (place / "bare/run.json").unlink()
    shutil.rmtree(place / "bare/final")
    assert "only a finished run can be extended" in refused("bare", "--extend", "training.max_steps=4")


def test_a_longer_run_that_broke_off_early_goes_on_from_where_the_old_one_ended(
    longer: Run, command: Command, place: Path
) -> None:
    shutil.copytree(longer.folder, place / "again")
    for left in ("checkpoints", "final"):
        shutil.rmtree(place / "again" / left)
    for left in ("run.json", "metrics.jsonl"):
        (place / "again" / left).unlink()
    done = command("again", "--resume", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(Run(0, "", place / "again")) == weights(longer)


def test_a_checkpoint_that_changed_since_stops_the_longer_run(longer: Run, command: Command, place: Path) -> None:
    shutil.copytree(longer.folder, place / "changed")
    for left in ("checkpoints", "final"):
        shutil.rmtree(place / "changed" / left)
    (place / "changed/run.json").unlink()
    shutil.copytree(place / "first/checkpoints/checkpoint-2", place / "kept")
    optimizer = place / "first/checkpoints/checkpoint-2/optimizer.pt"
    content = bytearray(optimizer.read_bytes())
    content[-1] ^= 1
    optimizer.write_bytes(content)
    try:
        done = command("changed", "--resume", cwd=place)
    finally:
        shutil.copy(place / "kept/optimizer.pt", optimizer)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "of first is incomplete, so the run cannot continue from it" in done.stdout + done.stderr


def test_a_run_that_ended_early_is_made_longer_and_seeks_its_best_anew(
    staged: Callable[..., Run], command: Command, place: Path
) -> None:
    # So small a step changes no answer: no evaluation is better than the first one, of step 1.
    training = {**FIRST["training"], "max_steps": 6, "save_steps": 1, "save_total_limit": 1, "learning_rate": 1e-7}  # type: ignore[dict-item]
    how = {"path": OTHERS, "max_rows": 4, "every_steps": 1, "keep_best": True, "stop_after": 2, "at_start": False}
    early = staged("early", training=training, evaluation=how)
    assert early.code == 0, early.said
    record = json.loads((early.folder / "run.json").read_text())
    why = "ended early, at step 3 of 6: 2 evaluations and none better than that of step 1"
    assert (record["status"], record["step"], record["final_step"], record["message"]) == ("completed", 3, 1, why)
    assert f"completed at step 3 of 6\n  {why}\n" in early.said
    assert "final, of step 1, the best evaluation" in " ".join(early.said.split())

    done = command("early", "--resume", cwd=place)
    assert (done.returncode, "early is finished" in done.stderr) == (2, True), done.stderr

    done = command("early", "--extend", "training.max_steps=5", "--out", "early-longer", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((place / "early-longer/run.json").read_text())
    assert (record["status"], record["step"], record["final_step"], record["message"]) == ("completed", 5, 4, None)
    assert sorted(path.name for path in (place / "early-longer/checkpoints").iterdir()) == [
        "checkpoint-4",
        "checkpoint-5",
    ]

    (place / "after-early.yaml").write_text(json.dumps({**FIRST, "name": "after", "model": {"from_run": "./early"}}))
    done = command("after-early.yaml", "--dry-run", "--out", "after-early", cwd=place)
    next_one = Run(done.returncode, done.stdout + done.stderr, place / "after-early")
    assert next_one.code == 0, next_one.said
    assert next_one.plan["ancestor"]["step"] == 1, "the step that final/ is of"
