"""What is shown while a run trains and when it has ended."""

import dataclasses
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from support.work import calls

from grpo_recipes.contract.event_words import clock, event_lines, guard_line, step_line
from grpo_recipes.contract.metrics import read_new
from grpo_recipes.contract.run_record import RunRecord, amend_record, peak_text, read_record, write_record
from grpo_recipes.launch.display import PlainProgress, progress
from grpo_recipes.launch.progress import Estimate, View
from grpo_recipes.launch.screen import RunProgress, Screen, columns, rows
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
        ({"step": 1}, "step 1/9"),
        ({"step": 1, "reward": "high", "step_time": None, "frac_reward_zero_std": float("nan")}, "step 1/9"),
        ({"step": 1, "reward": 0}, "step 1/9  reward 0.000"),
        ({"step": 1, "frac_reward_zero_std": 0.5}, "step 1/9  groups without variance 50%"),
        (
            {
                "step": 1,
                "reward": 0.5,
                "frac_reward_zero_std": 0.0,
                "groups_without_variance": 0.25,
                "completions/clipped_ratio": 0.0,
                "step_time": 0.3127,
            },
            "step 1/9  reward 0.500  groups without variance 25%  truncated 0%  0.313 s/step",
        ),
    ],
    ids=["nothing known", "not figures", "zero is a figure", "by an older worker", "all"],
)
def test_a_step_in_words_leaves_out_what_it_does_not_know(event: dict[str, object], text: str) -> None:
    assert step_line(event, 9, None) == text


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
    assert isinstance(shown, Screen)
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


SEEN = RunProgress(began=0.0, step=STEP, max_steps=100, seconds_left=125.0, evaluation={"reward": 0.57}, warnings=2)


@pytest.mark.parametrize(
    ("width", "first", "second"),
    [
        (
            200,
            "step 10/100  BAR30  eta 0:02:05  0.313 s/step  0:00:33 so far",
            "reward 0.500  held out 0.570  groups without variance 25%  truncated 0%  2 warnings",
        ),
        (
            80,
            "step 10/100  BAR24  eta 0:02:05  0.313 s/step  0:00:33 so far",
            "reward 0.500  held out 0.570  groups without variance 25%  2 warnings",
        ),
        (60, "step 10/100  eta 0:02:05  0.313 s/step  0:00:33 so far", "reward 0.500  held out 0.570  2 warnings"),
        (40, "step 10/100  eta 0:02:05  0.313 s/step", "reward 0.500  held out 0.570  2 warnings"),
        (30, "step 10/100  eta 0:02:05", "reward 0.500  2 warnings"),
        (20, "step 10/100  BAR7", "reward 0.500"),
        (8, "step 10/", "reward 0"),
    ],
)
def test_a_narrow_terminal_keeps_step_time_left_and_reward_to_the_last(width: int, first: str, second: str) -> None:
    found = rows(SEEN, width, now=33.0)
    assert all(columns(row) <= width for row in found)
    texts = ["  ".join(part.text for part in row) for row in found]
    texts = [re.sub("[━─]+", lambda bar: f"BAR{len(bar[0])}", text) for text in texts]
    assert texts == [first, second]


def test_a_bar_shows_the_share_that_is_done() -> None:
    row = rows(SEEN._replace(step={"step": 50}, seconds_left=None, evaluation=None, warnings=0), 70, 33.0)[0]
    assert row[1].text == "━" * 15 + "─" * 15
    assert len(rows(SEEN._replace(max_steps=None), 200, 33.0)[0]) == 4  # no bar where the end is not known


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (80, "loading the model  0:00:12  0:00:33 so far"),
        (30, "loading the model  0:00:12"),
        (20, "loading the model"),
    ],
)
def test_a_start_says_what_it_is_busy_with(width: int, row: str) -> None:
    seen = RunProgress(began=0.0, phase="loading the model", phase_began=21.0)
    assert ["  ".join(part.text for part in one) for one in rows(seen, width, now=33.0)] == [row]


def test_phases_are_lines_with_their_seconds_and_the_next_one_moves() -> None:
    echo = Terminal()
    with progress(echo) as shown:
        shown.show({"event": "phase", "name": "loading the model", "began": 1.0, "seconds": None})
        shown.show({"event": "phase", "name": "loading the model", "began": 1.0, "seconds": 12.34})
        shown.show({"event": "phase", "name": "generating the first completions", "began": 13.3, "seconds": None})
    assert plain(echo).count("loading the model  12.3 s\n") == 1
    assert "generating the first completions  " in plain(echo)


