"""What is shown while a run trains and when it has ended."""

import io
import json
import re
from pathlib import Path

import pytest

from grpo_recipes.contract.metrics import read_new
from grpo_recipes.contract.run_record import RunRecord, amend_record, read_record, write_record
from grpo_recipes.launch.live_line import clock, live_line, step_parts, step_text
from grpo_recipes.launch.progress import Estimate, PlainProgress, TerminalProgress, progress
from grpo_recipes.launch.summary import summary


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_metrics_are_read_line_by_complete_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read_new(str(path), 0) == ([], 0)
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    events, offset = read_new(str(path), 0)
    assert events == [{"step": 1}, {"step": 2}]
    assert read_new(str(path), offset) == ([], offset)
    with path.open("a") as file:
        file.write('ep": 3}\nnot json\n[1]\n{"step": 4}\n')
    events, offset = read_new(str(path), offset)
    assert events == [{"step": 3}, {"step": 4}]
    path.write_text('{"step": 9}\n')
    assert read_new(str(path), offset)[0] == [{"step": 9}]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({}, ""),
        ({"reward": "high", "step_time": None, "frac_reward_zero_std": float("nan")}, ""),
        ({"reward": 0}, "reward 0.000"),
        (
            {
                "reward": 0.5,
                "frac_reward_zero_std": 0.25,
                "completions/clipped_ratio": 0.0,
                "step_time": 0.3127,
            },
            "reward 0.500  groups without variance 25%  truncated 0%  0.313 s/step",
        ),
    ],
    ids=["nothing known", "not figures", "zero is a figure", "all"],
)
def test_a_step_in_words_leaves_out_what_it_does_not_know(event: dict[str, object], text: str) -> None:
    assert step_text(event, None) == text


