"""What two plans differ in: contents and not places, the effective batch and not its fields."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_recipe import STACK, resolved
from support.releases import pinned

from grpo_recipes.compare.differences import Difference, Differences, differences, effective_batch
from grpo_recipes.compare.experiment_groups import group_of, groups
from grpo_recipes.contract.plan import Plan, Reward
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.planning.build_plan import kind_of
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.section import fields_by_key

TWO_GPUS = STACK.replace("gpus=0", "gpus=2xA100-80GB")
OLD = TWO_GPUS.replace(pinned("trl transformers peft"), "trl==0.14.0,transformers==4.48.3,peft==0.14.0")
AS_OLD = "\ngrpo: {loss_type: grpo, beta: 0.04, use_bias_correction_kl: false}\ngeneration: {top_k: 50}"


def plan(folder: Path, text: str = "", stack: str = STACK) -> Plan:
    resolution = resolved(folder, text, stack)
    assert not resolution.refused, [one.message for one in resolution.findings]
    return plan_of(resolution)


def said(found: Differences) -> list[tuple[str, str, Any, Any]]:
    return [(one.group, one.key, one.a, one.b) for one in found.experiment]


@pytest.mark.parametrize("stack", [STACK, TWO_GPUS, OLD], ids=["one", "two", "trl-0.14-which-counts-prompts"])
def test_the_effective_batch_is_that_of_the_recipe_on_every_machine(tmp_path: Path, stack: str) -> None:
    assert effective_batch(plan(tmp_path, AS_OLD.strip(), stack)) == {
        "prompts per optimizer step": 4,
        "completions per optimizer step": 32,
        "completions per prompt": 8,
        "optimizer steps per generation": 1,
    }


def test_a_batch_is_said_as_prompts_and_completions(tmp_path: Path) -> None:
    other = plan(
        tmp_path, "training: {prompts_per_step: 8}\ngrpo: {num_generations: 4, optimizer_steps_per_generation: 2}"
    )
    assert said(differences(plan(tmp_path), other)) == [
        ("effective batch", "prompts per optimizer step", 4, 8),
        ("effective batch", "completions per prompt", 8, 4),
        ("effective batch", "optimizer steps per generation", 1, 2),
    ]


@pytest.mark.parametrize(("key", "value"), [("every_steps", 4), ("max_rows", 7)])
def test_what_is_measured_is_the_experiment_where_it_chooses_what_is_handed_over(
    key: str, value: int, tmp_path: Path
) -> None:
    how = "evaluation: {{split: test, every_steps: 2, keep_best: {best}{more}}}\ntraining: {{save_steps: 2}}"
    for best, found in (("true", [("optimizer", f"evaluation.{key}")]), ("false", [])):
        more = f", {key}: {value}" if key != "every_steps" else ""
        one = plan(tmp_path, how.format(best=best, more=""))
        text = how.format(best=best, more=more)
        other = plan(tmp_path, text.replace("every_steps: 2", "every_steps: 4") if key == "every_steps" else text)
        assert [row[:2] for row in said(differences(one, other))] == found


SETS = """\
rewards: [{{name: exact_match}}, {{name: tag_format}}]
evaluation:
  pass_at: [1]
  passes: {{reward: exact_match}}
  sets:
    easy: {{path: owner/easy, max_rows: {rows}, passes: {{reward: tag_format, at_least: 0.5}}}}
    hard: {{path: owner/hard, split: test}}