@pytest.mark.parametrize("marks", ["utf-8", "ascii"])
def test_a_terminal_that_knows_ascii_alone_gets_a_bar_of_it(marks: str, tmp_path: Path) -> None:
    with open(tmp_path / "shown", "w", encoding=marks) as file:
        file.isatty = lambda: True  # type: ignore[method-assign]
        with progress(file) as shown:
            shown.show({**STEP, "step": 50, "step_time": None})
    text = (tmp_path / "shown").read_text()
    assert ("━" in text) == (marks == "utf-8")
    assert ("##" in text) == (marks == "ascii")


GUARD = {"event": "guard", "step": 3, "id": "GRD003", "name": "truncation", "message": "all cut"}
TALK = [
    {"event": "phase", "name": "loading the model", "began": 1.0, "seconds": 2.0},
    {"event": "evaluation", "step": 0, "reward": 0.5},
    *({"event": "step", "step": step, "max_steps": 40, "reward": 0.5} for step in range(1, 41)),
    {**GUARD, "action": "note"},
    {**GUARD, "action": "warn"},
    {"event": "server", "state": "died", "how": "was killed", "restart": 1, "of": 2},
]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["log", "terminal"])
def test_quiet_says_only_what_needs_somebody(stream: type[io.StringIO]) -> None:
    echo = stream()
    with progress(echo, View("quiet")) as shown:
        shown.note("training in a folder")
        shown.say("SIGINT: saving and stopping")
        for event in TALK:
            shown.show(event)
    assert [line.split(":")[0] for line in echo.getvalue().splitlines()] == [
        "SIGINT",
        "warning",
        "the vLLM server was killed; restarting server and trainer, 1 of 2",
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["log", "terminal"])
def test_verbose_keeps_a_line_of_each_step_and_phase(stream: type[io.StringIO]) -> None:
    echo = stream()
    with progress(echo, View("verbose")) as shown:
        for event in TALK:
            shown.show(event)
    lines = plain(echo).replace("\r", "\n").splitlines()
    kept = {line for line in lines if re.match(r"step \d+/40  reward 0.500", line)}
    assert {int(re.split("[ /]", line)[1]) for line in kept} == set(range(1, 41))
    assert "loading the model  2.0 s" in lines


def test_what_is_no_terminal_is_not_told_of_phases() -> None:
    echo = io.StringIO()
    with progress(echo) as shown:
        shown.show(TALK[0])
    assert echo.getvalue() == ""


@pytest.mark.slow
def test_drawing_a_frame_makes_few_calls() -> None:
    with progress(Terminal()) as shown:
        assert isinstance(shown, Screen)
        shown.show(STEP)
        shown._live.refresh()
        made = calls(shown._live.refresh)
    assert made < 8_000, made  # 2,400 in a process of its own, 6,500 after the tests of other files


def test_a_guard_says_why_and_what_to_do() -> None:
    event = {**GUARD, "action": "warn", "because": ["16 of 16"], "fix": "a longer max_completion_length"}
    assert guard_line(event) == (
        "warning: truncation at step 3: all cut; 16 of 16; fix: a longer max_completion_length [GRD003]"
    )


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


def test_the_summary_tells_what_was_redrawn(tmp_path: Path) -> None:
    names = ("prompts", "groups_redrawn", "groups_left", "reward")
    events: list[dict[str, object]] = [{"event": "step", "reward": 0.5}, {"event": "evaluation", "reward": 0.5}]
    for values in ((22, 6, 2, 0.2), (16, 0, 0, 0.3)):
        own = {f"resample/{name}": value for name, value in zip(names, values, strict=True)}
        events.append({"event": "step", "reward": 0.9, **own})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    told = summary(RunRecord(status="completed"), str(tmp_path))
    line = "resampled 16% of the prompts, 3.0 in addition to the 16 of a generation; "
    line += "6% of the groups trained without variance"
    assert line in " ".join(told.split())
    assert "reward      0.300 in the last step" in told, "that of what is trained is chosen"
    assert "resampled" not in summary(RunRecord(status="completed", metrics={"reward": 0.5}))


