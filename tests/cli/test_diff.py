"""`diff`: what is the same experiment, what is another one, and what cannot be said."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
NEWEST = "trl==1.16.0,transformers==5.23.0,peft==0.21.2,gpus=2xA100-80GB"
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
        pytest.param({}, REWARD + "\n", {"rewards[0]": []}, id="another-reward-of-the-same-name"),
    ],
)
def test_another_experiment_is_said_first(
    tmp_path: Path, grpo_run: Callable, changes: dict[str, object], reward: str, rows: dict[str, list[str]]
) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b", changes, reward)
    answer = grpo_run("diff", a, b, "--target", NEWEST)
    assert answer.code == 1
    assert answer.out.splitlines()[3] == "another experiment"
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
    assert said["trl"][0] == "1.16.0"
    assert said["gpus"] == ["2", "x", "A100-80GB", "1", "x", "H100-80GB"]
    assert said["shims.logits_to_keep"][0] == "-"


def test_a_stack_that_cannot_express_the_recipe_is_named_with_the_field(tmp_path: Path, grpo_run: Callable) -> None:
    target = "trl==0.16.1,transformers==4.49.0,peft==0.15.0,gpus=1xH100-80GB"
    arguments = ("diff", written(tmp_path / "a"), "--target", NEWEST, "--target", target)
    answer = grpo_run(*arguments)
    assert answer.code == 2
    assert f"on {NEWEST} can be run" in answer.out
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
    assert {"key": "trl", "a": "1.16.0", "b": "0.14.0", "why": ""} in found["machine"]
    assert "GRPOConfig.loss_type" in {row["key"] for row in found["passed"]}


@pytest.mark.parametrize(
    "arguments",
    [("a.yaml",), ("a.yaml", "b.yaml", "c.yaml"), ("a.yaml", "b.yaml", "--target", "x", "--target", "y"), (".", "b")],
    ids=["one-alone", "three", "two-on-two", "a-run-folder"],
)
def test_what_cannot_be_compared_is_refused_in_one_line(grpo_run: Callable, arguments: tuple[str, ...]) -> None:
    answer = grpo_run("diff", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
