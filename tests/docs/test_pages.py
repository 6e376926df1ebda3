"""Pages of rules and keys: the examples are what is really said, and the generated files are up to date."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import make_examples
import make_pages
import pytest
import recipe_reference
import rule_pages

from grpo_recipes.explain.pages import examples, known_ids
from grpo_recipes.facts.released.history import history
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.models import sections

pytestmark = pytest.mark.slow

# What a recipe file cannot show: files of a machine, command lines, and what the worker says.
WITHOUT_EXAMPLE = {"RWD013", "STK001", "STK002", "STK003", "STK004", "STK005", "TRU001", "TRU002", "TRU003"}
WITHOUT_EXAMPLE |= {"YML001", "YML002", "YML003", "YML012", "YML013", "YML024", "YML025", "YML026"}
WITHOUT_EXAMPLE |= {"STK018", "STK019", "WLD013", "WLD014"}  # of a machine, whatever the recipe
OF_THE_WORKER = ("PRF", "GRD", "PFL", "VRD")


@pytest.fixture(scope="module")
def made() -> dict:
    return make_examples.texts()


def test_the_generated_files_are_what_the_rules_and_cases_give(made: dict) -> None:
    old = [place.name for place, text in made.items() if place.read_text(encoding="utf-8") != text]
    assert old == [], "make docs writes them"


def test_the_made_pages_of_docs_are_what_the_recipe_and_the_rules_give() -> None:
    texts = make_pages.texts()
    old = [place.name for place, text in texts.items() if not place.exists() or place.read_text("utf-8") != text]
    assert old == [], "make docs writes them"
    assert set(rule_pages.FOLDER.iterdir()) <= set(texts), "a page of a family that is no more"


BELOW = (
    "dataset.reasoning_gym",
    "dataset.max_prompt_tokens",
    "datasets.reasoning_gym",
    "datasets.max_prompt_tokens",
    "evaluation.reasoning_gym",
)


def test_the_reference_has_every_key_with_what_it_is() -> None:
    entry = re.compile(r"(?m)^### `(.+)`\n\n(?:(?!#|- Type:).*\n)+((?:(?!</details>).*\n)+)</details>\n")
    entries = dict(entry.findall(recipe_reference.page()))
    below = {name for name in sections() if name.startswith("evaluation.")}
    of_sections = set(sections()) - {*BELOW, *below, "training.cut", "distributed.fsdp", "preflight.turns"}
    of_sections -= {"rewards.judge", "slurm.container"}
    assert set(entries) == set(recipe_keys()) - of_sections - {"trl"}
    for key, facts in entries.items():
        assert re.findall(r"(?m)^- (\w+):", facts)[:4] == ["Type", "Default", "Becomes", "Kind"], key


def test_every_id_is_in_the_index_and_on_the_page_of_its_family() -> None:
    texts = rule_pages.texts()
    for rule_id in known_ids():
        assert f"({rule_id[:3]}.md#{rule_id.lower()})" in texts[rule_pages.FOLDER / "index.md"]
        assert f'\n<a id="{rule_id.lower()}"></a>\n\n## {rule_id}: ' in texts[rule_pages.FOLDER / f"{rule_id[:3]}.md"]


def test_every_id_has_an_example_with_what_is_said() -> None:
    shown = {rule_id for rule_id, example in examples().items() if example.said}
    missing = {rule_id for rule_id in known_ids() if not rule_id.startswith(OF_THE_WORKER)} - shown
    assert missing - WITHOUT_EXAMPLE == set()


def test_the_example_of_a_finding_is_about_its_rule() -> None:
    about = [rule_id for rule_id, example in examples().items() if example.said and rule_id not in example.said]
    assert about == []


def test_no_page_names_a_folder_of_the_machine_that_made_it() -> None:
    folders = f"{re.escape(tempfile.gettempdir())}/tmp|{re.escape(str(Path.home()))}/"
    assert [rule_id for rule_id, example in examples().items() if re.search(folders, str(example))] == []


def test_a_page_has_what_why_example_and_fix(grpo_run: Callable) -> None:
    page = grpo_run("explain", "qnt001").out
    for part in ("QNT001\n\n", "Example:\n", "error: a quantized model", "Fixed:\n", "Proved by: tests/evidence"):
        assert part in page


def test_a_key_has_its_default_in_every_release(grpo_run: Callable) -> None:
    page = grpo_run("explain", "grpo.beta").out
    assert "trl 0.14.0 to 0.18.2: default 0.04\n  trl 0.19.0 to 1.16.0: default 0.0" in page


def test_the_tasks_of_reasoning_gym_and_what_configures_one_are_listed(grpo_run: Callable) -> None:
    assert " chain_sum " in grpo_run("explain", "reasoning_gym").out
    page = grpo_run("explain", "reasoning_gym.chain_sum").out
    assert "  min_terms       2  (int)\n" in page
    assert page == grpo_run("explain", "dataset.reasoning_gym.chain_sum").out
    assert "default: 1000" in grpo_run("explain", "dataset.reasoning_gym.size").out
    assert grpo_run("explain", "reasoning_gym.chain_sums").code == 2


def test_a_field_that_came_and_went_says_so(grpo_run: Callable) -> None:
    page = grpo_run("explain", "generation.max_prompt_length").out
    assert "trl 0.14.0 to 0.25.1: default 512" in page
    assert "trl after 0.27.2: no such field" in page


def test_a_field_that_trl_took_over_shows_what_it_inherited() -> None:
    spans = history("GRPOConfig", "bf16")
    assert (spans[0].package, spans[0].first) == ("transformers", "4.46.0")
    assert spans[-1].package == "trl"


def test_advice_that_does_not_help_is_called_so(grpo_run: Callable) -> None:
    assert "clearing the hub's cache" in grpo_run("explain", "SHM007").out
    assert 'device_map="auto"' in grpo_run("explain", "QNT003").out


def test_a_key_says_what_set_it_in_a_recipe(grpo_run: Callable) -> None:
    page = grpo_run("explain", "training.learning_rate", "--recipe", "recipes/qwen2_lora.yaml").out
    assert "in recipes/qwen2_lora.yaml: 1e-05 (" in page
