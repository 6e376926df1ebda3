"""The table of a sweep: what the outcome is, which runs count, and what it says of the differences."""

import dataclasses
import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from support.plans import small_plan
from support.report_page import Page

from grpo_recipes.cli.sweeps.training import write_report
from grpo_recipes.contract.plan import Reward, to_json
from grpo_recipes.sweep.comparison import SweepComparison, compare_settings, conclusion
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun, read_sweep, write_sweep_file
from grpo_recipes.sweep.table import table_text
from grpo_recipes.sweep.variations import Trial

RATE = "training.learning_rate"
REWARD = small_plan().rewards[0].name
ROWS = 200


def trial(rate: str) -> Trial:
    return ((RATE, rate),)


def swept(place: Path, outcomes: Mapping[str, Sequence[float]], *, base: int | None = None, rows: bool = False) -> str:
    """The folder of a sweep over rates, each with an outcome for each seed; rows: with held-out rows."""
    place.mkdir()
    seeds = tuple(range(len(next(iter(outcomes.values())))))
    runs = []
    for seed in seeds:
        for setting, (rate, values) in enumerate(outcomes.items()):
            run = SweepRun(f"{rate}-{seed}", setting, seed)
            runs.append(run)
            completed(place / run.name, values[seed], rows=rows)
    write_sweep_file(place, Sweep("r.yaml", tuple(map(trial, outcomes)), seeds, tuple(runs), base))
    return str(place)


def completed(folder: Path, outcome: float, *, rows: bool = False) -> None:
    """A run that completed; of its held-out rows the first ones are right."""
    folder.mkdir()
    (folder / "plan.json").write_text(to_json(small_plan()))
    (folder / "launch.sh").write_text("")
    if rows:
        (folder / "evaluation").mkdir()
        right = round(outcome * ROWS)
        lines = [json.dumps({"row": row, "rewards": {REWARD: float(row < right)}}) for row in range(ROWS)]
        (folder / "evaluation" / "step-9.jsonl").write_text("\n".join(lines) + "\n")
        outcome = right / ROWS
    record(folder, status="completed", step=9, max_steps=9, evaluation={"after": {"step": 9, "reward": outcome}})


def record(folder: Path, **keys: Any) -> None:
    (folder / "run.json").write_text(json.dumps({"run": 1, **keys}))


def found(folder: str) -> SweepComparison:
    return compare_settings(folder, read_sweep(folder))


CLEAR = {"1e-3": [0.50, 0.52, 0.51], "2e-3": [0.90, 0.93, 0.91], "3e-3": [0.70, 0.73, 0.70]}


def test_intervals_stay_within_the_limits_of_the_rewards(tmp_path: Path) -> None:
    low, high = found(swept(tmp_path / "s", {"1e-3": [0.05, 0.95], "2e-3": [0.2, 0.3]})).settings
    assert low.interval == (0.0, 1.0)
    assert high.interval is not None and high.interval[0] == 0.0 and high.interval[1] < 1.0
    for plan in (tmp_path / "s").glob("*/plan.json"):
        own = dataclasses.replace(small_plan(), rewards=(Reward("python", "exact_match", "mine.py:f", 1.0),))
        plan.write_text(to_json(own))
    low, _ = found(str(tmp_path / "s")).settings
    assert low.interval is not None and low.interval[0] < 0 and low.interval[1] > 1


def test_settings_that_differ_are_told_and_the_best_is_named(tmp_path: Path, grpo_run: Callable) -> None:
    folder = swept(tmp_path / "swept", CLEAR, base=0)
    answer = grpo_run("sweep", folder, "--table")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "outcome: held-out reward after the last step; mean and its 95% interval over the seeds 0, 1, 2"
    assert [line.split("  ")[0] for line in lines[2:6]] == ["learning_rate", "2e-3", "3e-3", "1e-3"]
    assert lines[3].split()[:6] == ["2e-3", "3/3", "0.913", "[0.875,", "0.951]", "best"]
    assert lines[3].split()[6:] == ["+0.403", "higher,", "p", "0.00014"]
    assert lines[4].split()[5:9] == ["-0.203", "lower,", "p", "0.00054"]
    assert lines[5].split()[-1] == "base"
    assert "test: paired t-test over 3 seeds; p after Holm's correction, for the best over all 3 pairs" in answer.out
    assert lines[-1] == "learning_rate=2e-3 is the best, and its difference to each other setting exceeds noise"


