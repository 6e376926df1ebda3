"""The commands on the shipped recipes."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from pydantic import TypeAdapter
from support.releases import pinned

from grpo_recipes.cli.main import COMMANDS, main
from grpo_recipes.cli.main import grpo_run as command
from grpo_recipes.compare.experiment_groups import groups
from grpo_recipes.contract.plan_sections import Forebear
from grpo_recipes.schemas.export import PRINTED, SCHEMAS, schema_text

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
STACK = pinned("trl transformers peft torch accelerate datasets")
STACK += ",bitsandbytes==0.50.2,deepspeed==0.19.8,vllm==0.30.0,math-verify==0.9.0,python==3.11"
MACHINES = {
    "colours": "gpus=0,pillow==13.0.0",
    "quickstart": "gpus=0",
    "quickstart_qlora": "gpus=0",
    "qwen2_5_7b_zero3": "gpus=8xH100-80GB",
    "qwen2_5_7b_two_nodes": "gpus=8xH100-80GB",
    "qwen3_alphabet_sort": "gpus=1xH100-80GB",
}


def _target(recipe: Path) -> str:
    return f"{STACK},{MACHINES.get(recipe.stem, 'gpus=1xA100-40GB')}"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_has_no_findings_on_its_machine(recipe: Path, grpo_run: Callable) -> None:
    # Whether TRL reads the tool calls of a hub model needs its chat template, which is not here.
    left = {"qwen3_alphabet_sort": "1 check not made", "qwen3_python_tool": "2 checks not made"}.get(recipe.stem)
    strict = ["--strict"] if left is None else []
    answer = grpo_run(str(recipe), "--validate-only", *strict, "--target", _target(recipe))
    count = answer.out.partition(", not checked: the columns of ")[0].rstrip()
    assert count.endswith(f"{recipe}: {left or 'no findings'}")
    assert answer.code == 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_has_a_header_that_says_what_was_run(recipe: Path) -> None:
    comments = [line for line in recipe.read_text().splitlines() if line.startswith("#")]
    assert any(line.startswith("# For: ") for line in comments)
    assert any(line.startswith("# Run: ") for line in comments)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_fits_the_exported_json_schema(recipe: Path) -> None:
    schema = json.loads((ROOT / "schemas" / "recipe.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(_core_values(recipe.read_text()))


@pytest.mark.parametrize("name", [*SCHEMAS, *PRINTED])
def test_an_exported_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text()))


def _core_values(text: str) -> object:
    """The values as an editor's YAML 1.2 parser reads them; PyYAML takes 2e-3 for text."""
    loader = type("Loader", (yaml.SafeLoader,), {})
    number = yaml.resolver.re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
    loader.yaml_implicit_resolvers = {k: list(v) for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return yaml.load(text, Loader=loader)


@pytest.mark.parametrize("name", [*SCHEMAS, *PRINTED])
def test_the_schema_files_are_what_the_command_prints(name: str, grpo_run: Callable) -> None:
    assert (ROOT / "schemas" / f"{name}.schema.json").read_text() == schema_text(name), "run `make schemas`"
    assert grpo_run("schema", name).out == schema_text(name)


def test_the_schema_of_diff_has_every_group_and_the_records_of_earlier_runs() -> None:
    properties = json.loads(schema_text("diff"))["properties"]
    assert properties["experiment"]["items"]["properties"]["group"]["enum"] == ["", *groups()]
    forebear = TypeAdapter(Forebear).json_schema(mode="serialization")
    assert properties["lineage"]["properties"]["a"]["items"] == forebear


def test_a_wrong_recipe_does_not_fit_the_json_schema() -> None:
    schema = json.loads((ROOT / "schemas" / "recipe.schema.json").read_text())
    recipe = yaml.safe_load((ROOT / "recipes" / "qwen2_lora.yaml").read_text().replace("1e-5", "1.0e-5"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(recipe)
    for path, value in [("model", {"dtpye": "x"}), ("grpo", {"num_generations": 1}), ("trainning", {})]:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(recipe | {path: value})


@pytest.fixture(scope="module")
def planned() -> str:
    """The plan of a recipe as JSON; looking at all releases for it takes half a second."""
    recipe = ROOT / "recipes" / "qwen2_qlora.yaml"
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        main(["plan", str(recipe), "--json", "--target", _target(recipe)])
    return out.getvalue()


@pytest.mark.processes
def test_plan_and_findings_and_doctor_fit_their_schemas(planned: str, grpo_run: Callable) -> None:
    recipe = ROOT / "recipes" / "qwen2_qlora.yaml"
    documents = {
        "plan": planned,
        "findings": grpo_run("validate", str(recipe), "--format", "json", "--set", "grpo.loss_type=x").out,
        "doctor": grpo_run("doctor", "--json").out,
    }
    for name, text in documents.items():
        schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert json.loads(documents["findings"])["findings"]


@pytest.mark.processes
def test_what_doctor_prints_is_a_target(tmp_path: Path, grpo_run: Callable) -> None:
    recipe = str(ROOT / "recipes" / "quickstart.yaml")
    file = tmp_path / "cluster.json"
    file.write_text(grpo_run("doctor", "--json").out)
    here = json.loads(grpo_run("plan", recipe, "--json").out)
    there = json.loads(grpo_run("plan", recipe, "--json", "--target", str(file)).out)
    assert there["arguments"] == here["arguments"]
    assert there["stack"]["packages"] == here["stack"]["packages"]


def test_plan_writes_nothing(tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = grpo_run("plan", str(ROOT / "recipes" / "quickstart.yaml"))
    assert answer.code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_plan_line_gives_value_origin_and_reason(grpo_run: Callable) -> None:
    recipe = ROOT / "recipes" / "qwen2_lora.yaml"
    written = ("--set", "grpo.beta=0.04", "--set", "generation.use_vllm=auto")
    lines = grpo_run("plan", str(recipe), "--target", _target(recipe), *written).out.splitlines()
    shown = {line.split()[0]: " ".join(line.split()) for line in lines if line.startswith("  ")}
    assert shown["GRPOConfig.beta"] == "GRPOConfig.beta 0.04 --set grpo.beta=0.04"
    assert shown["GRPOConfig.top_p"] == "GRPOConfig.top_p 1.0 format 1"
    assert shown["GRPOConfig.use_vllm"] == "GRPOConfig.use_vllm true GEN001 vllm 0.30.0 is installed"
    assert shown["GRPOConfig.gradient_accumulation_steps"].startswith("GRPOConfig.gradient_accumulation_steps 4 BAT001")
    assert "GRPOConfig.use_bias_correction_kl" in shown


def test_a_value_that_does_not_matter_is_not_passed(planned: str) -> None:
    arguments = json.loads(planned)["arguments"]["GRPOConfig"]
    assert arguments["beta"] == 0
    assert "use_bias_correction_kl" not in arguments
    assert "sapo_temperature_pos" not in arguments


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_stands_on_the_page_of_commands(name: str) -> None:
    result = CliRunner().invoke(command, [name, "--help"])
    assert result.exit_code == 0
    assert COMMANDS[name].split(";")[0].split("(")[0][:12].strip(". ")
    assert f"grpo-run {name}" in (ROOT / "docs" / "commands.md").read_text()


def test_a_rule_and_a_key_have_a_page(grpo_run: Callable) -> None:
    assert "split evenly" in grpo_run("explain", "BAT001").out
    page = grpo_run("explain", "grpo.loss_type", "--target", STACK).out
    assert "default: 'dapo' (format 1)" in page
    assert "kind: experiment" in page
    assert "dr_grpo" in page


def test_a_shim_is_explained_by_its_rule(grpo_run: Callable) -> None:
    answer = grpo_run("explain", "less_padding")
    assert answer.code == 0
    assert answer.out.startswith("SHM025\n")


def test_explain_alone_lists_what_has_a_page(grpo_run: Callable) -> None:
    answer = grpo_run("explain")
    assert answer.code == 0
    words = answer.out.split()
    assert {"training", "rewards", "BAT001", "PRF001", "GRD001", "PRE001"} <= set(words)
    assert all(len(line) <= 100 for line in answer.out.splitlines())
    assert grpo_run("explain", "--recipe", "r.yaml").code == 2


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("training", "learning_rate"),
        ("rewards", "weight"),
        ("training.cut", "processes"),
    ],
)
def test_explain_lists_the_keys_of_a_section(section: str, key: str, grpo_run: Callable) -> None:
    keys = grpo_run("explain", section).out.partition("keys, with their defaults:\n")[2]
    assert f"  {key} " in keys
    assert "keys, with their defaults" not in grpo_run("explain", "grpo.beta").out


@pytest.mark.processes
def test_the_command_brings_in_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")
    code = f"import grpo_recipes.cli, grpo_recipes.cli.main, sys; print([m for m in sys.modules if m in {heavy}])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


EXTENDED = "extends: grpo-recipes:qwen2_lora\nname: mine\n"


@pytest.mark.parametrize("key", ["rewards", "generation.stop", "tokenizer.add_tokens", "logging.report_to"])
def test_the_json_schema_takes_a_list_that_is_added_to(key: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads((ROOT / "schemas/recipe.schema.json").read_text()))
    item = {"name": "accuracy"} if key == "rewards" else "x"
    section, _, name = key.partition(".")

    def is_taken(value: object) -> bool:
        return validator.is_valid({"extends": "base", section: {name: value} if name else value})

    assert [is_taken(value) for value in ([item], {"extend": [item]})] == [True, True]
    wrong = ({"extend": item}, {"extend": [item], "more": 1}, {"extend": [1]}, {})
    assert [is_taken(value) for value in wrong] == [False] * 4


def test_explain_and_plan_name_the_line_of_a_shipped_parent(tmp_path: Path, grpo_run: Callable) -> None:
    (tmp_path / "r.yaml").write_text(EXTENDED + "rewards: {extend: [{name: exact_match}]}\n")
    arguments = ("--recipe", str(tmp_path / "r.yaml"), "--target", _target(Path("qwen2_lora.yaml")))
    lines = (ROOT / "recipes/qwen2_lora.yaml").read_text().splitlines()
    beta, reward = (next(n for n, line in enumerate(lines, 1) if word in line) for word in ("beta", "name: accuracy"))
    assert f"0.0 (grpo-recipes:qwen2_lora:{beta}:3)" in grpo_run("explain", "grpo.beta", *arguments).out
    places = f"(grpo-recipes:qwen2_lora:{reward}:5 + {tmp_path}/r.yaml:3:20)"
    assert places in grpo_run("explain", "rewards", *arguments).out
    planned = grpo_run("plan", str(tmp_path / "r.yaml"), *arguments[2:]).out
    assert f"grpo-recipes:qwen2_lora:{beta}:3" in planned


def test_a_finding_in_a_shipped_parent_names_it_and_is_fixed_in_the_child(tmp_path: Path, grpo_run: Callable) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(EXTENDED)
    target = "trl==0.16.1,transformers==4.49.0,peft==0.15.0,gpus=1xA100-40GB"
    lines = (ROOT / "recipes/qwen2_lora.yaml").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.startswith("  loss_type:"))
    answer = grpo_run("validate", str(recipe), "--target", target)
    assert (answer.code, f"grpo-recipes:qwen2_lora:{line}:3: error" in answer.out) == (2, True)
    grpo_run("validate", str(recipe), "--target", target, "--fix=suggested", "--write")
    assert (ROOT / "recipes/qwen2_lora.yaml").read_text().splitlines() == lines
    assert "loss_type: " in recipe.read_text()


def test_a_mistyped_run_folder_gets_the_nearest_one(grpo_run: Callable, tmp_path: Path) -> None:
    (tmp_path / "addition-20260101").mkdir()
    said = grpo_run("report", str(tmp_path / "addition-2026101"))
    assert said.code == 2
    assert f"= fix: {tmp_path}/addition-20260101, if you meant that" in said.err


@pytest.mark.parametrize(("words", "key"), [("group size", "grpo.num_generations"), ("kl coef", "grpo.beta")])
def test_words_with_spaces_are_names(words: str, key: str, grpo_run: Callable) -> None:
    said = grpo_run("explain", words)
    assert said.code == 0 and f"\n{key}\n" in said.out


def test_an_option_with_a_mistyped_key_gets_the_nearest_one(grpo_run: Callable) -> None:
    said = grpo_run("recipe.yaml", "--training.max_step", "5")
    assert "--set training.max_steps=5" in said.err
