"""`fit` and `plan` count prompts as long as the preflight of the same data found them, and say so."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.user_files.local_rows import CountedPrompts, keep_counted

RECIPES = Path(__file__).parents[2] / "recipes"
ON_A_GPU = ("--target", "tested,gpus=1xA100-80GB")
ASSUMED = "prompts of at most 512 tokens; neither max_prompt_length nor preflight gives their length"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the quickstart, with a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(RECIPES / "quickstart", tmp_path / "quickstart")
    return shutil.copy(RECIPES / "quickstart.yaml", tmp_path / "quickstart.yaml")


def _assumed(grpo_run: Callable, recipe: Path, *words: str) -> list[str]:
    answer = grpo_run("fit", str(recipe), *ON_A_GPU, "--json", *words)
    found: list[str] = json.loads(answer.out)["machines"][0]["assumed"]
    return found


def _keep(monkeypatch: pytest.MonkeyPatch, recipe: Path, counted: CountedPrompts) -> None:
    """Keeps what a preflight would."""
    from grpo_recipes.resolve.resolve import resolve
    from grpo_recipes.rules._shared.memory_needs import prompts_key
    from grpo_recipes.stack.target import parse_target

    stack, _ = parse_target("tested,gpus=0")
    assert stack is not None
    context = resolve(str(recipe), stack).context
    assert context is not None
    key = prompts_key(context)
    assert key is not None
    keep_counted(key, counted)


@pytest.mark.stack
@pytest.mark.usefixtures("warm_run")
def test_a_preflight_tells_the_estimate_how_long_prompts_are(grpo_run: Callable, recipe: Path) -> None:
    rows = recipe.parent / "quickstart/train.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:1200]))
    assert f"assumed: {ASSUMED}" in grpo_run("fit", str(recipe), *ON_A_GPU).out
    before = grpo_run("plan", str(recipe), *ON_A_GPU, "--json").out
    assert grpo_run("preflight", str(recipe), "--rows", "2").code == 0
    (said,) = _assumed(grpo_run, recipe)
    assert said == "prompts of at most 14 tokens, the longest of the 1,200 rows that preflight counted"
    after = json.loads(grpo_run("plan", str(recipe), *ON_A_GPU, "--json").out)
    assert after["memory"]["assumed"] == [said]
    settings = [{key: row[key] for key in ("key", "value")} for row in json.loads(before)["settings"]]
    assert [{key: row[key] for key in ("key", "value")} for row in after["settings"]] == settings


@pytest.mark.stack
@pytest.mark.usefixtures("warm_run")
def test_a_preflight_tells_the_estimate_what_is_made_of_images(
    grpo_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    colours = RECIPES / "colours.yaml"
    assert _assumed(grpo_run, colours) == [
        ASSUMED,
        "1 image in a row with at most 8 tokens each, uncounted",
    ]
    assert grpo_run("preflight", str(colours), "--rows", "2").code == 0
    (said,) = _assumed(grpo_run, colours)
    assert said.startswith("prompts of at most 32 tokens")
    (kept,) = (tmp_path / "grpo-run" / "prompts").iterdir()
    assert json.loads(kept.read_text())["pixels"] == 3 * 28 * 28


@pytest.mark.parametrize(
    ("change", "is_counted"),
    [
        pytest.param((), True, id="as it was"),
        pytest.param(("training.learning_rate=1e-4",), True, id="another rate"),
        pytest.param(("dataset.system_prompt=Think.",), False, id="a system prompt"),
        pytest.param(("generation.chat_template_kwargs={a: 1}",), False, id="a variable of the template"),
        pytest.param(("tokenizer.add_tokens=[<a>]",), False, id="another tokenizer"),
        pytest.param(("generation.max_prompt_length=99",), False, id="a limit"),
    ],
)
def test_what_was_counted_counts_for_the_same_prompts_alone(
    change: tuple[str, ...], is_counted: bool, grpo_run: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep(monkeypatch, recipe, CountedPrompts(6, 3, 40))
    words = [word for setting in change for word in ("--set", setting)]
    said = "prompts of at most 6 tokens, the longest of 3 rows that preflight counted"
    assert (said in _assumed(grpo_run, recipe, *words)) == is_counted


@pytest.mark.parametrize("file", ["train.jsonl", "model/tokenizer.json"])
def test_data_and_tokenizer_that_changed_are_counted_anew(
    file: str, grpo_run: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep(monkeypatch, recipe, CountedPrompts(6, 40, 40))
    with (recipe.parent / "quickstart" / file).open("a") as changed:
        changed.write("\n")
    assert _assumed(grpo_run, recipe) == [ASSUMED]


@pytest.mark.parametrize("text", ["", "[]", '{"longest": "6", "counted": 1, "rows": 1}', '{"longest": 6}'])
def test_what_cannot_be_read_was_not_counted(
    text: str, grpo_run: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep(monkeypatch, recipe, CountedPrompts(6, 40, 40))
    (kept,) = (recipe.parent / "cache" / "grpo-run" / "prompts").iterdir()
    kept.write_text(text)
    assert _assumed(grpo_run, recipe) == [ASSUMED]