def test_a_step_tells_the_reward_that_the_summary_tells(tmp_path: Path) -> None:
    event = {"event": "step", "step": 3, "reward": 0.5, "resample/reward": 0.875}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(event) + "\n")
    assert "reward 0.875" in step_line(event, 9, None)
    assert "0.875 in the last step" in summary(RunRecord(status="completed"), str(tmp_path))


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
            "counts": {"rows": 200, "right_before": 114, "right_after": 198, "by": "exact_match of at least 1"},
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
    assert summary(record, str(tmp_path), 200).replace(shlex.quote(str(tmp_path)), "RUNDIR").splitlines() == [
        "completed at step 100 of 100",
        "  held out    before: reward 0.57  exact_match 0.57  (200 rows)",
        "  held out    after:  reward 0.99  exact_match 0.99  (200 rows)",
        "  right       114 of 200 (57.0 %) -> 198 of 200 (99.0 %), by exact_match of at least 1",
        "  wrong before, right now:",
        *["    17+26=  33 -> 43"] * 3,
        "  reward      0.500 -> 0.975 (mean of 2 steps)",
        "  training    0:00:33 elapsed, 31.2 CPU seconds",
        "  model       final",
        "  next        grpo-run report RUNDIR shows curves, completions and proofs on a page",
        "              grpo-run generate RUNDIR PROMPT answers with the trained model",
        "              grpo-run export RUNDIR -o FOLDER writes the whole model, or only the adapter with --adapter",
        "              grpo-run RUNDIR --extend training.max_steps=200 continues the training",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_summary_breaks_no_word(width: int) -> None:
    shown = "gradient on 28/28 trainable tensors"
    change = {"reward": 0.2, "intervals": {"reward": [0.1, 0.3]}}
    evaluation = {
        "after": {"reward": 0.6, "rewards": {f"a_reward_{place}": 0.5 for place in range(9)}, "change": change}
    }
    proofs: list[object] = [{"ok": True, "shown": shown}] * 4
    record = RunRecord(status="completed", step=9, final_step=9, evaluation=evaluation, proofs=proofs)
    told = summary(record, None, width)
    assert max(map(len, told.splitlines())) <= width
    assert " ".join(told.split()).count(shown) == 4
    assert told.splitlines()[1].startswith("  verdict     better than before")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("folder", ["runs/one", "/data/a b/my  run", "/data/some\xa0body/" + 9 * "long/" + "run"])
def test_the_summary_keeps_commands_and_paths_whole(folder: str, width: int) -> None:
    trend: dict[str, object] = {"reward": {"first": 0.4, "last": 0.2, "error": 0.01}}
    places = {"final": f"{folder}/final", "checkpoint": f"{folder}/checkpoints/checkpoint-9"}
    told = summary(RunRecord(status="completed", step=9, final_step=9, trend=trend, **places), folder, width)
    named = shlex.quote(folder)
    for command in ("report", "generate", "export"):
        assert f"grpo-run {command} {named}" in told
    assert told.count(f"grpo-run report {named}") == 2
    assert all(place in told for place in places.values())
    assert all(len(line) <= width for line in told.splitlines() if folder not in line)


@pytest.mark.parametrize(
    ("started_as", "path", "shown"),
    [
        pytest.param("bin/grpo-run", "bin", "grpo-run", id="in PATH"),
        pytest.param("pytest", "empty", "grpo-run", id="a different program"),
        pytest.param("bin/grpo-run", "empty", "bin/grpo-run", id="not in PATH"),
        pytest.param("bin/grpo-run", "other", "bin/grpo-run", id="another one in PATH"),
        pytest.param("a bin/grpo-run", "empty", "'a bin/grpo-run'", id="a space"),
    ],
)
def test_the_summary_names_grpo_run_so_that_its_commands_can_be_pasted(
    started_as: str, path: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "grpo-run").touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / path))
    monkeypatch.setattr("sys.argv", [started_as, "recipe.yaml"])
    told = summary(RunRecord(status="completed", step=9, final="runs/one/final"), "runs/one")
    assert f"  next        {shown} report runs/one shows curves" in told
    told = summary(RunRecord(status="interrupted", step=9), "runs/one")
    assert f"  next        {shown} runs/one --resume continues" in told


