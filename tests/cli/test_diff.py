"""`diff`: what is the same experiment, what is another one, and what cannot be said."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from support.releases import TRL, pinned

from grpo_recipes.compare.experiment_groups import groups
from grpo_recipes.contract.integrity.run_folder import record_text

ROOT = Path(__file__).parents[2]
NEWEST = f"{pinned('trl transformers peft')},gpus=2xA100-80GB"
REWARD = "def brevity(completions, **kwargs):\n    return [-float(len(text)) for text in completions]\n"
RECIPE = {
    "recipe": 1,
    "name": "small",
    "model": {"model_name_or_path": "owner/model", "dtype": "bfloat16"},
    "lora": {"r": 8},
    "dataset": {"path": "./rows.jsonl", "prompt": "{{ question }}"},
    "rewards": [{"python": "rewards.py:brevity"}],
    "generation": {"top_k": 50},
    "grpo": {"num_generations": 8, "beta": 0.04, "loss_type": "grpo", "use_bias_correction_kl": False},
    "training": {"prompts_per_step": 4, "max_steps": 10},
}


def written(folder: Path, changes: dict[str, object] | None = None, reward: str = REWARD) -> str:
    """A recipe in a folder of its own, with its reward and its rows. changes: whole sections."""
    folder.mkdir(exist_ok=True)
    (folder / "rewards.py").write_text(reward)
    (folder / "rows.jsonl").write_text('{"question": "1+1="}\n' * 4)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE | (changes or {})))
    return str(path)


def lines_of(text: str) -> dict[str, list[str]]:
    """The rows of an answer by their key."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("  ")}


