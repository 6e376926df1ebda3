"""What a profile refuses before anything is started."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profile_runs import QUICKSTART

from grpo_recipes.cli.commands import profile as command
from grpo_recipes.cli.options import RunOptions
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.stack.target import parse_target

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("out", "options", "message", "fix"),
    [
        ("rows.parquet", [], "the rows are written as JSON lines", "rows.parquet.jsonl"),
        ("there.jsonl", [], "it exists already", "a different -o"),
        ("none/rows.jsonl", [], "there is no folder", "mkdir -p"),
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


@pytest.mark.parametrize("recipe", ["qwen2_5_7b_zero3.yaml", "qwen2_5_7b_two_nodes.yaml", "quickstart.yaml"])
def test_a_recipe_for_many_gpus_is_answered_by_one_process(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, _ = parse_target("tested,gpus=8xH100-80GB")
    monkeypatch.setattr(command, "chosen_stack", lambda target: stack)
    resolution = command._on_one_gpu(str(QUICKSTART.parent / recipe), RunOptions(overrides=command.ONE_PROCESS))
    assert resolution.findings == ()
    world = plan_of(resolution).world
    assert (world.num_processes, world.strategy, world.engine) == (1, "single", "local")


@pytest.mark.parametrize(
    ("mine", "code", "message"),
    [
        ('{"question": "1+1=", "answer": "2"}\n', 2, "rows.partial.jsonl is no profile"),
        ('[{"question": "1+1="}, {"question": "2+2="}]', 3, "has rows of a different profile"),
        ("what I noted", 3, "has rows of a different profile"),
    ],
)
def test_a_file_of_the_users_own_is_neither_overwritten_nor_called_a_profile(
    mine: str, code: int, message: str, profile: Run, sums: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.partial.jsonl").write_text(mine)
    done = profile("-o", "rows.jsonl", "--samples", 2, "--max-rows", 2)
    assert done.code == code, done.err
    assert message in done.err
    assert code == 3 or "rm " not in done.err
    assert (tmp_path / "rows.partial.jsonl").read_text() == mine