"""


def test_held_out_sets_differ_by_the_keys_of_each(tmp_path: Path) -> None:
    one, other = (plan(tmp_path, SETS.format(rows=rows)) for rows in (20, 30))
    assert [(row.key, row.a, row.b) for row in differences(one, other).bookkeeping] == [
        ("evaluation.sets.easy.max_rows", 20, 30)
    ]
    rows = {row.key.removeprefix("evaluation.sets."): row.value for row in one.settings if ".sets." in row.key}
    assert rows == {
        "easy.path": "owner/easy",
        "easy.max_rows": 20,
        "easy.passes": {"reward": "tag_format", "at_least": 0.5},
        "hard.path": "owner/hard",
        "hard.split": "test",
        "hard.passes": {"reward": "exact_match", "at_least": 1.0},
    }


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        (4, []),
        (
            8,
            [
                ("effective batch", "prompts per optimizer step", 4, 8),
                ("effective batch", "completions per optimizer step", 32, 64),
            ],
        ),
    ],
    ids=["the-same-batch", "twice-the-batch"],
)
def test_trls_own_fields_are_compared_as_the_batch_they_make(
    tmp_path: Path, steps: int, rows: list[tuple[str, str, int, int]]
) -> None:
    fields = "training: {prompts_per_step: null, per_device_train_batch_size: 8}"
    text = f"{fields}\ntrl: {{gradient_accumulation_steps: {steps}}}"
    assert said(differences(plan(tmp_path), plan(tmp_path, text))) == rows


def test_a_claimed_cut_is_part_of_the_experiment(tmp_path: Path) -> None:
    cut = "training: {{cut: {{processes: 1, per_device_train_batch_size: {}}}}}"
    found = differences(plan(tmp_path, cut.format(8)), plan(tmp_path, cut.format(4)))
    assert said(found) == [("effective batch", "training.cut.per_device_train_batch_size", 8, 4)]
    assert "training.per_device_train_batch_size" in {one.key for one in found.machine}
    unclaimed = differences(plan(tmp_path), plan(tmp_path, cut.format(8)))
    assert [row[1:] for row in said(unclaimed)] == [
        ("training.cut.processes", None, 1),
        ("training.cut.per_device_train_batch_size", None, 8),
    ]


def test_the_groups_come_in_their_order(tmp_path: Path) -> None:
    other = plan(
        tmp_path,
        "seed: 7\nlora: {r: 4}\ntraining: {learning_rate: 1e-3, prompts_per_step: 2}\nmodel: {dtype: bfloat16}\n"
        "generation: {temperature: 0.5}\nrewards: {extend: [{name: tag_format, options: {tags: [a]}}]}\n"
        "dataset: {split: test}\ngrpo: {beta: 0.1}",
    )
    found = [one.group for one in differences(plan(tmp_path), other).experiment]
    assert list(dict.fromkeys(found)) == [group for group in groups() if group != "other"]


def test_every_value_of_an_experiment_belongs_to_a_group() -> None:
    keys = [f"trl.{name}" for name, field in classified_fields().items() if field.kind == "experiment"]
    keys += [f"{section}.{name}" for section, model in sections().items() if section for name in fields_by_key(model)]
    keys = [key for key in keys if key.startswith("trl.") or kind_of(key) == "experiment"]
    assert {key: group_of(key) for key in keys if group_of(key) == "other"} == {}


def content(one: Plan, **model: object) -> Plan:
    return replace(one, model=replace(one.model, **model))  # type: ignore[arg-type]


def test_a_model_folder_is_its_digest_wherever_it_lies(tmp_path: Path) -> None:
    one = content(plan(tmp_path), source="folder", path="/a/model", sha256="1" * 64, files={"config.json": "2"})
    moved = content(one, path="/b/model", files={})
    assert said(differences(one, moved)) == []
    changed = content(moved, sha256="3" * 64)
    assert said(differences(one, changed)) == [("model", "model.sha256", "1" * 64, "3" * 64)]
    assert said(differences(one, content(moved, sha256=None))) == [("model", "model.path", "/a/model", "/b/model")]


@pytest.mark.parametrize(
    ("a", "b", "keys"),
    [
        ({"commit": "c1"}, {}, []),
        ({"commit": "c1"}, {"commit": "c1", "revision": "main"}, []),
        ({"commit": "c1"}, {"revision": "c1"}, []),
        ({"commit": "c1"}, {"commit": "c2"}, ["model.commit"]),
        ({}, {"revision": "main"}, ["model.revision"]),
        ({"commit": "c1"}, {"revision": "main"}, ["model.revision"]),
    ],
)
def test_a_hub_model_is_its_commit_where_both_know_it(
    tmp_path: Path, a: dict[str, str], b: dict[str, str], keys: list[str]
) -> None:
    one = plan(tmp_path)
    assert [row[1] for row in said(differences(content(one, **a), content(one, **b)))] == keys


def test_a_reward_that_one_side_lacks_is_one_row(tmp_path: Path) -> None:
    one = plan(tmp_path)
    more = replace(one, rewards=(*one.rewards, Reward("model", "judge", "owner/judge", 0.5)))
    assert said(differences(one, more)) == [("reward", "rewards.judge", None, "model owner/judge, weight 0.5")]


def test_a_chat_template_is_its_text(tmp_path: Path) -> None:
    one = plan(tmp_path)
    a, b = (
        replace(one.tokenizer, chat_template_path=p, chat_template_sha256="1") for p in ("/a/c.jinja", "/b/c.jinja")
    )
    assert said(differences(replace(one, tokenizer=a), replace(one, tokenizer=b))) == []
    c = replace(b, chat_template_sha256="2")
    found = differences(replace(one, tokenizer=a), replace(one, tokenizer=c)).experiment
    assert found == (Difference("tokenizer.chat_template", "1", "2", group="model"),)


def test_two_checkouts_in_different_folders_are_one_experiment(tmp_path: Path) -> None:
    plans = []
    for name in ("alice", "bob"):
        folder = tmp_path / name
        (folder / "model").mkdir(parents=True)
        for part in ("config.json", "tokenizer_config.json", "tokenizer.json"):
            os.symlink(Path(__file__).parents[2] / "recipes/quickstart/model" / part, folder / "model" / part)
        (folder / "rows.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n' * 8)
        (folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        (folder / "rewards.py").write_text("def short(completions, **kwargs):\n    return [0.0 for _ in completions]\n")
        text = (
            "model: {model_name_or_path: ./model}\ndataset: {path: ./rows.jsonl}\n"
            "rewards: [{python: rewards.py:short}]\ntokenizer: {chat_template_path: ./chat.jinja}"
        )
        plans.append(plan(folder, text))
    assert said(differences(plans[0], plans[1])) == []