def test_the_answer_for_programs_has_all_of_it(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("sweep", swept(tmp_path / "swept", CLEAR, base=0), "--table", "--json")
    content = json.loads(answer.out)
    assert content["measure"] == "held-out reward after the last step"
    assert content["test"] == {
        "name": "paired t-test over seeds",
        "correction": "Holm",
        "level": 0.05,
        "held_out_rows": 0,
        "pairs": 3,
    }
    best = content["settings"][1]
    assert (best["values"], best["is_best"], best["to_best"]) == ({RATE: "2e-3"}, True, None)
    assert best["to_base"]["is_told"] and best["to_base"]["difference"] == pytest.approx(0.4033, abs=1e-4)
    assert [run["outcome"] for run in best["runs"]] == [0.9, 0.93, 0.91]
    assert content["settings"][0]["to_base"] is None


def test_few_seeds_that_cannot_decide_say_so(tmp_path: Path) -> None:
    noisy = {"1e-3": [0.50, 0.70, 0.55], "2e-3": [0.62, 0.69, 0.66]}
    comparison = found(swept(tmp_path / "swept", noisy))
    verdict = comparison.settings[0].to_best
    assert verdict is not None and not verdict.is_told
    assert conclusion(comparison) == ["no difference exceeds noise with 3 seeds"]
    assert "within noise, p 0.22" in table_text(comparison)


def test_two_names_of_one_value_are_no_difference(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", {"2e-3": [0.5, 0.6, 0.7], "0.002": [0.5, 0.6, 0.7]}, base=0)
    text = table_text(found(folder))
    assert "no difference" in text.splitlines()[4]
    assert text.splitlines()[-1] == "no difference exceeds noise with 3 seeds: the settings have the same mean"


def test_two_names_whose_runs_have_noise_are_told_apart_in_one_of_twenty_sweeps_at_most(tmp_path: Path) -> None:
    numbers = random.Random(3)
    told = 0
    for place in range(200):
        rates = {rate: [0.6 + numbers.gauss(0, 0.05) for _ in range(3)] for rate in ("2e-3", "0.002")}
        verdicts = [one.to_best for one in found(swept(tmp_path / str(place), rates)).settings]
        told += any(verdict.is_told for verdict in verdicts if verdict is not None)
    assert told <= 10 + 6  # 10 are expected, and 3 in 100 such series have more than 16


def test_one_seed_tells_no_difference_from_noise(tmp_path: Path) -> None:
    comparison = found(swept(tmp_path / "swept", {"1e-3": [0.1], "2e-3": [0.9]}))
    assert conclusion(comparison) == ["one seed cannot tell a difference from noise; use at least --seeds 3"]
    assert "too coarse" not in table_text(comparison)


def test_held_out_rows_have_a_part_in_the_noise(tmp_path: Path) -> None:
    """Of 200 rows one was answered otherwise in each seed: seeds alone would call that certain."""
    close = {"1e-3": [0.50, 0.55, 0.60], "2e-3": [0.505, 0.555, 0.605]}
    comparison = found(swept(tmp_path / "with", close, rows=True))
    assert comparison.rows == ROWS
    verdict = comparison.settings[0].to_best
    assert verdict is not None and not verdict.is_told and verdict.p is not None and verdict.p > 0.05
    assert "with the noise of 200 held-out rows" in table_text(comparison)
    far = found(swept(tmp_path / "far", {"1e-3": [0.3, 0.35, 0.32], "2e-3": [0.8, 0.84, 0.83]}, rows=True))
    assert far.settings[0].to_best is not None and far.settings[0].to_best.is_told


def sampled(folder: Path, values: Sequence[Sequence[float | None]]) -> None:
    """A run that completed, with several completions of each held-out row; None: a completion that no reward scored."""
    completed(folder, 0.0)
    lines = [
        json.dumps({"row": row, "rewards": {REWARD: value}}) for row, of_row in enumerate(values) for value in of_row
    ]
    (folder / "evaluation").mkdir()
    (folder / "evaluation" / "step-9.jsonl").write_text("\n".join(lines) + "\n")
    scored = [[value for value in of_row if value is not None] for of_row in values]
    means = [sum(of_row) / len(of_row) for of_row in scored if of_row]
    outcome = sum(means) / len(means)
    record(folder, status="completed", step=9, max_steps=9, evaluation={"after": {"step": 9, "reward": outcome}})


def swept_samples(folder: Path, settings: Sequence[Sequence[Sequence[Sequence[float | None]]]]) -> str:
    """The folder of a sweep over two rates. settings: of each, by seed, the completions of each row."""
    folder.mkdir()
    seeds = tuple(range(len(settings[0])))
    runs = [SweepRun(f"{place}-{seed}", place, seed) for seed in seeds for place in range(len(settings))]
    for run in runs:
        sampled(folder / run.name, settings[run.setting][run.seed])
    trials = tuple(trial(rate) for rate in ("1e-3", "2e-3"))
    write_sweep_file(folder, Sweep("r.yaml", trials, seeds, tuple(runs), None))
    return str(folder)


def test_several_completions_of_a_row_are_one_row_of_noise(tmp_path: Path) -> None:
    """One of six rows is answered otherwise, in each of its 16 completions and with each seed: chance of the rows."""
    rows = [[0.0] * 16, *([[1.0, 0.0] * 8] * 5)]
    other = [[1.0] * 16, *rows[1:]]
    comparison = found(swept_samples(tmp_path / "swept", [[rows] * 3, [other] * 3]))
    assert comparison.rows == 6
    verdict = comparison.settings[0].to_best
    assert verdict is not None and not verdict.is_told and verdict.p is not None and verdict.p > 0.05


def test_completions_without_a_reward_are_missing_and_not_zero(tmp_path: Path) -> None:
    first: list[list[float | None]] = [[1.0, None], [0.0, 1.0], [None, None], [1.0, 1.0]]
    second: list[list[float | None]] = [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [None, 0.5]]
    comparison = found(swept_samples(tmp_path / "swept", [[first] * 2, [second] * 2]))
    verdict = comparison.settings[1].to_best
    assert verdict is not None
    assert (comparison.rows, verdict.difference.rows) == (3, 3)  # of the row without any reward nothing is known
    assert verdict.difference.row_variance == pytest.approx(0.25 / 9)  # differences 0, 0.5 and 0.5


def test_rows_that_do_not_add_up_to_the_outcome_are_left_out(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", CLEAR, rows=True)
    rows = Path(folder) / "1e-3-0" / "evaluation" / "step-9.jsonl"
    rows.write_text(rows.read_text().replace("1.0", "0.0"))
    assert found(folder).rows == 0


def test_the_outcome_of_several_held_out_sets_is_that_of_the_set_that_decides(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", CLEAR, rows=True)
    for place in Path(folder).glob("*-*/"):
        (place / "evaluation" / "step-9.jsonl").rename(place / "evaluation" / "hard-step-9.jsonl")
        after = json.loads((place / "run.json").read_text())["evaluation"]["after"]
        others = {"easy": {"after": {"step": 9, "set": "easy", "reward": 1.0}}}
        evaluation = {"after": {**after, "set": "hard"}, "others": others}
        record(place, status="completed", step=9, max_steps=9, evaluation=evaluation)
    comparison = found(folder)
    assert comparison.measure == "held-out reward after the last step, of hard"
    assert (comparison.rows, [one.is_best for one in comparison.settings]) == (ROWS, [False, True, False])


def test_a_setting_that_lacks_an_outcome_is_compared_with_none_and_never_the_best(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", {**CLEAR, "2e-2": [0.99, 0.0, 0.0]})
    record(Path(folder, "2e-2-1"), status="stopped", step=3, findings=[{"id": "GRD003"}])
    record(Path(folder, "2e-2-2"), status="interrupted", step=3)
    comparison = found(folder)
    assert [one.is_best for one in comparison.settings] == [False, True, False, False]
    assert comparison.settings[3].to_best is None
    said = "learning_rate=2e-2 is not compared: 2 of its 3 runs have no outcome (stopped GRD003, interrupted)"
    assert conclusion(comparison)[0] == said
    assert table_text(comparison).splitlines()[6].split() == ["2e-2", "1/3", "0.990", "-", "-"]


def test_a_sweep_that_has_just_begun_has_a_table(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", {"1e-3": [0.5, 0.6], "2e-3": [0.5, 0.6]})
    for run in Path(folder).glob("*-*"):
        (run / "run.json").unlink()
    text = table_text(found(folder))
    assert "outcome: not known yet, no run has completed" in text
    assert "learning_rate=1e-3 is not compared: 2 of its 2 runs have no outcome (planned)" in text


def test_without_held_out_rewards_the_last_tenth_of_the_steps_counts(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", {"1e-3": [0.0, 0.0], "2e-3": [0.0, 0.0]})
    for place, run in enumerate(sorted(Path(folder).glob("*-*"))):
        record(run, status="completed", step=20, max_steps=20)
        events = [
            {"event": "step", "step": step, "reward": float(place) if step > 18 else 9.0} for step in range(1, 21)
        ]
        # The groups that redrawing kept have another mean than what the policy answers.
        events[-1] |= {"reward": 50.0, "resample/reward": float(place)}
        again = [{"event": "step", "step": 20, "reward": 100.0}, *events]  # of an attempt before it was resumed
        (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in again))
    comparison = found(folder)
    assert comparison.measure == "mean training reward of the last tenth of the steps"
    assert [one.mean for one in comparison.settings] == [0.5, 2.5]
    # The differences are 2 and 2.
    assert "the outcome is too coarse to measure its noise" in table_text(comparison)


def test_a_list_of_runs_names_a_sweep_among_them(tmp_path: Path, grpo_run: Callable) -> None:
    folder = swept(tmp_path / "swept", CLEAR)
    assert grpo_run("runs", str(tmp_path)).err.splitlines()[-1] == "not a run: swept (a sweep, which contains its runs)"
    assert len(json.loads(grpo_run("runs", folder, "--json").out)["runs"]) == 9


def test_settings_with_other_rewards_are_not_measured_alike(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", CLEAR)
    sweep = read_sweep(folder)
    trials = tuple((("rewards[0].weight", rate),) for ((_, rate),) in sweep.settings)
    write_sweep_file(Path(folder), sweep._replace(settings=trials))
    assert "rewards[0].weight is part of the outcome itself" in table_text(found(folder))


@pytest.mark.parametrize(("name", "is_told"), [("easy", False), ("hard", True)])
def test_only_the_set_that_decides_is_part_of_the_outcome(name: str, is_told: bool, tmp_path: Path) -> None:
    key = f"evaluation.sets.{name}.max_rows"
    comparison = found(swept(tmp_path / "swept", CLEAR))
    trials = tuple(((key, rate),) for ((_, rate),) in comparison.sweep.settings)
    varied = comparison._replace(
        sweep=comparison.sweep._replace(settings=trials), measure=f"{comparison.measure}, of hard"
    )
    assert (f"{key} is part of the outcome itself" in table_text(varied)) is is_told


def test_a_run_that_was_removed_or_is_damaged_is_named(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", CLEAR)
    (Path(folder) / "1e-3-0" / "run.json").write_text("{")
    Path(folder, "3e-3-1").rename(tmp_path / "elsewhere")
    said = conclusion(found(folder))
    assert "1 of its 3 runs has no outcome (damaged record)" in said[0]
    assert "1 of its 3 runs has no outcome (missing)" in said[1]


def test_the_report_begins_with_the_conclusion_and_draws_each_setting(tmp_path: Path, grpo_run: Callable) -> None:
    folder = swept(tmp_path / "swept", CLEAR, base=0)
    answer = grpo_run("report", folder, "-o", str(tmp_path / "page.html"))
    assert answer.code == 0, answer.err
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Sweep of 9 runs learning_rate=2e-3 is the best" in page.first_screen
    assert page.first_screen.count("is the best") == 1
    dots = [float(str(each["cx"]).rstrip("%")) for tag, each in page.tags if tag == "circle"]
    lines = [[float(str(each[end]).rstrip("%")) for end in ("x1", "x2")] for tag, each in page.tags if tag == "line"]
    assert len(dots) == 3 * (3 + 1) and len(lines) == 3
    assert all(0 <= end <= 100 for end in (*dots, *chain.from_iterable(lines)))
    means = dots[3::4]
    assert means == sorted(means, reverse=True)
    assert all(low < mean < high for (low, high), mean in zip(lines, means, strict=True))


def test_the_report_has_the_runs_that_began_and_replaces_no_file_of_somebody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = swept(tmp_path / "swept", CLEAR)
    Path(folder, "1e-3-0", "run.json").unlink()
    page = Path(folder, "report.html")
    write_report(folder)
    assert page.read_text().count('<details class="run"') == 8
    assert '<td dir="auto">[0.875, 0.951]</td>' in page.read_text()
    assert "1e-3 is not compared: 1 of its 3 runs has no outcome (planned)" in page.read_text()
    page.write_text("mine")
    write_report(folder)
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith(f"{page}  ") and f"no report: {page} already exists" in answer.err
    assert page.read_text() == "mine"


@pytest.mark.parametrize("lacking", ["without_score", "without_reward"])
def test_a_run_that_left_completions_without_a_score_is_not_compared(tmp_path: Path, lacking: str) -> None:
    """Its mean is of other rows: 0.95 over the half that was scored is no better than 0.9 over all."""
    folder = swept(tmp_path / "swept", {"1e-3": [0.90, 0.91], "2e-3": [0.95, 0.96]}, rows=True)
    after = {"step": 9, "reward": 0.95, lacking: 100}
    record(Path(folder) / "2e-3-1", status="completed", step=9, max_steps=9, evaluation={"after": after})
    assert [setting.is_best for setting in found(folder).settings] == [True, False]
    assert conclusion(found(folder)) == [
        "learning_rate=2e-3 is not compared: 1 of its 2 runs has no outcome (completed, with completions that have no"
        " judge's score or no reward)"
    ]


def test_runs_whose_rewards_leave_out_as_many_completions_are_compared(tmp_path: Path) -> None:
    folder = swept(tmp_path / "swept", {"1e-3": [0.90, 0.91], "2e-3": [0.95, 0.96]}, rows=True)
    for place, reward in enumerate((0.90, 0.91, 0.95, 0.96)):
        after = {"step": 9, "reward": reward, "without_reward": 20}
        name = f"{place // 2 + 1}e-3-{place % 2}"
        record(Path(folder) / name, status="completed", step=9, max_steps=9, evaluation={"after": after})
    assert all(setting.is_whole for setting in found(folder).settings)
