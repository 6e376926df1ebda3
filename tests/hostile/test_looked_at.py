"""What is only looked at costs little and shows nothing: huge plans, links to other files, compiled copies."""

import json
from pathlib import Path

import pytest
from harms import FILED, Place, looked_at, made_place, run_apart
from hostile_recipes import Attempt, over
from small_recipe import STACK
from test_hostile_recipes import command, placed

from grpo_recipes.contract.secrets.known_secrets import names_a_secret

pytestmark = pytest.mark.hostile


def planned(place: Place, sections: str = "", files: dict[str, str] | None = None) -> Path:
    """A run folder that was only written."""
    placed(place, Attempt("planned", over(sections), files or {}))
    ended = run_apart(place, [command("run", "recipe.yaml", "--target", STACK, "--dry-run", "--out", "runs/one")])
    assert ended.codes == [0], ended.printed
    return place.team / "runs" / "one"


def test_a_plan_of_a_million_values_is_refused_before_it_is_read(tmp_path: Path) -> None:
    place = made_place(tmp_path)
    folder = place.team / "runs" / "big"
    folder.mkdir(parents=True)
    many = ",".join(f'"k{number}":[{",".join(["{}"] * 100)}]' for number in range(60_000))
    (folder / "plan.json").write_text(f'{{"recipe":{{{many}}}}}')
    (folder / "launch.sh").touch()
    ended = run_apart(looked_at(place), [command("run", "runs/big", "--validate-only")])
    assert ended.codes == [2], ended.printed
    assert "it has more than 500,000 values" in ended.printed


def test_a_recipe_of_a_plan_with_more_values_than_one_may_have_is_refused(tmp_path: Path) -> None:
    place = made_place(tmp_path)
    folder = planned(place)
    plan = json.loads((folder / "plan.json").read_text())
    plan["recipe"]["trl"] = {f"k{number}": [1, 2] for number in range(20_000)}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "integrity.json").unlink()
    ended = run_apart(looked_at(place), [command("run", "runs/one", "--validate-only")])
    assert ended.codes == [2], ended.printed
    assert "it has more than 20,000 values" in ended.printed


REWARD = "def f(completions, **kwargs):\n    return [0.0 for _ in completions]\n"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param("a\n" * 500_000, 2, id="half a million lines"),
        pytest.param("x = [" + "a," * 500_000 + "]\n", 2, id="a list of half a million names"),
        pytest.param("".join(f"def f{n}(): pass\n" for n in range(24_000)), 2, id="many functions"),
        pytest.param('text = """' + "a word\n" * 140_000 + '"""\n', 0, id="a long text in quotes"),
    ],
)
def test_a_reward_file_of_a_megabyte_costs_little(source: str, code: int, tmp_path: Path) -> None:
    files = {"r.py": REWARD + source}
    place = placed(made_place(tmp_path), Attempt("long", over("rewards: [{python: r.py:f}]"), files))
    ended = run_apart(looked_at(place), [command("validate", "recipe.yaml", "--target", STACK)])
    assert ended.codes == [code], ended.printed
    assert ("it has more than 80,000 tokens" in ended.printed) is (code == 2)
    assert ended.cpu_s < 5


@pytest.mark.parametrize(("name", "more"), [("validate", []), ("plan", []), ("run", ["--dry-run"])])
def test_a_recipe_that_is_a_link_shows_nothing_of_another_file(name: str, more: list[str], tmp_path: Path) -> None:
    place = made_place(tmp_path)
    (place.team / "recipe.yaml").symlink_to("../outside/secrets.env")
    ended = run_apart(looked_at(place), [command(name, "recipe.yaml", "--target", STACK, *more)])
    assert ended.codes == [2]
    assert "recipe.yaml is a link to a file that is not .yaml" in ended.printed
    assert FILED not in ended.printed


def test_a_recipe_that_is_a_link_to_a_recipe_is_one(tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("good", over("")))
    (place.team / "same.yaml").symlink_to("recipe.yaml")
    ended = run_apart(place, [command("validate", "same.yaml", "--target", STACK)])
    assert ended.codes == [0], ended.printed


@pytest.mark.parametrize("name", ["HF_TOKEN1", "OPENAI_API_KEY2", "API_KEY_V2", "DB_PASSWORD1", "SECRET01", "TOKEN2"])
def test_a_numbered_secret_is_one(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize("name", ["MAX_TOKENS2", "TOKENIZERS_PARALLELISM", "LAYER1", "PAD_TOKEN_ID"])
def test_a_number_makes_no_secret(name: str) -> None:
    assert not names_a_secret(name)
