"""Samples of completions behind the steps that are told."""

import io
import json
from pathlib import Path

import pytest
from support.work import takes_at_most

from grpo_recipes.launch.display import PlainProgress
from grpo_recipes.launch.progress import View
from grpo_recipes.launch.run_events import RunEvents, read_samples, sample_lines

ROW = {
    "prompt": "17+25=",
    "completion": "42",
    "rewards": {"exact_match": 1.0, "nearness": None},
    "reward": 1.0,
    "advantage": 0.5,
    "tokens": 2,
    "ended": "eos",
}


def write(folder: Path, steps: range, count: int = 2, **changes: object) -> None:
    lines = [{"event": "completions", "step": step, "rows": [{**ROW, **changes}] * count} for step in steps]
    (folder / "completions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_folder_without_completions_has_no_samples(tmp_path: Path) -> None:
    assert read_samples(str(tmp_path), 1) == []
    damaged = 'not json\n[1]\n{"step": 1}\n{"step": 1, "rows": ["a"]}\n{"step": 1, "ro'
    (tmp_path / "completions.jsonl").write_text(damaged)
    assert read_samples(str(tmp_path), 1) == []


def test_the_newest_generation_up_to_a_step_counts(tmp_path: Path) -> None:
    lines = [{"step": step, "rows": [{"completion": str(step)}]} for step in (1, 3, 5)]
    (tmp_path / "completions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [read_samples(str(tmp_path), step) for step in (0, 4, 9)] == [
        [],
        [{"completion": "3"}],
        [{"completion": "5"}],
    ]


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, range(1, 100), completion="x" * (1 << 17))
    assert (tmp_path / "completions.jsonl").stat().st_size > 8 << 20
    with takes_at_most(1):
        assert read_samples(str(tmp_path), 1) == []
        assert len(read_samples(str(tmp_path), 99)) == 2


def test_a_sample_has_its_rewards_and_steers_no_terminal() -> None:
    assert sample_lines([ROW], 7) == [
        "sample at step 7  reward 1  exact_match 1  ended by eos",
        "  17+25=",
        "  -> 42",
    ]
    row = {**ROW, "prompt": "a\n\tb", "completion": "\x1b[2J\x07" + "y" * 300 + "end", "rewards": {"\x1b]0;t": 1}}
    head, prompt, completion = sample_lines([row], 7)
    assert "\x1b" not in head + completion
    assert prompt == "  a b"
    assert completion.startswith("  -> ...y") and completion.endswith("yend")


@pytest.mark.parametrize(
    ("view", "steps"),
    [
        (View(), []),
        (View(samples=1), [*range(1, 40, 4), 40]),
        (View("verbose", samples=2), [step for step in range(1, 41) for _ in range(2)]),
    ],
    ids=["not asked for", "with the steps that are told", "of each step"],
)
def test_samples_come_behind_the_steps_that_are_told(view: View, steps: list[int], tmp_path: Path) -> None:
    write(tmp_path, range(1, 41))
    events = [{"event": "step", "step": step, "max_steps": 40, "reward": 0.5} for step in range(1, 41)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    echo = io.StringIO()
    with PlainProgress(echo, view) as shown:
        for event in RunEvents(str(tmp_path), 0.0, shown.view).new():
            shown.show(event)
    lines = echo.getvalue().splitlines()
    found = [place for place, line in enumerate(lines) if line.startswith("sample at step ")]
    assert [int(lines[place].split()[3]) for place in found] == steps
    for place in found[:1]:
        assert lines[place - 1].startswith("step 1/40")
        assert lines[place + 1 : place + 3] == ["  17+25=", "  -> 42"]
