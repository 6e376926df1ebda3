"""What is handed over with a trained model says what it is, and nothing of the machine that trained it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from worker_runs import Trained, plan_of, planned_data, planned_reward

from grpo_recipes.stack.stack import Stack, to_json_value
from grpo_recipes.worker.checkpoints.model_card import hand_over

Changes = dict[str, Any]
HUB = {"source": "hub", "path": "Qwen/Qwen2-0.5B-Instruct", "revision": "main"}
EVALUATION = {
    "before": {"step": 0, "reward": 0.25, "rewards": {"digits": 0.25}, "count": 11, "greedy": True, "seconds": 1.0},
    "after": {"step": 6, "reward": 0.5, "rewards": {"digits": 0.5}, "count": 11, "greedy": True, "seconds": 1.0},
    "examples": [{"prompt": "a row of private data", "before": "", "after": ""}],
}


def handed_over(
    tmp_path: Path,
    commit: str | None = None,
    evaluation: Any = None,
    final_step: int | None = None,
    metrics: Any = None,
    **sections: Any,
) -> Path:
    """The folder of a model after it was handed over, of a plan with changes to its sections."""
    plan = {**plan_of(Path("/data/someone/models/tiny"), Path("/data/someone/rows.jsonl"), "lora"), **sections}
    record = {"step": 6, "metrics": {"reward": 0.5, "loss": 0.1}, "evaluation": evaluation or {}, "train_wall_s": 1.0}
    record |= {} if final_step is None else {"final_step": final_step}
    record |= {"metrics": metrics} if metrics else {}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "run.json").write_text(json.dumps(record))
    model = tmp_path / "final"
    model.mkdir()
    (model / "README.md").write_text("the card of somebody else")
    (model / "adapter_model.safetensors").touch(0o600)
    hand_over(tmp_path, model, commit)
    return model


def front_matter(model: Path) -> Changes:
    found: Changes = yaml.safe_load((model / "README.md").read_text().split("---\n")[1])
    return found


def made_of_in(model: Path) -> Changes:
    found: Changes = yaml.safe_load((model / "README.md").read_text().split("```yaml\n")[1].split("```")[0])
    return found


def test_others_can_read_every_file(tmp_path: Path) -> None:
    model = handed_over(tmp_path)
    readable = (model / "README.md").stat().st_mode
    assert {file.stat().st_mode for file in model.iterdir()} == {readable}
    assert (model / "adapter_model.safetensors") in set(model.iterdir())


def test_the_card_of_hub_parts_names_them_with_their_commits(tmp_path: Path) -> None:
    data = planned_data("openai/gsm8k", source="hub", format=None, name="main", revision="abc")  # type: ignore[arg-type]
    model = handed_over(tmp_path, "c" * 40, model=HUB, data=data)
    assert front_matter(model) == {
        "base_model": "Qwen/Qwen2-0.5B-Instruct",
        "base_model_relation": "adapter",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["grpo", "trl", "reinforcement-learning", "lora", "grpo-recipes"],
        "datasets": ["openai/gsm8k"],
    }
    made_of = made_of_in(model)
    base = {"source": "hub", "path": "Qwen/Qwen2-0.5B-Instruct", "revision": "main", "commit": "c" * 40}
    assert made_of["base_model"] == base
    data = {"source": "hub", "path": "openai/gsm8k", "name": "main", "split": "train", "revision": "abc"}
    assert made_of["data"] == data


def test_local_parts_are_called_by_their_names_alone(tmp_path: Path) -> None:
    rewards = [planned_reward("mine.py:short", kind="python", path="/data/someone/mine.py", sha256="a" * 64)]
    recipe = {"rewards": [{"python": "/data/someone/mine.py:short"}], "description": f"in {Path.home()}/x", "seed": 1}
    model = handed_over(tmp_path, rewards=rewards, recipe=recipe)
    for file in ("README.md", "run.json"):
        text = (model / file).read_text()
        assert "/data/someone" not in text
        assert str(Path.home()) not in text
        assert str(tmp_path) not in text
    assert "base_model" not in front_matter(model)
    card = (model / "README.md").read_text()
    assert made_of_in(model)["base_model"]["path"] == "tiny"
    (reward,) = made_of_in(model)["rewards"]
    assert (reward["name"], reward["target"], reward["sha256"]) == ("mine.py:short", "mine.py:short", "a" * 64)
    assert "- python: mine.py:short" in card


def test_the_card_has_the_measures_and_no_rows_of_the_data(tmp_path: Path) -> None:
    model = handed_over(tmp_path, evaluation=EVALUATION)
    card, summary = (model / "README.md").read_text(), json.loads((model / "run.json").read_text())
    assert "| digits | 0.2500 | 0.5000 |" in card
    assert summary["evaluation"]["after"]["reward"] == 0.5
    assert "private" not in card + json.dumps(summary)
    assert "|  | before training | after training |" in card


def test_the_card_says_what_the_means_leave_out(tmp_path: Path) -> None:
    after = {**EVALUATION["after"], "without_reward": 3}
    card = (handed_over(tmp_path, evaluation={**EVALUATION, "after": after}) / "README.md").read_text()
    assert "| before training | after training, 3 completions without any reward, so not counted |" in card


def test_the_card_says_of_the_set_that_decides_alone_that_it_chose_the_step(tmp_path: Path) -> None:
    figures = {"reward": 0.5, "rewards": {}, "count": 11}
    easy, hard = (
        {when: {**figures, "step": step, "set": name} for when, step in (("before", 0), ("best", 4), ("after", 6))}
        for name in ("easy", "hard")
    )
    model = handed_over(
        tmp_path, evaluation={**hard, "cross_validated": {"reward": 0.4}, "others": {"easy": easy}}, final_step=4
    )
    of_hard, of_easy = (model / "README.md").read_text().split("held-out rows of easy")
    assert "The step was chosen on these rows" in of_hard
    assert "On rows that did not choose it: reward 0.4." in of_hard
    assert "was chosen" not in of_easy


def test_the_card_has_the_reward_of_what_was_drawn_first(tmp_path: Path) -> None:
    """The groups that resample_groups kept are those that differ, and their mean says nothing of the policy."""
    model = handed_over(tmp_path, metrics={"reward": 0.5, "resample/reward": 0.9, "kl": None})
    assert json.loads((model / "run.json").read_text())["last_step"] == {"reward": 0.9}


def test_the_card_has_the_packages_that_trained_the_model(tmp_path: Path) -> None:
    packages = {"torch": "2.13.0+cpu", "trl": "1.16.0", "math-verify": "0.9.0", "vllm": None}
    stack = Stack("3.11.7", packages, gpus=(), avx512_bf16=None, declared=False, origin="this machine")
    model = handed_over(tmp_path, stack=to_json_value(stack))
    versions = {"python": "3.11.7", "torch": "2.13.0+cpu", "trl": "1.16.0", "math-verify": "0.9.0"}
    assert json.loads((model / "run.json").read_text())["stack"] == versions
    assert made_of_in(model)["stack"] == versions


def test_what_a_recipe_says_stays_text_in_the_card(tmp_path: Path) -> None:
    recipe = {"name": "x", "description": "---\nlicense: mit\n---\n# owned\n", "dataset": {"prompt": "````\n# owned"}}
    model = handed_over(tmp_path, recipe=recipe, name="x | y")
    assert "license" not in front_matter(model)
    card = (model / "README.md").read_text()
    assert "\n# owned" not in card.split("`````yaml\n")[0]
    assert yaml.safe_load(card.split("`````yaml\n")[1].split("`````")[0]) == recipe


def test_a_card_that_cannot_be_written_costs_nobody_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "model.safetensors").write_text("")
    hand_over(tmp_path, tmp_path / "final", None)
    assert "no model card: FileNotFoundError" in capsys.readouterr().out
    assert (tmp_path / "final" / "model.safetensors").exists()


@pytest.mark.stack
def test_a_trained_adapter_is_ready_for_the_hub(
    trained: Callable[..., Trained], make_plan: Callable[..., Changes], held_out: Callable[..., Changes]
) -> None:
    from huggingface_hub import ModelCard

    run = trained(make_plan("lora", evaluation=copy.deepcopy(held_out()), arguments={"max_steps": 2}))
    assert run.exit_code == 0, run.output
    final = run.folder / "final"
    assert "no model card" not in run.output
    card = ModelCard.load(final / "README.md", ignore_metadata_errors=False)
    assert card.data.library_name == "peft"
    assert {"grpo", "trl"} <= set(card.data.tags)
    assert card.data.to_yaml() == yaml.safe_dump(front_matter(final), sort_keys=False).strip()
    assert "Mean rewards on 11 held-out rows" in card.text
    assert str(run.folder) not in (final / "README.md").read_text() + (final / "run.json").read_text()
    assert not (final / "training_args.bin").exists()
