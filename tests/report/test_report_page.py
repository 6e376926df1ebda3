"""The page of a run: what is wrong first, every figure that of its files, nothing of a run more than text."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_runs import completions, made, row, step
from support.report_page import Page

from grpo_recipes.contract.plan_sections import Ancestor, Forebear
from grpo_recipes.report.html.page import ASSETS, write_page
from grpo_recipes.report.html.run_data import ReportedRun

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>--></style><svg/onload=alert(1)>",
    "\u2028\u2029\u202e\u0000\u001b[31m",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt; &amp;",
    '" onfocus="alert(1)" autofocus="',
]


@pytest.fixture
def paged(tmp_path: Path, grpo_run: Callable) -> Callable[..., Page]:
    """The page of run folders."""

    def make(*folders: Path) -> Page:
        answer = grpo_run("report", *map(str, folders), "-o", str(tmp_path / "page.html"))
        assert answer.code == 0, answer.err
        return Page((tmp_path / "page.html").read_text(encoding="utf-8"))

    return make


def test_a_run_that_went_well_has_nothing_wrong(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(made(tmp_path / "run"))
    assert not any("problem bad" in str(one.get("class")) for _, one in page.tags)
    assert "completed at step 40 of 40" in page.first_screen
    assert "0.055 → 0.355" in page.first_screen and "first and last 10 steps" in page.first_screen


def test_time_and_memory_of_a_resumed_run_say_of_how_many_launches(tmp_path: Path, paged: Callable[..., Page]) -> None:
    memory = {"update": {"measured": 5 << 30}}
    page = paged(made(tmp_path / "run", launches=2, memory=memory))
    assert "in 2 launches" in page.first_screen
    assert "of any process in 2 launches" in page.first_screen
    assert "launches" not in paged(made(tmp_path / "other", launches=1, memory=memory)).first_screen


CONSTANT = {"frac_reward_zero_std": 1.0, "reward": 0.0, "reward_std": 0.0}
WRONG = [
    pytest.param({}, CONSTANT, ["constant reward", "the reward was 0", "grpo-run preflight", "GRD001"], id="constant"),
    pytest.param(
        {},
        {"groups_without_variance": 1.0, "frac_reward_zero_std": 0.0},
        ["constant reward", "GRD001"],
        id="constant, which TRL does not see",
    ),
    pytest.param(
        {
            "final_step": 40,
            "evaluation": {
                "before": {"reward": 0.5},
                "after": {
                    "reward": 0.25,
                    "change": {"reward": -0.25, "intervals": {"reward": [-0.3, -0.2]}},
                },
            },
        },
        {},
        ["worse than before: reward 0.5 -> 0.25, -0.25 [-0.3, -0.2]", "VRD003"],
        id="worse",
    ),
    pytest.param({"status": "interrupted"}, {}, ["interrupted; can be resumed", "--resume"], id="interrupted"),
    pytest.param(
        {"status": "failed", "message": "no room\nat all"}, {}, ["no room", "at all", "train.log"], id="failed"
    ),
    pytest.param(
        {
            "status": "stopped",
            "findings": [
                {
                    "id": "GRD007",
                    "severity": "error",
                    "message": "kl_rise: the guard stopped",
                    "seen": ["found 9"],
                    "because": ["too far"],
                    "fix": "a smaller rate",
                }
            ],
        },
        {},
        ["kl_rise: the guard stopped", "found 9", "too far", "Try: a smaller rate", "grpo-run explain GRD007"],
        id="stopped",
    ),
    pytest.param(
        {"vllm_server": {"restarts": [{"step": 7, "how": "died"}]}}, {}, ["restarted 1", "at step 7"], id="server"
    ),
]


@pytest.mark.parametrize(("record", "figures", "said"), WRONG)
def test_what_is_wrong_is_on_the_first_screen(
    record: dict[str, Any], figures: dict[str, Any], said: list[str], tmp_path: Path, paged: Callable[..., Page]
) -> None:
    steps = [step(number, **figures) for number in range(1, 41)]
    page = paged(made(tmp_path / "run", steps=steps, **record))
    for words in said:
        assert words in page.first_screen


def test_a_guard_says_why_and_what_to_try(tmp_path: Path, paged: Callable[..., Page]) -> None:
    spoken = {"id": "GRD003", "name": "truncation", "action": "warn", "first_step": 10, "last_step": 30, "count": 3}
    event = {"event": "guard", "step": 30, **spoken, "message": "100% were cut", "because": ["so it is"], "fix": "more"}
    steps = [step(number, **{"completions/clipped_ratio": 1.0}) for number in range(1, 41)]
    page = paged(made(tmp_path / "run", steps=steps, events=[event], guards=[spoken]))
    for words in ("truncation: 100% were cut", "since step 10, 3 times up to step 30", "so it is", "Try: more"):
        assert words in page.first_screen
    assert page.first_screen.count("GRD003") == 2, "once, with its page"


def test_every_drawn_value_is_that_of_its_step(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(made(tmp_path / "run"))
    assert page.data["x"] == [list(range(1, 41))]
    reward = page.chart("reward")["lines"][0]
    assert reward["y"] == [number / 100 for number in range(1, 41)]
    # exact_match gives 0 to 1, and the standard deviation is 0.25.
    assert (reward["low"][0], reward["low"][39]) == (0, pytest.approx(0.15))
    assert (reward["high"][0], reward["high"][39]) == pytest.approx((0.26, 0.65))
    lengths = page.chart("lengths")["lines"][0]
    assert (set(lengths["low"]), set(lengths["y"]), set(lengths["high"])) == ({10.0}, {30.0}, {50.0})
    assert page.chart("memory")["lines"][0]["y"][0] == 3.0
    assert [page.chart(f"reward-{place}")["title"] for place in (0, 1)] == ["Reward format", "Reward answer"]
    assert page.chart("reward-1")["said"] == "0.0275 → 0.1775"


def test_a_figure_that_nobody_knows_is_drawn_too(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(made(tmp_path / "run", steps=[step(number, **{"my/own": 7.5}) for number in (1, 2)]))
    own = next(one for one in page.data["charts"] if one["title"] == "my/own")
    assert own["group"] == "other" and own["lines"][0]["y"] == [7.5, 7.5]


def test_plan_proofs_memory_and_time_are_told(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(
        made(
            tmp_path / "run",
            values={"grpo.beta": 0.04, "dataset.path": "/elsewhere/deep/data/sums.jsonl"},
            proofs=[{"id": "PRF004", "name": "gradient", "ok": True, "shown": "gradient on 4/4"}],
            memory={"update": {"measured": 3 << 30, "estimated": 2 << 30}},
            duration={"steps": 40, "seconds_per_step": 1.5, "shares": {"generate": 0.25}},
        )
    )
    for words in (
        "grpo.beta 0.04 recipe.yaml:3:1 a reason",
        "…/data/sums.jsonl",
        "shown PRF004 gradient gradient on 4/4",
        "update 3.00 GiB 2.00 GiB 1.50",
        "a step (median) 1.5 s",
        "of which generation 25 %",
    ):
        assert words in page.text
    assert "/elsewhere" not in page.text


def test_held_out_figures_have_their_interval_where_there_is_one(tmp_path: Path, paged: Callable[..., Page]) -> None:
    events = [
        {"event": "evaluation", "step": 0, "count": 9, "reward": 0.25, "rewards": {"answer": 0.25}, "seconds": 1},
        {
            "event": "evaluation",
            "step": 40,
            "count": 9,
            "without_reward": 2,
            "reward": 0.75,
            "rewards": {"answer": 0.75},
            "pass_at": {"4": 1.0},
            "intervals": {"level": 0.95, "method": "percentile bootstrap over rows", "reward": [0.5, 0.875]},
            "change": {"from_step": 0, "reward": 0.5, "intervals": {"reward": [0.25, 0.75]}},
            "seconds": 1,
        },
    ]
    page = paged(made(tmp_path / "run", events=events))
    left_out = "2 completions without any reward, so not counted"
    assert "0 9 0.25 0.25" in page.text and f"40 9, {left_out} 0.75 (0.5 to 0.875) 0.75 1" in page.text
    assert "step rows reward answer pass@4" in page.text
    assert "In brackets 95 % intervals by percentile bootstrap over rows. Since step 0: reward +0.5" in page.text
    line = {"run": 0, "label": "reward", "x": [0, 40], "y": [0.25, 0.75], "low": [None, 0.5], "high": [None, 0.875]}
    assert page.chart("held-out")["lines"] == [line]


@pytest.mark.parametrize(("ends", "is_told"), [([-0.2, 0.05], False), ([-0.2, -0.05], True)])
def test_a_held_out_reward_that_fell_within_its_noise_is_no_change(
    ends: list[float], is_told: bool, tmp_path: Path, paged: Callable[..., Page]
) -> None:
    change = {"from_step": 0, "reward": -0.1, "intervals": {"reward": ends}}
    events = [
        {"event": "evaluation", "step": 0, "count": 20, "reward": 0.4},
        {"event": "evaluation", "step": 40, "count": 20, "reward": 0.3, "change": change},
    ]
    evaluation = {"before": events[0], "after": events[1]}
    page = paged(made(tmp_path / "run", events=events, evaluation=evaluation, final_step=40))
    assert ("worse than before" in page.first_screen) == is_told
    assert ("no held-out change" in page.first_screen) != is_told


def test_the_verdict_is_given_once(tmp_path: Path, paged: Callable[..., Page]) -> None:
    change = {"from_step": 0, "reward": 0.3, "intervals": {"reward": [0.2, 0.4]}}
    evaluation = {"before": {"step": 0, "count": 20, "reward": 0.4}}
    evaluation["after"] = {"step": 40, "count": 20, "reward": 0.7, "change": change}
    first = paged(made(tmp_path / "run", evaluation=evaluation, final_step=40)).first_screen
    assert "run better than before: reward 0.4 -> 0.7, +0.3 [+0.2, +0.4] completed at step 40 of 40" in first
    assert first.count("better than before") == 1


def test_many_values_that_differ_are_a_row_each(tmp_path: Path, paged: Callable[..., Page]) -> None:
    a = made(tmp_path / "a", values={"grpo.beta": 0.0, "seed": 1})
    b = made(tmp_path / "b", values={"grpo.beta": 0.04, "seed": 2})
    assert "What differs planned value a b grpo.beta 0.0 0.04 seed 1 2" in paged(a, b).first_screen


def test_each_of_several_sets_has_its_table_and_its_line(tmp_path: Path, paged: Callable[..., Page]) -> None:
    one = {"event": "evaluation", "count": 20}
    events = [
        {**one, "step": step, "set": name, "reward": reward}
        for step, rewards in ((0, (0.25, 0.5)), (40, (0.375, 0.125)))
        for name, reward in zip(("easy", "<b>hard</b>"), rewards, strict=True)
    ]
    counts = {"rows": 20, "became_right": 3, "became_wrong": 1}
    hard = {"before": events[1], "after": events[3], "counts": counts}
    evaluation = {"before": events[0], "after": events[2], "others": {"<b>hard</b>": hard}}
    page = paged(made(tmp_path / "run", events=events, evaluation=evaluation, final_step=40))
    assert "Held-out reward, easy 0.25 → 0.375" in page.first_screen
    assert "easy: 0.25 → 0.375" in page.text and "<b>hard</b>: 0.5 → 0.125" in page.text
    assert page.text.count("3 rows became right, 1 became wrong") == 1
    assert "<h3>&lt;b&gt;hard&lt;/b&gt;</h3>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_sets_that_are_too_many_to_show_are_counted(tmp_path: Path, paged: Callable[..., Page]) -> None:
    sets = [f"set{place}" for place in range(23)]
    events = [{"event": "evaluation", "count": 20, "step": 0, "set": name, "reward": 0.5} for name in sets]
    page = paged(made(tmp_path / "run", events=[*events, *events]))
    assert "set19" in page.text and "set20" not in page.text
    assert "3 more sets are left out here; metrics.jsonl has them." in page.text
    assert "left out here" not in paged(made(tmp_path / "other", events=events[:20])).text


@pytest.mark.parametrize("kind", ["text", "link", "run"])
def test_a_report_replaces_a_report_alone(kind: str, tmp_path: Path, grpo_run: Callable) -> None:
    run, mine = made(tmp_path / "run"), tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "link").symlink_to(mine)
    place = {"text": mine, "link": tmp_path / "link", "run": run / "plan.json"}[kind]
    before = place.read_bytes()
    answer = grpo_run("report", str(run), "-o", str(place))
    assert answer.code == 2
    assert "already exists" in answer.err and "report only replaces earlier reports" in answer.err
    assert place.read_bytes() == before and place.is_symlink() == (kind == "link")
    for _ in range(2):
        assert grpo_run("report", str(run), "-o", str(tmp_path / "page.html")).code == 0


def test_best_and_worst_completions_are_shown_with_what_they_got(tmp_path: Path, paged: Callable[..., Page]) -> None:
    kept = [completions(5, row("middling", 0.5), row("awful", -2.0, ended="length"), row("splendid", 3.0))]
    page = paged(made(tmp_path / "run", kept=kept))
    kinds = [one["data-kind"] for tag, one in page.tags if tag == "li" and "data-kind" in one]
    assert sorted(str(kind) for kind in kinds) == ["best", "drawn", "worst"]
    for words in ("Of 3 completions", "step 5 worst reward -2", "ended by length", "splendid", "3 tokens"):
        assert words in page.text


def saying(place: Path, text: str) -> Path:
    """A run of which everything that a run can say is this text."""
    return made(
        place / re.sub(r"[/\x00]", "_", text),
        values={f"trl.{text}": text},
        kept=[completions(1, row(text, prompt=text, rewards={text: 1.0, "b": 0.0}, ended=text))],
        steps=[step(number, **{f"rewards/{text}/mean": 1.0, text: 2.0}) for number in (1, 2)],
        status="stopped",
        message=text,
        findings=[{"id": text, "severity": "error", "message": text, "because": [text], "seen": [text], "fix": text}],
        guards=[{"id": f"G{text}", "name": text, "action": text, "first_step": 1, "last_step": 1, "count": 1}],
        proofs=[{"id": text, "name": text, "ok": True, "shown": text}],
        evaluation={"examples": [{"prompt": text, "before": text, "after": text}]},
        verified={text: text},
        shims={text: text},
        resumed=[text],
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_run_is_more_than_text(text: str, tmp_path: Path, paged: Callable[..., Page]) -> None:
    harmless = paged(saying(tmp_path, "harmless"))
    page = paged(saying(tmp_path, text))
    assert [(tag, list(has)) for tag, has in page.tags] == [(tag, list(has)) for tag, has in harmless.tags]
    assert page.scripts == harmless.scripts and len(page.scripts) == 2
    raw = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert raw.count("</script>") == 3
    assert not re.search("[\x00-\x08\x0b\x0e-\x1f\u202a-\u202e]", raw)


def test_images_of_a_prompt_are_shown_and_nothing_else_as_one(tmp_path: Path, paged: Callable[..., Page]) -> None:
    shown = base64.b64encode(b"a small JPEG").decode()
    others = ['" onerror="alert(1)', "http://example.org/a.png", "", 7, None, ["x"], "A" * 50_000]
    kept = [completions(1, row("a") | {"images": [shown, *others[:3]]}, row("b") | {"images": others[3:]})]
    kept += [completions(2, row("c") | {"images": "AAAA"}), completions(3, row("d") | {"images": [shown] * 9})]
    page = paged(made(tmp_path / "run", kept=kept))
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 5
    assert {str(one["src"]) for one in images} == {f"data:image/jpeg;base64,{shown}"}


def test_the_page_lets_nothing_out_and_runs_its_own_scripts_alone(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(made(tmp_path / "run", kept=[completions(1, row("http://example.org/a.png"))]))
    policy = next(str(one["content"]) for tag, one in page.tags if one.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and "http" not in policy and "unsafe" not in policy
    for script in page.scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "video", "audio", "source")
        assert "src" not in attributes and str(attributes.get("href", "#")).startswith("#")


def test_secrets_are_hidden(tmp_path: Path, paged: Callable[..., Page], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "correct-horse-battery")
    secret = "hf_" + "abcdefghij" * 3 + "klmn"
    paged(made(tmp_path / "run", kept=[completions(1, row(f"{secret} correct-horse-battery"))], message=secret))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert secret not in text and "correct-horse-battery" not in text and "&lt;redacted&gt;" in text


def test_several_runs_have_one_axis_and_what_differs(tmp_path: Path, paged: Callable[..., Page]) -> None:
    a = made(tmp_path / "a", values={"grpo.beta": 0.0, "seed": 1})
    b = made(tmp_path / "b", values={"grpo.beta": 0.04, "seed": 1}, status="interrupted")
    page = paged(a, b)
    assert "What differs run grpo.beta a 0.0 b 0.04" in page.first_screen and "seed" not in page.first_screen
    assert "b interrupted; can be resumed" in page.first_screen
    assert [(line["run"], line["label"]) for line in page.chart("reward")["lines"]] == [(0, "a"), (1, "b")]
    assert page.chart("reward")["said"] == "a: 0.055 → 0.355 · b: 0.055 → 0.355"


def test_runs_of_one_name_are_told_apart(tmp_path: Path, paged: Callable[..., Page]) -> None:
    page = paged(made(tmp_path / "x" / "run"), made(tmp_path / "y" / "run"))
    assert [line["label"] for line in page.chart("reward")["lines"]] == ["run (1)", "run (2)"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", "{"),
        ("plan.json", json.dumps({"plan": 1, "settings": [1, {}, {"key": [], "kind": "experiment", "why": {}}]})),
        ("run.json", "[]"),
        ("run.json", json.dumps({"status": "completed", "memory": {"update": 1}, "proofs": [1, {"ok": []}]})),
        ("metrics.jsonl", '[]\n{"event":"step","step":"x"}\n{"event":"step","step":1,"reward":[]}\nx\n{"event"'),
        ("metrics.jsonl", '{"event":"evaluation","step":3,"reward":"x","rewards":[1],"intervals":{"reward":[1]}}\n'),
        ("metrics.jsonl", '{"event":"step","step":1e300,"reward":1}\n{"event":"step","step":-4,"reward":1}\n'),
        ("completions.jsonl", '{"event":"completions","step":1,"rows":[1,{},{"rewards":1,"tokens":"x"}]}\n'),
    ],
)
def test_a_damaged_file_of_a_run_ends_nothing(
    name: str, content: str, tmp_path: Path, paged: Callable[..., Page]
) -> None:
    folder = made(tmp_path / "run", kept=[completions(1, row())])
    (folder / name).write_text(content)
    assert "run" in paged(folder).first_screen


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00\xff\n" * 9, b'{"event": "st'], ids=["gone", "empty", "noise", "cut"]
)
def test_figures_that_are_lost_are_named(content: bytes | None, tmp_path: Path, paged: Callable[..., Page]) -> None:
    folder = made(tmp_path / "run")
    words = "metrics.jsonl has no readable line"
    assert words not in paged(folder).text
    (folder / "metrics.jsonl").unlink()
    if content is not None:
        (folder / "metrics.jsonl").write_bytes(content)
    assert words in paged(folder).first_screen
    (folder / "metrics.jsonl").write_text('{"event": "start", "step": 0, "time": 1.0}\n')
    assert words not in paged(folder).text, "a run that is shorter than logging_steps has no step there"


def test_a_run_that_has_not_begun_says_so(tmp_path: Path, paged: Callable[..., Page]) -> None:
    folder = made(tmp_path / "run")
    for name in ("run.json", "metrics.jsonl"):
        (folder / name).unlink()
    page = paged(folder)
    assert "planned" in page.first_screen and "No step has a reward yet." in page.text


def test_what_a_run_came_from_is_told(tmp_path: Path, paged: Callable[..., Page]) -> None:
    before = Forebear("weights", "first", "a" * 64, "b" * 64, 100)
    ancestor = Ancestor("continue", "second", "/no", "/no", "c" * 64, 200, "folder", "/no", before=(before,))
    folder = made(tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_text())
    plan["ancestor"] = {name: getattr(ancestor, name) for name in ancestor.__slots__ if name != "before"}
    plan["ancestor"]["before"] = [{name: getattr(before, name) for name in before.__slots__}]
    (folder / "plan.json").write_text(json.dumps(plan))
    text = paged(folder).text
    assert "continues second, step 200, plan cccccccccccc" in text and "starts from first, step 100" in text


def test_the_page_of_a_run_that_still_trains_is_a_snapshot(tmp_path: Path, grpo_run: Callable) -> None:
    folder, path = made(tmp_path / "run", status="running", step=40, max_steps=60), tmp_path / "page.html"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"event": "step", "step": 41, "rew')
    answer = grpo_run("report", str(folder), "-o", str(path))
    assert (answer.code, answer.out.split()[0]) == (0, str(path))
    assert answer.err == f"{folder} is still running: the page is a snapshot; to follow it: grpo-run watch {folder}\n"
    page = Page(path.read_text(encoding="utf-8"))
    assert "still running" in page.first_screen and "running at step 40 of 60" in page.first_screen
    assert page.data["x"][0][-1] == 40

    (folder / "metrics.jsonl").write_text("".join(json.dumps(step(number)) + "\n" for number in range(1, 43)))
    (folder / "run.json").write_text(json.dumps({"run": 1, "status": "completed", "step": 42, "max_steps": 42}))
    answer = grpo_run("report", str(folder), "-o", str(path))
    page = Page(path.read_text(encoding="utf-8"))
    assert answer.err == "" and page.data["x"][0][-1] == 42
    assert "still running" not in page.first_screen


def test_of_several_runs_the_page_counts_those_that_still_train(tmp_path: Path, grpo_run: Callable) -> None:
    folders = [made(tmp_path / name, status=status) for name, status in (("a", "running"), ("b", "completed"))]
    answer = grpo_run("report", *map(str, folders), "-o", str(tmp_path / "page.html"))
    assert answer.err.startswith(f"{folders[0]} is still running")
    assert "1 of 2 runs still running" in Page((tmp_path / "page.html").read_text(encoding="utf-8")).first_screen
    folders.append(made(tmp_path / "c", status="running"))
    answer = grpo_run("report", *map(str, folders), "-o", str(tmp_path / "page.html"))
    assert answer.err.startswith("2 runs are still running") and f"the first: grpo-run watch {folders[0]}" in answer.err


MEASURED = """
import sys, time
from pathlib import Path
from grpo_recipes.report.html.page import write_page
from grpo_recipes.report.html.run_data import ReportedRun
started = time.process_time()
size = write_page([ReportedRun(sys.argv[1])], Path(sys.argv[2]))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(size, time.process_time() - started, int(peak) // 1024)
"""


@pytest.mark.slow
@pytest.mark.processes
def test_ten_thousand_steps_are_a_small_page(tmp_path: Path) -> None:
    steps = [step(number, **{f"figure/{place}": number * 0.1 for place in range(20)}) for number in range(1, 10_001)]
    kept = [completions(number, *[row("x" * 2000, number % 7) for _ in range(4)]) for number in range(1, 10_001, 10)]
    folder = made(tmp_path / "run", steps=steps, kept=kept)
    words = [sys.executable, "-c", MEASURED, str(folder), str(tmp_path / "page.html")]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    size, seconds, memory_mib = map(float, done.stdout.split())
    assert size < 1_000_000 and seconds < 15 and memory_mib < 400
    few = write_page([ReportedRun(str(made(tmp_path / "few")))], tmp_path / "few.html")
    assert size < 10 * few


def test_a_folder_of_runs_stands_for_its_runs(tmp_path: Path, paged: Callable[..., Page]) -> None:
    made(tmp_path / "runs" / "a"), made(tmp_path / "runs" / "b")
    (tmp_path / "runs" / "notes").mkdir()
    assert {line["label"] for line in paged(tmp_path / "runs").chart("reward")["lines"]} == {"a", "b"}


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("report", str(tmp_path))
    assert answer.code == 2 and "is not a run folder" in answer.err and answer.out == ""


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("report", str(made(tmp_path / "run")), "-o", str(tmp_path / "none" / "page.html"))
    assert answer.code == 2 and "cannot be written" in answer.err


def test_without_a_name_the_page_has_that_of_the_run(
    tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "first"), made(tmp_path / "second")
    monkeypatch.chdir(tmp_path)
    assert grpo_run("report", "first/").out.startswith("first-report.html  ")
    assert grpo_run("report", "first", "second").out.startswith("runs-report.html  ")
    assert {one for one in os.listdir() if one.endswith(".html")} == {"first-report.html", "runs-report.html"}


def test_what_is_shipped_with_the_page_is_what_was_released() -> None:
    told = json.loads((ASSETS / "vendored.json").read_text())
    for name, digest in told["files"].items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest, name
    assert f"(v{told['version']})" in (ASSETS / "uPlot.iife.min.js").read_text()[:200]
    notice = (Path(__file__).parents[2] / "NOTICE").read_text()
    assert f"uPlot {told['version']}" in notice and "Leon Sorokin" in notice


def test_the_words_above_a_chart_are_of_what_it_draws(tmp_path: Path, paged: Callable[..., Page]) -> None:
    ends = {"completions/ended_by_stop": 0.0, "completions/ended_by_eos": 0.75, "completions/clipped_ratio": 0.25}
    a, b = (made(tmp_path / name, steps=[step(number, **ends) for number in (1, 2)]) for name in "ab")
    one = paged(a).chart("ends")
    assert one["said"] == "truncated 25 % → 25 % · by eos 75 % → 75 %" and len(one["lines"]) == 3
    both = paged(a, b).chart("ends")
    assert both["title"] == "How completions end: truncated" and both["said"] == "a: 25 % → 25 % · b: 25 % → 25 %"
    assert [line["y"] for line in both["lines"]] == [[0.25, 0.25]] * 2
