"""Files that are no recipe: one clear message, exit 2, no traceback, nothing written."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.work import takes_at_most

MINIMAL = """recipe: 1
name: minimal
model: {model_name_or_path: a/b}
dataset: {path: a/c, prompt: "{{ q }}"}
rewards: [{name: valid_json}]
training: {prompts_per_step: 8}
"""


def _alias_bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines) + "\n"


def _make(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.yaml"
    contents = {
        "empty": b"",
        "binary": bytes(range(256)) * 4,
        "large": b"a: 1\n" * (2 * 1024 * 1024),
        "deep": b"[" * 200_000,
        "alias_bomb": _alias_bomb().encode(),
        "recursive_extends": b"recipe: 1\nextends: recursive_extends.yaml\n",
        "tag": MINIMAL.encode() + b"description: !!python/object/apply:os.system 'touch executed'\n",
        "list": b"- recipe: 1\n",
        "no_space": b"recipe:1\n",
        "tab": b"recipe: 1\nmodel:\n\tname: x\n",
    }
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "empty",
        "directory",
        "fifo",
        "binary",
        "large",
        "deep",
        "alias_bomb",
        "recursive_extends",
        "tag",
        "list",
        "no_space",
        "tab",
    ],
)
@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run"], ["run", "--dry-run"]], ids=" ".join)
def test_what_is_no_recipe_gets_one_message(
    kind: str, command: list[str], tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _make(tmp_path, kind)
    before = sorted(tmp_path.rglob("*"))
    with takes_at_most(2):
        answer = grpo_run(*command, str(path))
    assert answer.code == 2
    text = answer.out + answer.err
    assert text.count("error: ") == 1
    assert kind in text.split(" error: ")[0]
    assert "Traceback" not in text
    assert sorted(tmp_path.rglob("*")) == before


def test_five_mistakes_give_five_findings_with_place_reason_and_fix(tmp_path: Path, grpo_run: Callable) -> None:
    recipe = tmp_path / "five.yaml"
    recipe.write_text(
        "recipe: 1\n"
        "name: five\n"
        "model: {model_name_or_path: Qwen/Qwen2-0.5B-Instruct}\n"
        "quantization: {load_in_4bit: true}\n"
        "dataset: {path: openai/gsm8k, prompt: '{{ question }}'}\n"
        "rewards:\n"
        "  - {name: exactmatch}\n"
        "grpo:\n"
        "  loss_type: dapoo\n"
        "  epsilon_hig: 0.28\n"
        "training:\n"
        "  prompts_per_step: 16\n"
        "  per_device_train_batch_size: 3\n"
    )
    answer = grpo_run("run", str(recipe))
    assert answer.code == 2
    heads = [line for line in answer.err.splitlines() if " error: " in line]
    places = [head.removeprefix(str(recipe)).split(" error: ")[0] for head in heads]
    assert places == [":4:1:", ":7:6:", ":9:3:", ":10:3:", ":13:3:"]
    ids = [head.rpartition("[")[2].rstrip("]") for head in heads]
    assert ids == ["QNT001", "RWD001", "FCT005", "FCT001", "BAT001"]
    assert answer.err.count("= because: ") >= 5
    assert answer.err.count("= fix: ") == 5
    assert "13 |   per_device_train_batch_size: 3" in answer.err
    assert "nothing was started" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["validate"], "RECIPE"),
        (["validate", "--fromat", "json", "x.yaml"], "--fromat"),
        (["recipes/quickstart.yaml", "--target", "trl==1.16.0"], "--target declares a different machine"),
        (["validate", "x.yaml", "--target", "trll==1.16.0"], "trll"),
        (["explain", "BAT999"], "BAT999"),
        (["schema", "recipes"], "recipes"),
    ],
    ids=["no recipe", "unknown option", "run with target", "unknown package", "unknown rule", "unknown schema"],
)
def test_wrong_usage_is_one_message_and_exit_2(arguments: list[str], said: str, grpo_run: Callable) -> None:
    answer = grpo_run(*arguments)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(("value", "said"), [("5", ["SCH002"]), ('""', ["SCH003"]), ("null", [])])
def test_a_run_that_is_none_leaves_the_model_of_a_parent(
    value: str, said: list[str], grpo_run: Callable, tmp_path: Path
) -> None:
    parent = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
    stage = tmp_path / "stage.yaml"
    stage.write_text(f"recipe: 1\nextends: {parent}\nname: stage\nmodel: {{from_run: {value}}}\n")
    answer = grpo_run("validate", str(stage), "--json")
    assert [finding["rule"] for finding in json.loads(answer.out)["findings"]] == said
