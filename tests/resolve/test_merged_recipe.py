"""The merged recipe is a file of its own that means the same wherever it lies."""

from pathlib import Path

import pytest
from small_recipe import declared, resolved

from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe, merged_recipe_text
from grpo_recipes.yaml.load import load_text

TEXTS = [
    pytest.param("description: plain", id="plain"),
    pytest.param('description: "yes"', id="a-word-in-quotes"),
    pytest.param('description: "1e-5"', id="text-that-looks-like-a-number"),
    pytest.param('description: "2026-11-20"', id="text-that-looks-like-a-date"),
    pytest.param('description: "12:30:00"', id="text-that-looks-like-a-time"),
    pytest.param('description: "é ü # not a comment: [x] {y} \\"q\\" \'s\'"', id="punctuation-and-accents"),
    pytest.param('description: "' + "long " * 60 + '"', id="longer-than-a-line"),
    pytest.param(
        'generation: {stop: ["y", "N", "None", ".inf", "1_000", "- a", "=", " x ", "<<", "+1", "é"]}', id="words"
    ),
    pytest.param("description: |\n  two\n  lines\n", id="two-lines"),
    pytest.param("training: {learning_rate: 1e-5, adam_epsilon: 1.0e-12}", id="small-numbers"),
    pytest.param("training: {max_steps: null, num_train_epochs: 1}", id="null-removes"),
    pytest.param('generation: {stop: ["</answer>", "\\n\\n", "~", "null", "0x1f", "010"]}', id="strange-stops"),
    pytest.param("lora: {target_modules: [q_proj, v_proj]}\nseed: 4294967295", id="lists-and-large-numbers"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_read_back_to_the_same_values(text: str, tmp_path: Path) -> None:
    context = resolved(tmp_path, text).context
    assert context is not None
    document, findings = load_text(merged_recipe_text(context.source), "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values == merged_recipe(context.source)
    assert document.words == frozenset()


def test_local_paths_are_absolute_and_hub_ids_stay(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "rewards.py").write_text("def brevity(completions, **kwargs):\n    return []\n")
    (tmp_path / "rows.jsonl").write_text('{"question": "1+1", "answer": "2"}\n' * 4)
    text = (
        "model: {model_name_or_path: ./model}\ndataset: {path: rows.jsonl}\nevaluation: {path: owner/held-out}\n"
        "tokenizer: {chat_template_path: ./chat.jinja}\nrewards: [{python: 'rewards.py:brevity'}, {model: owner/judge}]"
    )
    context = resolved(tmp_path, text).context
    assert context is not None
    merged = merged_recipe(context.source)
    assert merged["model"]["model_name_or_path"] == str(tmp_path / "model")
    assert merged["dataset"]["path"] == str(tmp_path / "rows.jsonl")
    assert merged["evaluation"]["path"] == "owner/held-out"
    assert merged["tokenizer"]["chat_template_path"] == str(tmp_path / "chat.jinja")
    assert merged["rewards"] == [{"python": f"{tmp_path}/rewards.py:brevity"}, {"model": "owner/judge"}]


def test_from_another_folder_it_gives_the_same_plan(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "1+1", "answer": "2"}\n' * 4)
    resolution = resolved(tmp_path, "dataset: {path: ./rows.jsonl}\ngrpo: {num_generations: 4}")
    assert resolution.context is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "recipe.yaml").write_text(merged_recipe_text(resolution.context.source))
    first, again = plan_of(resolution), plan_of(resolve(str(elsewhere / "recipe.yaml"), declared()))
    assert (again.arguments, again.data, again.rewards) == (first.arguments, first.data, first.rewards)