def test_the_summary_names_the_step_that_is_handed_over() -> None:
    intervals = {"level": 0.95, "reward": [0.5, 0.7]}
    change = {"from_step": 0, "reward": 0.2, "intervals": {"reward": [0.1, 0.3]}}
    best = {"step": 40, "count": 9, "reward": 0.6, "intervals": intervals, "change": change}
    record = RunRecord(
        status="completed",
        step=60,
        max_steps=100,
        message="ended early, at step 60 of 100: 2 evaluations and none better than that of step 40",
        evaluation={
            "before": {"step": 0, "count": 9, "reward": 0.4},
            "after": {"step": 60, "reward": 0.5},
            "best": best,
            "chosen_from": [20, 40, 60],
            "cross_validated": {"steps": [40, 20], "reward": 0.55, "intervals": intervals},
        },
        final="final",
        final_step=40,
    )
    assert summary(record).splitlines()[:9] == [
        "completed at step 60 of 100",
        "  ended early, at step 60 of 100: 2 evaluations and none better than that of step 40",
        "  verdict     better than before: reward 0.4 -> 0.6, +0.2 [+0.1, +0.3] [VRD001]",
        "  held out    before: reward 0.4  (9 rows)",
        "  held out    after:  reward 0.5",
        "  held out    best:   reward 0.6 [0.5, 0.7]  (9 rows, 95% intervals), step 40",
        "              change: reward +0.2 [+0.1, +0.3]",
        "              on rows that did not choose the step: reward 0.55 [0.5, 0.7]",
        "  model       final, of step 40, the best evaluation",
    ]
    last = dataclasses.replace(record, step=40, message=None)
    assert "best" not in summary(last), "what is after the training is the best"


def test_the_summary_has_each_of_several_sets_that_which_decides_first() -> None:
    figures = {"step": 0, "set": "easy", "count": 9, "reward": 0.4}
    hard = {"before": {**figures, "set": "hard", "reward": 0.1}, "counts": RIGHT_OF_NINE, "examples": [EXAMPLE]}
    evaluation = {"before": figures, "counts": RIGHT_OF_NINE, "others": {"hard": hard}}
    assert summary(RunRecord(status="interrupted", evaluation=evaluation)).splitlines()[1:7] == [
        "  held out    easy  before: reward 0.4  (9 rows)",
        "  right       easy  3 of 9 (33.3 %) -> 6 of 9 (66.7 %)",
        "  held out    hard  before: reward 0.1  (9 rows)",
        "  right       hard  3 of 9 (33.3 %) -> 6 of 9 (66.7 %)",
        "  wrong before, right now (hard):",
        "    1+2=  4 -> 3",
    ]


def test_the_summary_says_which_set_chose_the_step() -> None:
    easy, hard = (
        {"before": {"step": 0, "set": name}, "best": {"step": 4, "set": name, "reward": 0.5}} for name in NAMES
    )
    record = RunRecord(status="completed", step=6, final_step=4, evaluation={**hard, "others": {"easy": easy}})
    best = [line.split() for line in summary(record).splitlines() if "best: " in line]
    assert [line[2:] for line in best] == [
        ["hard", "best:", "reward", "0.5,", "step", "4"],
        ["easy", "best:", "reward", "0.5,", "step", "4,", "chosen", "by", "hard"],
    ]


def test_the_summary_names_the_warm_start_whose_model_is_the_best() -> None:
    known = {"best": {"step": 0, "warm_step": 5, "reward": 0.5}}
    shown = summary(RunRecord(status="completed", step=6, final="final", final_step=0, evaluation=known))
    assert "  model       final, of the warm start, the best evaluation" in shown
    assert "best:   reward 0.5, the warm start" in shown


NAMES = ("easy", "hard")
RIGHT_OF_NINE = {"rows": 9, "right_before": 3, "right_after": 6}
EXAMPLE = {"prompt": "1+2=", "before": "4", "after": "3"}


def test_that_nothing_can_be_gained_is_said_of_the_set_that_decides() -> None:
    event = {"event": "evaluation", "step": 0, "set": "easy", "count": 9, "reward": 1.0, "pass_at": {"1": 1.0}}
    _, warning = event_lines(event)
    assert warning.startswith("warning: already at its best before training, easy: all 9 held-out rows are right")
    assert len(event_lines({**event, "decides": False})) == 1
    _, warning = event_lines({**event, "warm_step": 5})
    assert warning.startswith("warning: already at its best after the warm start, easy: all 9 held-out rows are right")
    assert "; GRPO can show no gain on them." in warning


def test_the_screen_shows_the_set_that_decides() -> None:
    echo = Terminal()
    shown = progress(echo)
    names = [("easy", 0, 0.25), ("hard", 0, 0.75), ("easy", 5, 0.5), ("hard", 5, 0.9)]
    with shown:
        for name, step, reward in names:
            shown.show({"event": "evaluation", "step": step, "set": name, "reward": reward})
            shown.show({"event": "step", "step": step + 1, "max_steps": 9, "reward": 0.5})
        shown.show({"event": "step", "step": 9, "max_steps": 9, "reward": 0.5})
    text = echo.getvalue().replace("\r", "")
    assert "evaluation hard at step 5  reward 0.9\n" in text
    assert "held out easy 0.500" in text and "held out hard" not in text