def test_a_recipe_differs_in_nothing_from_its_copy_elsewhere(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("diff", written(tmp_path / "a"), written(tmp_path / "b"), "--target", NEWEST)
    assert (answer.code, answer.out.splitlines()[2:]) == (0, ["", "the same experiment"])


@pytest.mark.parametrize(
    ("changes", "reward", "rows"),
    [
        pytest.param({"grpo": RECIPE["grpo"] | {"beta": 0.0}}, REWARD, {"grpo.beta": ["0.04", "0.0"]}, id="a-value"),
        pytest.param({"lora": None}, REWARD, {"lora.r": ["8", "-"]}, id="no-adapter"),
        pytest.param({}, REWARD + "\n", {"rewards.brevity.sha256": []}, id="another-reward-of-the-same-name"),
    ],
)
def test_another_experiment_is_said_first(
    tmp_path: Path, grpo_run: Callable, changes: dict[str, object], reward: str, rows: dict[str, list[str]]
) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b", changes, reward)
    answer = grpo_run("diff", a, b, "--target", NEWEST)
    assert answer.code == 1
    assert answer.out.splitlines()[3] == "a different experiment"
    assert answer.out.splitlines()[4].strip() in groups()
    said = lines_of(answer.out)
    assert rows.keys() <= said.keys()
    assert all(said[key][: len(cells)] == cells for key, cells in rows.items())


def test_two_spellings_of_one_value_are_one_experiment(tmp_path: Path, grpo_run: Callable) -> None:
    grpo = dict[str, object](RECIPE["grpo"])  # type: ignore[call-overload]
    a = written(tmp_path / "a", {"grpo": grpo | {"scale_rewards": "group"}})
    b = written(tmp_path / "b", {"grpo": grpo | {"scale_rewards": True}})
    assert grpo_run("diff", a, b, "--target", NEWEST).code == 0


OLDER = [
    "trl==0.14.0,transformers==4.48.3,peft==0.14.0,gpus=1xH100-80GB",
    "trl==0.19.1,transformers==4.52.4,peft==0.15.2,gpus=1xH100-80GB",
    "trl==1.9.0,transformers==5.23.0,peft==0.19.1,gpus=1xH100-80GB",
]


@pytest.mark.parametrize("target", OLDER, ids=lambda target: target.split(",")[0])
def test_a_recipe_is_the_same_experiment_on_every_stack_that_accepts_it(
    tmp_path: Path, grpo_run: Callable, target: str
) -> None:
    answer = grpo_run("diff", written(tmp_path / "a"), "--target", NEWEST, "--target", target)
    assert (answer.code, answer.out.splitlines()[3]) == (0, "the same experiment")
    said = lines_of(answer.out)
    assert said["trl"][0] == TRL
    assert said["gpus"] == ["2", "x", "A100-80GB", "1", "x", "H100-80GB"]
    assert said["shims.logits_to_keep"][0] == "-"


def test_a_stack_that_cannot_express_the_recipe_is_named_with_the_field(tmp_path: Path, grpo_run: Callable) -> None:
    target = "trl==0.16.1,transformers==4.49.0,peft==0.15.0,gpus=1xH100-80GB"
    arguments = ("diff", written(tmp_path / "a"), "--target", NEWEST, "--target", target)
    answer = grpo_run(*arguments)
    assert answer.code == 2
    assert f"on {NEWEST} can run" in answer.out
    assert "trl 0.16.1 (released) cannot express loss_type 'grpo' [FCT004]" in answer.out
    found = json.loads(grpo_run(*arguments, "--json").out)
    assert found["same_experiment"] is None
    assert [finding["rule"] for finding in found["findings"]["b"] if finding["severity"] == "error"] == ["FCT004"]
    schema = json.loads((ROOT / "schemas/diff.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)


def test_the_json_fits_its_schema(tmp_path: Path, grpo_run: Callable) -> None:
    found = json.loads(
        grpo_run("diff", written(tmp_path / "a"), "--target", NEWEST, "--target", OLDER[0], "--json").out
    )
    jsonschema.Draft202012Validator(json.loads((ROOT / "schemas/diff.schema.json").read_text())).validate(found)
    assert found["same_experiment"] is True
    assert {"key": "trl", "a": TRL, "b": "0.14.0", "why": "", "group": ""} in found["machine"]
    assert "GRPOConfig.loss_type" in {row["key"] for row in found["passed"]}


BETA_AND_BATCH = {
    "grpo": dict[str, object](RECIPE["grpo"]) | {"beta": 0.1},  # type: ignore[call-overload]
    "training": {"prompts_per_step": 2, "max_steps": 10},
}


@pytest.fixture
def run_folder(tmp_path: Path, grpo_run: Callable) -> str:
    """A run folder, as a run that completed leaves it."""
    folder = str(tmp_path / "run")
    recipe = written(tmp_path / "a")
    assert grpo_run(recipe, "--dry-run", "--out", folder, "--target", NEWEST).code == 0
    before, after = ({"reward": reward, "count": 9} for reward in (0.25, 0.75))
    record = {"status": "completed", "step": 10, "max_steps": 10, "evaluation": {"before": before, "after": after}}
    (tmp_path / "run/run.json").write_text(record_text(tmp_path / "run", record))
    return folder


def test_a_run_folder_its_plan_and_its_recipe_are_one_experiment(
    tmp_path: Path, run_folder: str, grpo_run: Callable
) -> None:
    recipe, plan = str(tmp_path / "a/recipe.yaml"), f"{run_folder}/plan.json"
    for pair in ((run_folder, recipe), (recipe, plan), (plan, run_folder), (run_folder, run_folder)):
        target = ("--target", NEWEST) if recipe in pair else ()
        answer = grpo_run("diff", *pair, *target)
        assert (answer.code, answer.out.splitlines()[3]) == (0, "the same experiment")
        assert ("measured" in answer.out) == (run_folder in pair)


def test_what_a_run_measured_stands_at_the_end_and_changes_nothing(
    tmp_path: Path, run_folder: str, grpo_run: Callable
) -> None:
    other = written(tmp_path / "b", BETA_AND_BATCH)
    answer = grpo_run("diff", run_folder, other, "--target", NEWEST)
    assert answer.code == 1
    assert [line.split() for line in answer.out.splitlines()[-5:]] == [
        ["measured,", "for", "information"],
        ["a", "b"],
        ["status", *["completed", "at", "step", "10", "of", "10"], "-"],
        ["held", "out", "before", "reward", "0.25", "(9", "rows)", "-"],
        ["held", "out", "after", "reward", "0.75", "(9", "rows)", "-"],
    ]
    found = json.loads(grpo_run("diff", run_folder, other, "--target", NEWEST, "--format", "json").out)
    jsonschema.Draft202012Validator(json.loads((ROOT / "schemas/diff.schema.json").read_text())).validate(found)
    assert found["measured"].keys() == {"a"}
    assert found["measured"]["a"]["after"] == {"reward": 0.75, "count": 9}
    assert [(row["group"], row["key"]) for row in found["experiment"]] == [
        ("algorithm", "grpo.beta"),
        ("effective batch", "prompts per optimizer step"),
        ("effective batch", "completions per optimizer step"),
    ]


def test_one_and_two_processes_are_one_experiment(tmp_path: Path, grpo_run: Callable) -> None:
    recipe, two = written(tmp_path / "a"), written(tmp_path / "b", {"launch": {"num_processes": 2}})
    target = NEWEST.replace("2xA100-80GB", "0")
    answer = grpo_run("diff", recipe, two, "--target", target)
    assert (answer.code, answer.out.splitlines()[3]) == (0, "the same experiment")
    assert lines_of(answer.out)["world.num_processes"][:2] == ["1", "2"]


def test_markdown_has_the_experiment_open_and_the_rest_folded(tmp_path: Path, grpo_run: Callable) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b", BETA_AND_BATCH)
    answer = grpo_run("diff", a, b, "--target", NEWEST, "--format", "markdown")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == "### A different experiment"
    assert lines[2] == f"a: `{a} on {NEWEST}`<br>"
    assert "| `prompts per optimizer step` | `4` | `2` |" in lines
    assert lines.index("| **algorithm** | | |") < lines.index("| **effective batch** | | |")
    opened, closed = answer.out.count("<details>"), answer.out.count("</details>")
    assert (opened, closed) == (1, 1)
    assert lines.index("| `grpo.beta` | `0.04` | `0.1` |") < lines.index(
        "<details><summary>machine: 1 difference</summary>"
    )


def test_markdown_of_one_experiment_is_one_line_and_the_names(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run(
        "diff", written(tmp_path / "a"), written(tmp_path / "b"), "--target", NEWEST, "--format", "markdown"
    )
    assert (answer.code, answer.out.splitlines()[0], len(answer.out.splitlines())) == (0, "### The same experiment", 4)


def test_nothing_in_a_value_is_markdown(tmp_path: Path, grpo_run: Callable) -> None:
    dataset = dict[str, object](RECIPE["dataset"])  # type: ignore[call-overload]
    a = written(tmp_path / "a", {"dataset": dataset | {"system_prompt": "``` @you | <b>\n\n# x"}})
    b = written(tmp_path / "b", {"dataset": dataset | {"system_prompt": "plain"}})
    answer = grpo_run("diff", a, b, "--target", NEWEST, "--format", "markdown")
    (row,) = [line for line in answer.out.splitlines() if "system_prompt" in line]
    assert row == "| `dataset.system_prompt` | ```` ``` @you \\| <b>\\n\\n# x ```` | `plain` |"


def test_markdown_of_a_refused_recipe_shows_the_errors_in_a_fence(tmp_path: Path, grpo_run: Callable) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b", {"seed": "```"})
    answer = grpo_run("diff", a, b, "--target", NEWEST, "--format", "markdown")
    assert answer.code == 2
    assert answer.out.splitlines()[0] == "### The experiments cannot be compared"
    assert answer.out.count("\n``````\n") == 2
    assert "[SCH002]" in answer.out


def test_long_values_are_shown_where_they_begin_to_differ(tmp_path: Path, grpo_run: Callable) -> None:
    dataset = dict[str, object](RECIPE["dataset"])  # type: ignore[call-overload]
    a, b = (
        written(tmp_path / name, {"dataset": dataset | {"prompt": f"{'word ' * 30}{name} {{{{ question }}}}"}})
        for name in "ab"
    )
    said = lines_of(grpo_run("diff", a, b, "--target", NEWEST).out)["dataset.prompt"]
    assert said.index("a") < said.index("b")


def test_a_folder_without_a_plan_and_a_file_that_is_none_are_refused(tmp_path: Path, grpo_run: Callable) -> None:
    recipe = written(tmp_path / "a")
    (tmp_path / "plan.json").write_text('{"plan": 1}')
    for place in (str(tmp_path / "a"), str(tmp_path / "plan.json"), str(tmp_path / "nothing.json")):
        answer = grpo_run("diff", place, recipe, "--target", NEWEST)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error: {place}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.yaml",),
        ("plan.json", "--target", NEWEST),
        ("a.yaml", "b.yaml", "c.yaml"),
        ("a.yaml", "b.yaml", "--target", "x", "--target", "y"),
        ("a/plan.json", "b/plan.json", "--set", "grpo.beta=0"),
    ],
    ids=["one-alone", "one-plan-on-two", "three", "two-on-two", "plans-with-an-override"],
)
def test_what_cannot_be_compared_is_refused_in_one_line(grpo_run: Callable, arguments: tuple[str, ...]) -> None:
    answer = grpo_run("diff", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
