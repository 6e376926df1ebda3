"""README.md and docs/ say what is so: the shipped recipes, the links, the releases of the table."""

import re

import pytest
import yaml
from shown import DOCS, README, ROOT, pages
from support.releases import pinned

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import releases_that_express, spans_text
from grpo_recipes.resolve.inexpressible import field_values, target_of
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.stack.target import parse_target

LONGEST_README = 150


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LONGEST_README


@pytest.mark.parametrize("page", ["README.md", "docs/recipes.md"])
def test_the_shown_recipe_is_the_shipped_one(page: str) -> None:
    shipped = [line for line in (ROOT / "recipes/qwen2_lora.yaml").read_text().splitlines() if not line.startswith("#")]
    blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```$", pages()[page])
    assert "\n".join(shipped).strip() in {block.strip() for block in blocks}


def test_every_shipped_recipe_stands_on_the_page_of_recipes() -> None:
    page = pages()["docs/recipes.md"]
    assert [file.stem for file in (ROOT / "recipes").glob("*.yaml") if f"| `{file.stem}` |" not in page] == []


def test_every_shipped_reward_is_on_the_page_of_rewards() -> None:
    assert [name for name in shipped_rewards() if f"`{name}`" not in pages()["docs/rewards.md"]] == []


def test_the_links_of_the_readme_lead_somewhere() -> None:
    """Those of docs/ are followed when they are built."""
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert len(local) > 15
    assert [link for link in local if not (ROOT / link).exists()] == []
    assert {file.name for file in DOCS.glob("*.md")} - {link.rpartition("/")[2] for link in local} == {
        "security.md",
        "contributing.md",
    }


def test_the_releases_of_the_table_are_those_that_can_express_the_value() -> None:
    rows = re.findall(r"^\| `(\w+): (.*)` \| ([\d.,\s-]+) \|$", pages()["docs/stacks.md"], re.MULTILINE)
    stack, _ = parse_target(f"{pinned('trl transformers peft')},gpus=1xA100-40GB")
    assert stack is not None
    context = resolve(str(ROOT / "recipes/qwen2_lora.yaml"), stack).context
    assert context is not None
    target, values = target_of(context.facts), field_values(context.settings)
    assert target is not None
    assert len(rows) > 10
    for name, text, shown in rows:
        field, value = classified_fields()[name], yaml.safe_load(text)
        package, releases = releases_that_express(field, value, {**values, name: value}, target)
        assert (package, spans_text(releases, package)) == ("trl", shown), name