def test_the_summary_says_how_long_a_step_took() -> None:
    told: dict[str, object] = {
        "steps": 40,
        "seconds_per_step": 12.345,
        "shares": {"generate": 0.714, "update": 0.2, "reward": 0.05},
        "advice": ["vLLM generates faster"],
        "estimated_end": None,
    }
    whole = "  training    12.3 s per step\n  step time   71% generation, 20% update, 5% rewards\n"
    assert f"{whole}              vLLM generates faster\n" in summary(RunRecord(duration=told))
    unknown = RunRecord(train_wall_s=33.4, duration={**told, "shares": None, "advice": None})
    assert "  training    0:00:33 elapsed, 12.3 s per step\n" in summary(unknown)
    again = dataclasses.replace(unknown, launches=2)
    assert "  training    0:00:33 elapsed in 2 launches, 12.3 s per step\n" in summary(again)
    assert "0:00:33 elapsed, 9.5 CPU seconds in 2 launches" in summary(dataclasses.replace(again, train_cpu_s=9.5))
    assert "launches" not in summary(dataclasses.replace(again, launches=1))


def test_the_most_memory_is_that_of_the_phase_that_held_most() -> None:
    gib = 1 << 30
    memory: dict[str, object] = {"load": {"measured": gib}, "update": {"measured": 3 * gib, "estimated": 4.5 * gib}}
    assert peak_text(RunRecord(memory=memory)) == "peak memory 3.0 GiB in update (estimated 4.5)"
    assert peak_text(RunRecord(memory={**memory, "score": {"measured": 9 * gib}})) == "peak memory 9.0 GiB in score"
    assert peak_text(RunRecord(memory={"load": {"measured": "much"}, "save": 3})) == ""


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
    "no reward has returned a number: mine",
    "dataset.prompt: row 3 cannot fill the template",
    "evaluation: a.jsonl:3: the line is not JSON",
]


@pytest.mark.parametrize("message", OF_INPUTS)
def test_a_failure_of_data_or_of_a_reward_leads_to_preflight(message: str) -> None:
    assert summary(RunRecord(status="stopped", step=0, message=message)).splitlines()[2:] == [
        "  next        grpo-run preflight RECIPE tries data and rewards, without the model",
        "              train.log in the run folder has the whole output",
    ]


@pytest.mark.parametrize("message", ["reward_collapse: no variance", "OutOfMemoryError: no", None])
def test_another_failure_does_not_lead_to_preflight(message: str | None, tmp_path: Path) -> None:
    assert "preflight" not in summary(RunRecord(status="failed", step=9, message=message), str(tmp_path))


def test_the_run_folder_is_named_wherever_the_command_is() -> None:
    message = "checkpoints cannot be written\n  = fix: free some space, then grpo-run RUNDIR --resume"
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
        "  guards      truncation since step 10, 7 times up to step 90; grpo-run explain GRD003",
        "              memory_growth since step 60; grpo-run explain GRD010",
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
    assert "  vLLM        server restarted: at step 3 it was killed by signal 9" in summary(record).splitlines()
    assert "vLLM" not in summary(RunRecord(status="completed", step=6, vllm_server={"restarts": []}))


@pytest.mark.parametrize(("step", "passed", "is_told"), [(0, 1.0, True), (0, 0.5, False), (8, 1.0, False)])
def test_a_model_that_is_at_its_best_before_the_first_step_is_told_so(step: int, passed: float, is_told: bool) -> None:
    echo = io.StringIO()
    with progress(echo) as shown:
        shown.show({"event": "evaluation", "step": step, "count": 200, "reward": 1.0, "pass_at": {"1": passed}})
    assert echo.getvalue().count("\n") == 1 + is_told
    warned = "warning: already at its best before training: all 200 held-out rows are right; "
    assert (f"\n{warned}" in echo.getvalue()) is is_told


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["plain", "terminal"])
def test_what_happens_to_the_server_is_shown_while_the_run_goes_on(stream: type[io.StringIO]) -> None:
    echo = stream()
    with progress(echo) as shown:
        shown.show({"event": "server", "step": 0, "state": "up", "seconds": 61.2})
        died = {"state": "died", "how": "was killed by signal 9", "restart": 1, "of": 2}
        shown.show({"event": "server", "step": 3, **died})
    assert "the vLLM server is up after 0:01:01" in echo.getvalue()
    text = " ".join(plain(echo).split())  # in 80 columns it is two lines
    assert "the vLLM server was killed by signal 9; restarting server and trainer, 1 of 2" in text