def test_the_estimate_follows_the_newest_steps() -> None:
    estimate = Estimate()
    assert estimate.seconds_left({"step": 1}, 100.0) is None
    assert estimate.seconds_left({"step": 2, "max_steps": 12}, 102.0) == 20.0
    for step in range(3, 23):
        left = estimate.seconds_left({"step": step, "max_steps": 30}, 101.0 + step * 0.5)
    assert left == 8 * 0.5
    assert Estimate().seconds_left({"step": 1, "max_steps": 5, "step_time": 2.0}, 0.0) == 8.0


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00:00"), (125.4, "0:02:05"), (360_000, "100:00:00")])
def test_a_clock_counts_hours(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize("max_steps", [3, 40, 20_000, None])
def test_plain_progress_is_short_however_long_the_run(max_steps: int | None) -> None:
    echo = io.StringIO()
    with PlainProgress(echo) as shown:
        shown.show({"event": "start", "max_steps": max_steps})
        for step in range(1, (max_steps or 20_000) + 1):
            shown.show({"event": "step", "step": step, "reward": 0.5})
    lines = echo.getvalue().splitlines()
    assert lines[0].startswith("step 1")
    assert len(lines) <= 30
    if max_steps is not None:
        assert lines[-1].startswith(f"step {max_steps}/{max_steps}")
        assert len(lines) >= min(max_steps, 10)


def test_a_slow_run_is_told_of_each_twentieth(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = io.StringIO()
    seconds = iter(range(0, 10_000, 6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    with PlainProgress(echo) as shown:
        for step in range(1, 201):
            shown.show({"event": "step", "step": step, "max_steps": 200})
    assert 18 <= len(echo.getvalue().splitlines()) <= 22


def test_a_terminal_gets_a_bar_and_lines_that_stay() -> None:
    echo = Terminal()
    shown = progress(echo)
    assert isinstance(shown, TerminalProgress)
    with shown:
        shown.show({"event": "start", "max_steps": 4})
        shown.show({"event": "step", "step": 2, "reward": 0.25, "step_time": 1.0})
        shown.show({"event": "evaluation", "step": 2, "rewards": {"[exact]": 0.5}, "reward": 0.5})
        shown.say("[bold]brackets stay[/bold]")
    text = echo.getvalue()
    assert "step 2/4" in text
    assert "reward 0.250" in text
    assert "evaluation at step 2  reward 0.5  [exact] 0.5\n" in text.replace("\r", "")
    assert "[bold]brackets stay[/bold]" in text


STEP = {
    "event": "step",
    "step": 10,
    "max_steps": 100,
    "reward": 0.5,
    "frac_reward_zero_std": 0.25,
    "completions/clipped_ratio": 0.0,
    "step_time": 0.3127,
}


@pytest.mark.parametrize(
    ("width", "kept", "bar"),
    [
        (140, ["reward", "groups", "truncated", "speed", "left"], 20),
        (100, ["reward", "groups", "truncated", "speed", "left"], 0),
        (80, ["reward", "truncated", "speed", "left"], 14),
        (60, ["reward", "speed", "left"], 8),
        (40, ["speed", "left"], 0),
        (30, ["left"], 6),
        (20, [], 7),
    ],
)
def test_a_narrow_terminal_keeps_what_matters(width: int, kept: list[str], bar: int) -> None:
    parts = step_parts(STEP, 125.0)
    line = live_line("step 10/100", parts, width, "0:00:33")
    assert line.text == "  ".join(parts[name] for name in kept)
    assert line.bar == bar
    assert line.has_clock == (width == 140)
    shown = ["step 10/100", "-" * line.bar, line.text, "0:00:33" if line.has_clock else ""]
    assert len(" ".join(part for part in shown if part)) <= width


@pytest.mark.parametrize("width", [140, 80, 60, 40])
def test_the_moving_line_has_step_time_left_and_speed_at_every_width(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    echo = Terminal()
    with progress(echo) as shown:
        shown.show({"event": "start", "max_steps": 100})
        shown.show({**STEP, "step": 9})
        shown.show(STEP)
    last = [line for line in plain(echo).replace("\r", "\n").splitlines() if "step 10/100" in line][-1]
    assert "0.313 s/step" in last
    assert "eta 0:" in last
    assert ("reward 0.500" in last) == (width > 40)
    assert ("━" in last) == (width > 40)
    assert len(last.rstrip()) <= width


def plain(echo: io.StringIO) -> str:
    """What was written, without the terminal's own sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", echo.getvalue())


@pytest.mark.parametrize(
    ("variables", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_is_coloured_unless_it_is_asked_not_to(
    variables: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    echo = Terminal()
    with progress(echo) as shown:
        shown.show(
            {"event": "guard", "step": 1, "id": "GRD003", "name": "truncation", "action": "warn", "message": "m"}
        )
        shown.show(STEP)
    assert bool(re.search(r"\x1b\[(3[0-7]|38;)", echo.getvalue())) == is_coloured
    assert "warning: truncation at step 1: m [GRD003]" in plain(echo)


def test_a_resumed_run_says_from_where_it_goes_on() -> None:
    echo = io.StringIO()
    said = ["skipped checkpoint-6: model.safetensors is missing", "resumed from checkpoint-4"]
    with progress(echo) as shown:
        shown.show({"event": "start", "step": 0, "max_steps": 8})
        shown.show({"event": "start", "step": 4, "max_steps": 8, "resumed": said})
    assert echo.getvalue().splitlines() == said


def test_no_terminal_gets_plain_lines() -> None:
    assert isinstance(progress(io.StringIO()), PlainProgress)


def test_the_summary_of_a_completed_run_tells_before_and_after(tmp_path: Path) -> None:
    events = [{"event": "evaluation", "reward": 0.57}, {"event": "step"}]
    events += [{"event": "step", "reward": reward} for reward in (0.4, 0.6, 0.1, 0.2, 0.3, 0.4, 0.95, 1.0)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    record = RunRecord(
        status="completed",
        step=100,
        max_steps=100,
        evaluation={
            "before": {"count": 200, "greedy": True, "reward": 0.57, "rewards": {"exact_match": 0.57}},
            "after": {"count": 200, "greedy": True, "reward": 0.99, "rewards": {"exact_match": 0.99}},
            "counts": {"rows": 200, "right_before": 114, "right_after": 198},
            "examples": [
                {
                    "prompt": [{"role": "user", "content": "17+26="}],
                    "before": "33",
                    "after": "43",
                    "solution": "43",
                }
            ]
            * 5,
        },
        metrics={"reward": 0.975, "loss": 0.1},
        final="final",
        train_cpu_s=31.24,
        train_wall_s=33.4,
    )
    assert "  reward      0.975 in the last step\n" in summary(record)
    assert summary(record, str(tmp_path)).splitlines() == [
        "completed at step 100 of 100",
        "  training    0:00:33 by the clock, 31.2 CPU seconds",
        "  reward      0.500 -> 0.975 (mean of 2 steps)",
        "  held out    before: reward 0.57  exact_match 0.57  (200 rows)",
        "  held out    after:  reward 0.99  exact_match 0.99  (200 rows)",
        "  right       114 of 200 (57.0 %) -> 198 of 200 (99.0 %)",
        "  wrong before, right now:",
        *["    17+26=  33 -> 43"] * 3,
        "  model       final",
        "  next        transformers.AutoModelForCausalLM.from_pretrained('final') loads it;",
        "              metrics.jsonl has every step, plan.json every value with its origin",
    ]


def test_the_summary_says_how_long_a_step_took() -> None:
    told: dict[str, object] = {
        "steps": 40,
        "seconds_per_step": 12.345,
        "generation_share": 0.714,
        "estimated_end": None,
    }
    assert "  training    12.3 s a step, 71% of it generation\n" in summary(RunRecord(duration=told))
    unknown = RunRecord(train_wall_s=33.4, duration={**told, "generation_share": None})
    assert "  training    0:00:33 by the clock, 12.3 s a step\n" in summary(unknown)


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (RunRecord(), ["running"]),
        (
            RunRecord(status="failed", step=3, message="ValueError: no\nhf_abcdefghijklmnopqrstuv"),
            [
                "failed at step 3",
                "  ValueError: no",
                "  <redacted>",
                "  next        train.log in the run folder has the whole output",
            ],
        ),
        (
            RunRecord(status="interrupted", step=3, max_steps=9, checkpoint="checkpoints/checkpoint-3"),
            [
                "interrupted at step 3 of 9",
                "  checkpoint  checkpoints/checkpoint-3",
                "  next        grpo-run RUNDIR --resume continues it from its checkpoint",
            ],
        ),
    ],
    ids=["nothing known", "failed", "interrupted"],
)
def test_the_summary_says_what_is_known_and_what_to_do(record: RunRecord, lines: list[str]) -> None:
    assert summary(record).splitlines() == lines


OF_INPUTS = [
    "reward mine returned a list of str, not one number for each completion",
    "no reward has given a number: mine",
    "dataset.prompt: row 3 cannot fill the template",
    "evaluation: a.jsonl:3: the line is no JSON",
]


@pytest.mark.parametrize("message", OF_INPUTS)
def test_a_failure_of_data_or_of_a_reward_leads_to_preflight(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe, folder = tmp_path / "my recipe.yaml", tmp_path / "run"
    folder.mkdir()
    recipe.write_text("recipe: 1\n")
    (folder / "plan.json").write_text(json.dumps({"recipe_file": str(recipe)}))
    record = RunRecord(status="stopped", step=0, message=message)
    assert summary(record, str(folder)).splitlines()[2:] == [
        "  next        grpo-run preflight 'my recipe.yaml' tries data and rewards, without the model",
        "              train.log in the run folder has the whole output",
    ]
    assert "grpo-run preflight RECIPE tries" in summary(record)


@pytest.mark.parametrize("message", ["reward_collapse: no variance", "OutOfMemoryError: no", None])
def test_another_failure_does_not_lead_to_preflight(message: str | None, tmp_path: Path) -> None:
    assert "preflight" not in summary(RunRecord(status="failed", step=9, message=message), str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", '{"recipe_file": 3}', '{"recipe_file": "gone.yaml"}'])
def test_a_recipe_that_is_not_there_is_not_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert "grpo-run preflight RECIPE tries" in summary(RunRecord(status="failed", message=OF_INPUTS[0]), str(tmp_path))


def test_the_run_folder_is_named_wherever_the_command_is() -> None:
    message = "checkpoints cannot be written\n  = fix: make room, then grpo-run RUNDIR --resume"
    record = RunRecord(status="interrupted", step=3, message=message, checkpoint="checkpoints/checkpoint-3")
    told = summary(record, "my runs/one")
    assert "RUNDIR" not in told
    assert told.count("grpo-run 'my runs/one' --resume") == 2


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    record = RunRecord(status="completed", step=2, metrics={"reward_last": 1.0}, train_cpu_s=0.0)
    assert read_record(str(tmp_path)) is None
    write_record(str(tmp_path), record)
    assert read_record(str(tmp_path)) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_what_is_no_record_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_record(str(tmp_path)) is None


def test_an_amended_record_keeps_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run": 1, "status": "running", "step": 7, "of_the_worker": [1]}')
    record = amend_record(str(tmp_path), {"status": "failed"})
    assert (record.status, record.step) == ("failed", 7)
    assert '"of_the_worker": [\n    1\n  ]' in (tmp_path / "run.json").read_text()


GUARDS = [
    {"id": "GRD003", "name": "truncation", "action": "warn", "first_step": 10, "last_step": 90, "count": 7},
    {"id": "GRD010", "name": "memory_growth", "action": "note", "first_step": 60, "last_step": 60, "count": 1},
    {"id": "GRD004", "name": "not_finite", "action": "stop", "first_step": 95, "last_step": 95, "count": 1},
]


def test_the_summary_names_the_guards_that_spoke_and_leaves_the_one_that_stopped_to_its_message() -> None:
    assert "guards" not in summary(RunRecord(status="completed", guards=[]))
    assert summary(RunRecord(status="stopped", message="not_finite: ...", guards=GUARDS)).splitlines()[1:4] == [
        "  not_finite: ...",
        "  guards      truncation from step 10 on, 7 times up to step 90; grpo-run explain GRD003",
        "              memory_growth from step 60 on; grpo-run explain GRD010",
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["log", "terminal"])
def test_what_a_guard_says_is_shown_while_the_run_goes_on(stream: type[io.StringIO]) -> None:
    echo = stream()
    event = {"event": "guard", "step": 10, "id": "GRD003", "name": "truncation", "action": "warn", "message": "all cut"}
    with progress(echo) as shown:
        shown.show(event)
    assert "warning: truncation at step 10: all cut [GRD003]\n" in plain(echo)


def test_the_summary_tells_each_death_of_the_server() -> None:
    death = {"time": 1.0, "step": 3, "how": "was killed by signal 9"}
    record = RunRecord(status="completed", step=6, vllm_server={"restarts": [death]})
    assert "  vLLM server started again: at step 3 it was killed by signal 9" in summary(record).splitlines()
    assert "vLLM" not in summary(RunRecord(status="completed", step=6, vllm_server={"restarts": []}))


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["plain", "terminal"])
def test_what_happens_to_the_server_is_shown_while_the_run_goes_on(stream: type[io.StringIO]) -> None:
    echo = stream()
    with progress(echo) as shown:
        shown.show({"event": "server", "step": 0, "state": "up", "seconds": 61.2})
        died = {"state": "died", "how": "was killed by signal 9", "restart": 1, "of": 2}
        shown.show({"event": "server", "step": 3, **died})
    assert "the vLLM server is up after 0:01:01" in echo.getvalue()
    assert "the vLLM server was killed by signal 9; it and the trainer are started again, 1 of 2" in echo.getvalue()
