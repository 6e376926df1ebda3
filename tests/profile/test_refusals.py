"""What a profile refuses before anything is started."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profile_runs import QUICKSTART

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("out", "options", "message", "fix"),
    [
        ("rows.parquet", [], "the rows are written as JSON lines", "rows.parquet.jsonl"),
        ("there.jsonl", [], "it exists already", "a different -o"),
        ("none/rows.jsonl", [], "there is no folder", "mkdir -p"),
        ("rows.jsonl", ["launch.num_processes=2"], "a profile runs in one process", "--set launch.num_processes=1"),
        (
            "rows.jsonl",
            [
                "dataset.path=null",
                "dataset.prompt=null",
                "dataset.columns=null",
                "dataset.reasoning_gym.name=chain_sum",
                "rewards[0].name=reasoning_gym",
            ],
            "the rows of this recipe cannot be profiled",
            "dataset.path",
        ),
    ],
)
def test_the_way_out_is_named(
    out: str, options: list[str], message: str, fix: str, tmp_path: Path, grpo_run: Run
) -> None:
    (tmp_path / "there.jsonl").write_text("mine\n")
    words = [word for option in options for word in ("--set", option)]
    answer = grpo_run("profile", str(QUICKSTART), "-o", str(tmp_path / out), *words)
    assert answer.code == 2
    assert message in answer.err
    assert fix in answer.err
    assert [file.name for file in tmp_path.iterdir()] == ["there.jsonl"]
    assert (tmp_path / "there.jsonl").read_text() == "mine\n"
