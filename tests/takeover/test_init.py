"""`grpo-run init`: what it writes, and that it overwrites nothing."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import small_disks
from support.releases import pinned
from taken import BASE

from grpo_recipes.takeover.shipped import shipped_recipes

ROOT = Path(__file__).parents[2]
STACK = f"{pinned('trl transformers peft')},gpus=1xA100-80GB"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_small_recipe_validates_as_it_is_written(grpo_run: Callable, folder: Path) -> None:
    assert grpo_run("init").code == 0
    answer = grpo_run("validate", "recipe.yaml", "--target", STACK)
    assert (answer.code, "error" in answer.out) == (0, False)
    line, _, printed = (folder / "recipe.yaml").read_text().partition("\n")
    assert line.startswith("# yaml-language-server: ")
    assert grpo_run("init", "-o", "-").out == printed


@pytest.mark.parametrize(
    "arguments", [(), ("qwen2_lora",), ("--from", "config.yaml")], ids=["small", "shipped", "taken"]
)
def test_the_schema_that_a_recipe_names_lies_beside_it(arguments: tuple, grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(BASE)
    assert grpo_run("init", *arguments, "-o", "new/recipe.yaml").code == 0
    line = (folder / "new/recipe.yaml").read_text().partition("\n")[0]
    schema = folder / "new" / line.removeprefix("# yaml-language-server: $schema=")
    assert schema.read_text() == (ROOT / "schemas/recipe.schema.json").read_text()
    schema.write_text("mine")
    assert grpo_run("init", *arguments, "-o", "new/second.yaml").code == 0
    assert schema.read_text() == "mine"


def test_nothing_is_overwritten(grpo_run: Callable, folder: Path) -> None:
    (folder / "recipe.yaml").write_text("mine")
    (folder / "config.yaml").write_text(BASE)
    for arguments in (["init"], ["init", "qwen2_lora", "-o", "recipe.yaml"]):
        answer = grpo_run(*arguments)
        assert (answer.code, "already exists" in answer.err) == (2, True)
    assert grpo_run("init", "--from", "config.yaml", "-o", "recipe.yaml").code == 2
    assert (folder / "recipe.yaml").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "recipe.yaml"]


def test_the_list_has_every_shipped_recipe(grpo_run: Callable) -> None:
    folders = (ROOT / "recipes", ROOT / "recipes/catalogue")
    names = [path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))]
    head, *lines = (re.split(r" {2,}", line) for line in grpo_run("init", "--list").out.splitlines())
    assert head == ["name", "task", "size", "method", "hardware", "state"]
    listed = json.loads(grpo_run("init", "--list", "--json").out)
    assert lines == [[one[key] for key in head] for one in listed]
    assert [one["name"] for one in listed] == [*names, "smollm2"]
    assert all(one.values() and all(one.values()) for one in listed)


def test_a_recipe_of_the_catalogue_is_written_whole(grpo_run: Callable, folder: Path) -> None:
    assert grpo_run("init", "qwen2_5_1_5b_gsm8k_lora").code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["qwen2_5_1_5b_gsm8k_lora.yaml", "recipe.schema.json"]
    text = (folder / "qwen2_5_1_5b_gsm8k_lora.yaml").read_text()
    assert "extends" not in text
    assert "State: not run." in text
    (folder / "child.yaml").write_text("extends: grpo-recipes:qwen2_5_1_5b_gsm8k_lora\n")
    answer = grpo_run("diff", "child.yaml", "qwen2_5_1_5b_gsm8k_lora.yaml", "--target", STACK)
    assert (answer.code, "the same experiment" in answer.out) == (0, True), answer.out


def test_a_recipe_of_the_catalogue_brings_its_reward_along(grpo_run: Callable, folder: Path) -> None:
    assert grpo_run("init", "qwen3_0_6b_reverse_text_lora", "-o", "new/reverse.yaml").code == 0
    assert sorted(path.name for path in (folder / "new").iterdir()) == [
        "recipe.schema.json",
        "reverse.yaml",
        "reverse_text.py",
    ]
    answer = grpo_run("validate", "new/reverse.yaml", "--target", STACK, "--format", "json")
    assert [one["rule"] for one in json.loads(answer.out)["findings"] if one["severity"] == "error"] == []


@pytest.mark.parametrize("name", [one.name for one in shipped_recipes() if not one.is_whole])
def test_a_shipped_recipe_is_written_with_what_it_needs(name: str, grpo_run: Callable, folder: Path) -> None:
    assert grpo_run("init", name).code == 0
    named = re.findall(r"schema=(.*)", "".join(path.read_text() for path in folder.glob("*.yaml")))
    assert set(named) == {path.name for path in folder.glob("*.json")} == {"recipe.schema.json"}
    answer = grpo_run("validate", f"{name}.yaml", "--format", "json")
    rules = {finding["rule"] for finding in json.loads(answer.out)["findings"]}
    assert not {rule for rule in rules if rule.startswith(("YML", "SCH", "DAT", "MDL", "RWD"))}


def test_an_unknown_name_gets_the_nearest(grpo_run: Callable) -> None:
    answer = grpo_run("init", "quikstart")
    assert (answer.code, "fix: grpo-run init quickstart" in answer.err) == (2, True)


def test_a_takeover_prints_the_recipe_and_tells_of_each_key(grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(f"{BASE}beta: 0.1\n")
    answer = grpo_run("init", "--from", "config.yaml")
    assert answer.code == 0
    assert "recipe: 1\n" in answer.out
    assert "beta: 0.1" in answer.err
    assert "0 refused, 0 emulated, 4 mapped" in answer.err
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_a_refused_key_ends_with_2_and_stands_in_the_recipe(grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(f"{BASE}bta: 0.1\n")
    answer = grpo_run("init", "--from", "config.yaml", "-o", "new/recipe.yaml", "--json")
    assert answer.code == 2
    value = json.loads(answer.out)
    assert [(one["key"], one["fate"]) for one in value["keys"] if one["fate"] != "mapped"] == [("bta", "refused")]
    assert not value["complete"]
    assert "#   bta: " in (folder / "new" / "recipe.yaml").read_text()
    assert value["recipe"] == (folder / "new" / "recipe.yaml").read_text()


def test_a_reward_of_the_author_becomes_a_stub_that_validates(grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(BASE.replace("think_format_reward", "mine.f"))
    answer = grpo_run("init", "--from", "config.yaml", "-o", "recipe.yaml")
    assert (answer.code, "[RWD" in answer.err) == (0, False)
    assert "fill in before a run: f in rewards.py" in answer.err
    assert "wrote rewards.py" in answer.err
    assert grpo_run("validate", "recipe.yaml", "--target", STACK).code == 0


def test_rewards_that_are_there_are_not_written_over(grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(BASE.replace("think_format_reward", "f, mine.g"))
    (folder / "rewards.py").write_text("def f(completions, **kwargs):\n    return [0.0 for _ in completions]\n")
    answer = grpo_run("init", "--from", "config.yaml", "-o", "recipe.yaml", "--json")
    assert (answer.code, json.loads(answer.out)["to_fill_in"]) == (0, ["g"])
    assert "def g(completions, **kwargs) -> list[float]:" in (folder / "recipe_rewards.py").read_text()
    assert (folder / "rewards.py").read_text().startswith("def f(")
    assert 'python: "rewards.py:f"' in (folder / "recipe.yaml").read_text()


def test_without_a_place_for_a_stub_its_reward_is_refused(grpo_run: Callable, folder: Path) -> None:
    (folder / "config.yaml").write_text(BASE.replace("think_format_reward", "mine.f"))
    answer = grpo_run("init", "--from", "config.yaml")
    assert (answer.code, "with -o a stub of it is written" in answer.err) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["quickstart", "--list"], id="two tasks"),
        pytest.param(["--accelerate", "a.yaml"], id="a file without a configuration"),
        pytest.param(["--from", "gone.yaml"], id="no such file"),
        pytest.param(["--from", "config.yaml", "--written-for", "trl==99.0.0"], id="no such release"),
        pytest.param(["--from", "recipe.yaml"], id="a recipe"),
        pytest.param(["--from", "list.yaml"], id="a list"),
        pytest.param(["--from", "torn.yaml"], id="no YAML"),
    ],
)
def test_what_cannot_be_done_is_one_message(arguments: list[str], grpo_run: Callable, folder: Path) -> None:
    for name, text in (("config", BASE), ("recipe", "recipe: 1"), ("list", "[1]"), ("torn", "a: [")):
        (folder / f"{name}.yaml").write_text(text)
    answer = grpo_run("init", *arguments)
    assert (answer.code, answer.out, answer.err.startswith("error: ")) == (2, "", True)


def test_secrets_are_not_printed(grpo_run: Callable, folder: Path) -> None:
    token = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    (folder / "config.yaml").write_text(f"{BASE}hub_token: {token}\n")
    answer = grpo_run("init", "--from", "config.yaml")
    assert token not in answer.out + answer.err


@pytest.mark.parametrize(("name", "kib"), [("quickstart", 16), ("qwen2_lora", 0)], ids=["its data", "the recipe"])
def test_a_full_disk_leaves_no_part_of_a_recipe(
    name: str, kib: int, small_disk: Callable, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk(64)
    small_disks.fill(disk, left_kib=kib)
    monkeypatch.chdir(disk)
    answer = grpo_run("init", name)
    assert answer.code == 2
    assert "No space left on device" in answer.err and "\n  = fix: free some space" in answer.err
    assert [path.name for path in disk.rglob("*")] in (
        ["ballast"],
        ["ballast", "quickstart"],
        ["quickstart", "ballast"],
    )
