"""What a profile refuses before anything is started."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profile_runs import QUICKSTART

from grpo_recipes.cli.commands import profile as command
from grpo_recipes.cli.options import RunOptions
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.stack.target import parse_target

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("out", "options", "message", "fix"),
    [
        ("rows.parquet", [], "the rows are written as JSON lines", "rows.parquet.jsonl"),
        ("there.jsonl", [], "it already exists", "a different -o"),
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


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        ((), "a profile answers one source of a mixture", "--source math"),
        (("--source", "maths"), "--source maths: there is no such source", "--source math"),
        (
            ("--source", "code", "--set", "evaluation.passes.reward=exact_match"),
            "nothing says which answers to code pass",
            "--set evaluation.passes.reward=tag_format",
        ),
    ],
)
def test_a_mixture_is_profiled_by_source(
    words: tuple[str, ...], message: str, fix: str, tmp_path: Path, grpo_run: Run
) -> None:
    sources = [
        {"source": name, "path": f"owner/{name}", "prompt": "{{ q }}", "rewards": [reward]}
        for name, reward in (("math", "exact_match"), ("code", "tag_format"))
    ]
    recipe = {"extends": str(QUICKSTART), "dataset": None, "datasets": sources, "rewards": TWO, "evaluation": None}
    (tmp_path / "mixed.yaml").write_text(json.dumps(recipe))
    answer = grpo_run("profile", str(tmp_path / "mixed.yaml"), "-o", str(tmp_path / "rows.jsonl"), *words)
    assert answer.code == 2
    assert message in answer.err
    assert fix in answer.err


def test_a_recipe_of_one_source_has_no_other(tmp_path: Path, grpo_run: Run) -> None:
    answer = grpo_run("profile", str(QUICKSTART), "-o", str(tmp_path / "rows.jsonl"), "--source", "math")
    assert (answer.code, "the recipe has one source" in answer.err) == (2, True)


@pytest.mark.parametrize("recipe", ["qwen2_5_7b_zero3.yaml", "qwen2_5_7b_two_nodes.yaml", "quickstart.yaml"])
def test_a_recipe_for_many_gpus_is_answered_by_one_process(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, _ = parse_target("tested,gpus=8xH100-80GB")
    monkeypatch.setattr(command, "choose_stack", lambda target, trains: stack)
    resolution = command._on_one_gpu(str(QUICKSTART.parent / recipe), RunOptions(overrides=command.ONE_PROCESS))
    assert resolution.findings == ()
    world = plan_of(resolution).world
    assert (world.num_processes, world.strategy, world.engine) == (1, "single", "local")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("mine", "code", "message"),
    [
        ('{"question": "1+1=", "answer": "2"}\n', 2, "rows.partial.jsonl is not a profile"),
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


TWO = [{"name": "exact_match"}, {"name": "tag_format"}]
ANSWERED = (*command.ONE_PROCESS, "evaluation.samples=2", "evaluation.greedy=false", "evaluation.pass_at=[1]")


def _recipe(folder: Path, passes: object, **sets: object) -> str:
    named = {name: {"path": "owner/data", **own} for name, own in sets.items()}  # type: ignore[dict-item]
    evaluation = {"path": None, "split": None, "max_rows": None, "passes": passes, "sets": named}
    recipe = {"extends": str(QUICKSTART), "rewards": TWO, "evaluation": evaluation}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return str(folder / "recipe.yaml")


@pytest.mark.parametrize(
    ("passes", "first", "profiled"),
    [
        ({"reward": "exact_match", "at_least": 0.5}, {"passes": {"reward": "tag_format"}}, ("exact_match", 0.5)),
        (None, {"passes": {"reward": "tag_format", "at_least": 0.2}}, ("tag_format", 0.2)),
        (None, {"rewards": ["tag_format"]}, ("tag_format", 1.0)),
    ],
)
def test_what_passes_is_of_the_recipe_before_the_set_that_decides(
    passes: object, first: dict[str, object], profiled: tuple[str, float], tmp_path: Path
) -> None:
    recipe = _recipe(tmp_path, passes, first=first, other={"path": "owner/other"})
    resolution = command._on_one_gpu(recipe, RunOptions(overrides=ANSWERED))
    assert resolution.findings == ()
    assert resolution.context is not None
    plan = command._of_training_rows(plan_of(resolution), command._passes(resolution.context), None)
    assert plan.evaluation is not None and plan.evaluation.passes is not None
    assert (plan.evaluation.passes.reward, plan.evaluation.passes.at_least) == profiled
    assert len(plan.evaluation.sets) == 1


def test_a_recipe_with_sets_that_does_not_say_what_passes(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        command._on_one_gpu(_recipe(tmp_path, None, first={}, other={"rewards": ["tag_format"]}), RunOptions(ANSWERED))
    (one,) = refused.value.findings
    assert (one.message, one.because) == (
        "the recipe does not say which answers pass",
        ("each of exact_match, tag_format could decide which completions pass",),
    )
