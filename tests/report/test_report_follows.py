"""A page that is written while its run goes on: what is new is in it, a reader never sees a part, and it ends."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from report_runs import completions, made, row, step
from support.report_page import Page

from grpo_recipes.report.html.followed_page import follow, write_page
from grpo_recipes.report.html.followed_run import FollowedRun


def append(folder: Path, name: str, *lines: dict[str, object]) -> None:
    with (folder / name).open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def set_record(folder: Path, **changes: object) -> None:
    whole = {**json.loads((folder / "run.json").read_text()), **changes}
    (folder / "new.json").write_text(json.dumps(whole))
    (folder / "new.json").rename(folder / "run.json")


def test_each_look_reads_what_is_new(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", kept=[completions(1, row())], status="running")
    run = FollowedRun(str(folder))
    append(folder, "metrics.jsonl", step(41), step(42))
    append(folder, "completions.jsonl", completions(41, row(), row()))
    run.look()
    run.look()
    assert (run.series.steps, run.series.x()[-1], run.samples.rows) == (42, 42, 3)


def test_a_run_that_was_resumed_is_read_anew(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", status="running")
    run = FollowedRun(str(folder))
    lines = [json.dumps(step(number, reward=1.0)) + "\n" for number in range(1, 61)]
    (folder / "new.jsonl").write_text("".join(lines))
    (folder / "new.jsonl").rename(folder / "metrics.jsonl")
    run.look()
    assert run.series.steps == 60 and set(run.series.mean("reward")) == {1.0}


def test_the_page_is_written_until_the_run_has_ended(tmp_path: Path) -> None:
    folder, path = made(tmp_path / "run", status="running", step=40), tmp_path / "page.html"
    results: list[bool] = []
    writing = threading.Thread(target=lambda: results.append(follow([FollowedRun(str(folder))], path, pause_s=0.02)))
    writing.start()
    number, seen, deadline = 40, set(), time.monotonic() + 60
    while len(seen) < 3 and time.monotonic() < deadline:
        number += 1
        append(folder, "metrics.jsonl", step(number))
        time.sleep(0.05)
        if path.exists():
            page = Page(path.read_text(encoding="utf-8"))  # whole at any time
            seen.add(page.data["x"][0][-1])
            assert "data-reload-s" in dict(page.tags)["html"]
    set_record(folder, status="completed", step=number)
    writing.join(timeout=60)
    page = Page(path.read_text(encoding="utf-8"))
    assert results == [True] and page.data["x"][0][-1] == number and len(seen) == 3
    assert "data-reload-s" not in dict(page.tags)["html"]
    assert [one for one in os.listdir(tmp_path) if one.endswith(".writing")] == []


def test_a_run_of_which_nothing_is_heard_is_given_up(tmp_path: Path) -> None:
    folder, path = made(tmp_path / "run", status="running"), tmp_path / "page.html"
    assert follow([FollowedRun(str(folder))], path, pause_s=0.01, silence_s=0.05) is False
    assert "data-reload-s" not in path.read_text(encoding="utf-8")


def test_a_run_that_has_ended_is_written_once(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("report", str(made(tmp_path / "run")), "--follow", "-o", str(tmp_path / "page.html"))
    assert answer.code == 0 and Page((tmp_path / "page.html").read_text(encoding="utf-8"))


MEASURED = """
import sys, time
from pathlib import Path
from grpo_recipes.report.html.followed_page import write_page
from grpo_recipes.report.html.followed_run import FollowedRun
started = time.process_time()
size = write_page([FollowedRun(sys.argv[1])], Path(sys.argv[2]))
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
    few = write_page([FollowedRun(str(made(tmp_path / "few")))], tmp_path / "few.html")
    assert size < 10 * few
