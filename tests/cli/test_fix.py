"""`validate --fix`: the diff that mends a recipe, written where that is asked for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support import small_disks
from support.releases import pinned

TARGET = f"{pinned('trl transformers peft accelerate datasets torch')},gpus=1xRTX-4090"
TARGET += ",bitsandbytes==0.50.2"
RECIPE = """\
recipe: 1   # of the team
name: case
model: {model_name_or_path: owner/model}
quantization: {load_in_4bit: true}
dataset: {path: owner/data, prompt: "{{ question }}", columns: {solution: "{{ answer }}"}}
rewards: [{name: exact_match}]
grpo:
    num_generations: 1   # too few
training: {prompts_per_step: 4, max_steps: 10, bf16: false}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(RECIPE)
    return path


def test_a_recipe_without_mistakes_has_no_diff(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("generations: 1 ", "generations: 8 ") + "lora: {r: 4}\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--target", TARGET)
    assert (answer.code, answer.out) == (0, "")


def test_the_diff_is_printed_and_nothing_is_written(grpo_run: Callable, recipe: Path) -> None:
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--target", TARGET)
    assert answer.code == 2
    assert "-    num_generations: 1   # too few" in answer.out
    assert "+lora: {r: 16, lora_alpha: 32}" in answer.out
    assert "2 can be fixed: --fix shows the change, --fix --write writes it; 1 left" in answer.err
    assert recipe.read_text() == RECIPE


def test_what_is_written_is_valid_and_keeps_comments_and_mode(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("bf16: false", "bf16: false, learning_rate: 1e-4"))
    os.chmod(recipe, 0o640)
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert (answer.code, "2 fixed; 0 left; now 1 check not made" in answer.err) == (0, True)
    text = recipe.read_text()
    assert text.startswith("recipe: 1   # of the team\n")
    assert "# too few" in text
    assert recipe.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in recipe.parent.iterdir()] == ["case.yaml"]
    assert grpo_run("validate", str(recipe), "--target", TARGET).code == 0


def test_a_finding_without_a_fix_is_named(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("[{name: exact_match}]", "[{name: nothing_like_it}]"))
    answer = grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert answer.code == 2
    assert "nothing_like_it" in answer.err
    assert "1 left" in answer.err


def test_a_batch_size_of_another_program_is_never_removed(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("prompts_per_step: 4", "batch_size: 32"))
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert (answer.code, "batch_size: 32" in recipe.read_text()) == (2, True)
    assert "all GPUs together; or per_device_train_batch_size: completions of" in answer.err


def test_what_a_parent_says_is_overridden_here(grpo_run: Callable, recipe: Path) -> None:
    child = recipe.with_name("child.yaml")
    child.write_text("extends: case.yaml\nname: child\n")
    answer = grpo_run("validate", str(child), "--fix=suggested", "--write", "--target", TARGET)
    assert answer.code == 0
    assert "num_generations: 2" in child.read_text()
    assert recipe.read_text() == RECIPE


@pytest.mark.parametrize(
    "options", [("--write",), ("--fix", "--format", "json"), ("--fix", "--set", "seed=1")], ids=" ".join
)
def test_options_that_do_not_go_together_are_refused(
    grpo_run: Callable, recipe: Path, options: tuple[str, ...]
) -> None:
    assert grpo_run("validate", str(recipe), *options).code == 2


def test_a_file_that_is_no_yaml_is_left_alone(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text("recipe: [1\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--write")
    assert (answer.code, recipe.read_text()) == (2, "recipe: [1\n")


def test_a_recipe_that_cannot_be_written_stays_as_it_was(small_disk: Callable, grpo_run: Callable) -> None:
    disk = small_disk(16)
    recipe = disk / "case.yaml"
    recipe.write_text(RECIPE)
    small_disks.fill(disk)
    answer = grpo_run("validate", str(recipe), "--target", TARGET, "--fix=suggested", "--write")
    assert answer.code == 2
    assert "No space left on device\n  = fix: free some space" in answer.err
    assert recipe.read_text() == RECIPE
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "case.yaml"]


# What a fix may not do: line of the recipe -> what must still be in the file after --fix and after --fix=suggested.
HARMS = [
    pytest.param("rl: grpo", "trl: {dataloader_num_workers: 2}", id="a section is overwritten by a stray word"),
    pytest.param(
        "grpo: {num_generation: 4, num_generations: 8}", "num_generations: 8", id="a key by its own misspelling"
    ),
    pytest.param("peft: {lora_r: 8}", "8", id="an adapter goes, and all weights are trained"),
    pytest.param("grpo: {reward_weights: [0.5]}", "[0.5]", id="weights that belong beside their rewards"),
    pytest.param("training: {prompts_per_step: 4, fsdp: full_shard}", "full_shard", id="the wish to shard a model"),
    pytest.param("training: {prompts_per_step: 4, eval_steps: 50}", "50", id="how often a run is evaluated"),
    pytest.param("training: {prompts_per_step: 4, warmup_ratio: 1.0}", "warmup_ratio: 1.0", id="all steps become one"),
    pytest.param("grpo: {use_liger_loss: true}", "liger_loss: true", id="what has another name by now"),
    pytest.param("grpo: {loss_type: gmpo}", "gmpo", id="another loss of a like name"),
    pytest.param("sampling: {max_new_tokens: 777}", "777", id="a length, by what its default would break"),
    pytest.param("grpo: {group_size: 16}", "16", id="the size of a group by its name in articles"),
    pytest.param("training: {prompts_per_step: 4, max_steps: -1}", "max_steps: -1", id="no limit becomes one step"),
]


@pytest.mark.parametrize(("line", "kept"), HARMS)
@pytest.mark.parametrize("option", ["--fix", "--fix=suggested"])
def test_a_fix_does_not_harm(grpo_run: Callable, recipe: Path, option: str, line: str, kept: str) -> None:
    text = RECIPE.replace("num_generations: 1   # too few", "num_generations: 2")
    section = line.partition(":")[0]
    kept_lines = [one for one in text.splitlines() if not one.startswith((f"{section}:", "    ")) or section != "grpo"]
    others = [one for one in kept_lines if not one.startswith(f"{section}:")]
    recipe.write_text("\n".join([*others, line, "trl: {dataloader_num_workers: 2}", ""]))
    grpo_run("validate", str(recipe), option, "--write", "--target", TARGET)
    assert kept in recipe.read_text()
    assert "dataloader_num_workers: 2" in recipe.read_text()


def test_a_gold_answer_is_not_invented(grpo_run: Callable, recipe: Path) -> None:
    (recipe.parent / "rows.jsonl").write_text('{"letters": "ba", "n": 2, "sorted": "ab"}\n' * 8)
    text = (
        "recipe: 1\nname: sort\nmodel: {model_name_or_path: owner/model}\nrewards: [{name: exact_match}]\n"
        'dataset: {path: rows.jsonl, prompt: "{{ letters }}"}\ntraining: {prompts_per_step: 4, max_steps: 1}\n'
    )
    recipe.write_text(text)
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert (answer.code, recipe.read_text()) == (2, text)
    assert 'columns: {solution: "{{ ... }}"} under dataset, with the column that holds it' in answer.err


def test_certain_fixes_keep_every_value_and_the_rest_is_suggested(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("prompts_per_step: 4", 'prompts_per_step: "4", lr: 2e-6') + "lora: {r: 4}\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    text = recipe.read_text()
    assert "prompts_per_step: 4" in text
    assert "training: {prompts_per_step: 4, learning_rate: 2e-6, max_steps: 10, bf16: false}" in text
    assert "num_generations: 1   # too few" in text
    assert "2 fixed; 1 suggested; --fix=suggested or --fix=SCH003 applies them; 0 left; now 1 error" in answer.err


def test_what_a_moved_section_holds_is_mended_in_the_same_call(grpo_run: Callable, recipe: Path) -> None:
    text = RECIPE.replace("1   # too few", "2").replace("training: {prompts", "trainig: {lr: 2e-6, prompts")
    recipe.write_text(text + "lora: {r: 4}\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert (answer.code, "2 fixed; 0 left; now 1 check not made" in answer.err) == (0, True)
    assert "training: {learning_rate: 2e-6, prompts_per_step: 4, max_steps: 10, bf16: false}" in recipe.read_text()


def test_a_warning_that_goes_with_an_error_is_not_mended_too(grpo_run: Callable, recipe: Path) -> None:
    text = RECIPE.replace("1   # too few", "2").replace("owner/model}", "owner/model, dtype: bfloat16}")
    recipe.write_text(text)
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert answer.code == 0
    assert "dtype: bfloat16" in recipe.read_text()
    assert "lora: {r: 16, lora_alpha: 32}" in recipe.read_text()


def test_a_value_that_is_the_next_error_is_not_written(grpo_run: Callable, recipe: Path) -> None:
    text = RECIPE.replace("1   # too few", "2") + "lora: {r: 4}\ngeneration: {min_p: 1.5}\n"
    recipe.write_text(text)
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert (answer.code, recipe.read_text()) == (2, text)


def test_a_suggestion_is_taken_by_the_name_of_its_rule_alone(grpo_run: Callable, recipe: Path) -> None:
    assert "0 fixed" not in grpo_run("validate", str(recipe), "--fix=QNT001", "--target", TARGET).err
    answer = grpo_run("validate", str(recipe), "--fix=QNT001", "--write", "--target", TARGET)
    assert answer.code == 2
    assert "lora: {r: 16, lora_alpha: 32}" in recipe.read_text()
    assert "num_generations: 1   # too few" in recipe.read_text()


def test_a_suggestion_that_cannot_be_applied_is_not_announced(grpo_run: Callable, recipe: Path) -> None:
    right = RECIPE.replace("generations: 1 ", "generations: 8 ").replace("bf16: false", "learning_rate: 1e-4")
    right += "lora: {r: 4}\nslurm: {partition: gpu}\n"
    recipe.write_text(right)  # Slurm needs to know the GPUs of a machine
    assert "; 1 left" in grpo_run("validate", str(recipe), "--fix", "--target", TARGET).err
    recipe.write_text(right + "launch: {gpus_per_node: 1}\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--target", TARGET)
    assert "1 suggested; --fix=suggested or --fix=WLD005 applies them; 0 left" in answer.err
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--target", TARGET)
    assert "+launch: {gpus_per_node: 1, engine: slurm}" in answer.out


def test_an_unknown_rule_is_refused_with_the_ways_to_ask(grpo_run: Callable, recipe: Path) -> None:
    answer = grpo_run("validate", str(recipe), "--fix=BAT999", "--target", TARGET)
    assert answer.code == 2
    assert "--fix=BAT999: rule BAT999 does not exist" in answer.err
    assert "--fix=suggested for all" in answer.err


@pytest.mark.parametrize("written", ["12.10", "1e5", "1.50", "007", "0x10", "1_000", ".inf"])
def test_the_characters_of_a_number_that_should_be_text_are_not_lost(
    grpo_run: Callable, recipe: Path, written: str
) -> None:
    text = (
        RECIPE.replace("1   # too few", "2") + f"lora: {{r: 4}}\nlaunch: {{environment: {{MY_VERSION: {written}}}}}\n"
    )
    recipe.write_text(text)
    grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert f"MY_VERSION: {written}" in recipe.read_text()


CHILDREN = [
    ("grpo: {num_generation: 4}   # c", "grpo: {num_generations: 4}   # c", "parent.yaml:8 sets 2"),
    ("num_generations: 4\ngrpo: {beta: 0.1}", "grpo: {beta: 0.1, num_generations: 4}", "parent.yaml:8 sets 2"),
    ("training: {lr: 1.0e-5}", "training: {learning_rate: 1.0e-5}", "parent.yaml:9 sets 2e-06"),
]


@pytest.mark.parametrize(("line", "after", "told"), CHILDREN)
def test_a_slip_in_a_child_is_mended_there_and_wins_over_its_parent(
    grpo_run: Callable, recipe: Path, line: str, after: str, told: str
) -> None:
    text = RECIPE.replace("1   # too few", "2").replace("max_steps", "learning_rate: 2.0e-6, max_steps")
    recipe.with_name("parent.yaml").write_text(text + "lora: {r: 4}\n")
    recipe.write_text(f"extends: parent.yaml\nname: child\n{line}\n")
    assert told in grpo_run("validate", str(recipe), "--target", TARGET).out
    assert "1 fixed; 0 left" in grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET).err
    assert recipe.read_text() == f"extends: parent.yaml\nname: child\n{after}\n"


@pytest.mark.parametrize(
    ("again", "written", "absent"),
    [
        ("training: {max_steps: 5}", "training is written twice", "BAT001"),
        ("dataset: {split: train}", "dataset is written twice", "lacks path"),
        ("model: {dtype: bfloat16}", "model is written twice", "lacks model_name_or_path"),
        ("rewards: []", "rewards is written twice", "RWD007"),
        ("rewards: [{name: exact_match, weight: 0}]", "rewards is written twice", "RWD007"),
        ("rewards: [{weight: 1}]\nrewards: [{weight: 2}]", "rewards is written 3 times", "RWD001"),
    ],
)
def test_a_section_written_twice_is_the_only_finding_of_it(
    grpo_run: Callable, recipe: Path, again: str, written: str, absent: str
) -> None:
    recipe.write_text(RECIPE.replace("1   # too few", "2") + f"lora: {{r: 4}}\n{again}\n")
    answer = grpo_run("validate", str(recipe), "--target", TARGET).out
    assert written in answer
    assert absent not in answer


def test_a_section_written_twice_hides_no_wrong_value_and_no_other_section(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE + "lora: {r: 0}\ntraining: {max_steps: -5}\n")
    answer = grpo_run("validate", str(recipe), "--target", TARGET).out
    for text in ("training is written twice", "training.max_steps is -5", "num_generations is 1", "lora.r is 0"):
        assert text in answer


LENGTH_NAMES = ["generation: {max_tokens: 99}", "grpo: {max_gen_toks: 99}", "max_output_tokens: 99"]


@pytest.mark.parametrize("line", LENGTH_NAMES)
def test_a_most_of_tokens_never_becomes_a_least(grpo_run: Callable, recipe: Path, line: str) -> None:
    section = line.partition(":")[0]
    text = RECIPE.replace("num_generations: 1   # too few", "num_generations: 2") + "lora: {r: 4}\n"
    if section == "grpo":
        text = text.replace("grpo:\n    num_generations: 2\n", "")
    recipe.write_text(text + line + "\n")
    grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert "max_completion_length: 99" in recipe.read_text()
    assert "min_tokens" not in recipe.read_text()


# A key under its section, and what the format has by that name for the training.
OF_ANOTHER_THING = [
    ("evaluation: {split: test, temperature: 0.6}", "generation.temperature"),
    ("evaluation: {split: test, num_generations: 4}", "grpo.num_generations"),
    ("evaluation: {split: test, max_tokens: 99}", "generation.max_completion_length"),
    ("evaluation: {split: test, learning_rate: 1e-5}", "training.learning_rate"),
    ("evaluation: {split: test, seed: 7}", "the recipe's seed"),
    ("rewards: [{name: exact_match, temperature: 0.1}]", "generation.temperature"),
    ('dataset: {path: o/d, prompt: "{{ q }}", columns: {solution: "{{ a }}"}, seed: 7}', "the recipe's seed"),
]


@pytest.mark.parametrize(("line", "home"), OF_ANOTHER_THING)
@pytest.mark.parametrize("option", ["--fix", "--fix=suggested"])
def test_what_another_section_means_by_a_key_is_not_moved(
    grpo_run: Callable, recipe: Path, option: str, line: str, home: str
) -> None:
    section = line.partition(":")[0]
    lines = [one for one in RECIPE.splitlines() if not one.startswith(f"{section}:")]
    recipe.write_text("\n".join([*lines, line, "lora: {r: 16, lora_alpha: 32}", ""]))
    answer = grpo_run("validate", str(recipe), option, "--write", "--target", TARGET)
    assert line in recipe.read_text()
    assert f"`{section}` has no such key, and {home} configures training" in answer.err


def test_a_key_of_an_adapter_is_moved_only_when_asked(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("1   # too few", "2") + "lora: {r: 4, learning_rate: 2e-6}\n")
    grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert "lora: {r: 4, learning_rate: 2e-6}" in recipe.read_text()
    grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert "bf16: false, learning_rate: 2e-6}" in recipe.read_text()


@pytest.mark.parametrize("name", ["config", "subset", "config_name", "subset_name", "dataset_config"])
@pytest.mark.parametrize(("value", "after"), [("main  # s", "name: main  # s"), ("{a: 1}", None)])
def test_a_configuration_of_a_data_set_is_its_name(
    grpo_run: Callable, recipe: Path, name: str, value: str, after: str | None
) -> None:
    data = 'dataset:\n  path: owner/data\n  prompt: "{{ q }}"\n  columns: {solution: "{{ a }}"}\n'
    lines = [one for one in RECIPE.splitlines() if not one.startswith("dataset:")]
    recipe.write_text("\n".join([*lines, data + f"  {name}: {value}", "environment: {python: env.py:Env}", ""]))
    grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert (after or f"{name}: {value}") in recipe.read_text()
    assert "environment: {python: env.py:Env}" in recipe.read_text()


@pytest.mark.parametrize(
    ("line", "after", "rule"),
    [
        ("loss_type: gdpo  # mine", "multi_objective_aggregation: normalize_then_sum  # mine", "FCT008"),
        ("adv_estimator: gdpo  # mine", "multi_objective_aggregation: normalize_then_sum  # mine", "FCT008"),
        ("sync_ref_model: true  # mine", "sync_ref_model: true  # mine", "GRP002"),
    ],
)
def test_a_fix_does_not_undo_what_an_earlier_one_wrote(
    grpo_run: Callable, recipe: Path, line: str, after: str, rule: str
) -> None:
    text = RECIPE.replace("1   # too few", f"2\n    {line}").replace("bf16: false", "bf16: false, learning_rate: 1e-4")
    recipe.write_text(text + "lora: {r: 16, lora_alpha: 32}\n")
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert after in recipe.read_text()
    assert rule in answer.err
    assert "1 fixed; 1 left" in answer.err


@pytest.mark.parametrize("word", ["GRPO", "Grpo", "BNPO"])
def test_a_loss_in_capitals_keeps_its_name(grpo_run: Callable, recipe: Path, word: str) -> None:
    recipe.write_text(RECIPE.replace("1   # too few", f"2\n    loss_type: {word}  # mine"))
    grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert f"loss_type: {word.lower()}  # mine" in recipe.read_text()


@pytest.mark.parametrize("line", ["max_step: 1_000  # a", "max_setps: 1_000  # a"])
def test_a_misspelt_key_behind_a_misspelt_number_is_mended_too(grpo_run: Callable, recipe: Path, line: str) -> None:
    training = f"training:\n  prompts_per_step: 4\n  bf16: false\n  {line}"
    lines = [one for one in RECIPE.splitlines() if not one.startswith("training:")]
    recipe.write_text("\n".join([*lines, training, "lora: {r: 16, lora_alpha: 32}", ""]))
    grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert "  max_steps: 1000  # a" in recipe.read_text()


@pytest.mark.parametrize("name", ["none", "limit", "os"])
def test_a_name_that_a_reward_file_has_is_not_replaced(grpo_run: Callable, recipe: Path, name: str) -> None:
    (recipe.parent / "rw.py").write_text(
        "import os\nnone = None\nlimit = 3\ndef non(**k): return [1.0]\ndef limits(**k): return [1.0]\n"
    )
    recipe.write_text(RECIPE.replace("{name: exact_match}", f'{{python: "rw.py:{name}"}}'))
    answer = grpo_run("validate", str(recipe), "--fix=suggested", "--write", "--target", TARGET)
    assert f"rw.py:{name}" in recipe.read_text()
    assert f"{name} in it is not a function" in answer.err


def test_every_value_of_a_deepspeed_file_moves_to_the_key_of_the_recipe(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(
        RECIPE.replace("num_generations: 1   # too few", "num_generations: 2").replace(", bf16: false", "")
        + "distributed:\n  strategy: zero2\n  deepspeed:\n    bf16: {enabled: true}\n    gradient_clipping: 0.5\n"
        "    zero_optimization: {stage: 2}\n"
    )
    grpo_run("validate", str(recipe), "--fix=DSP001", "--write", "--target", TARGET)
    training = yaml.safe_load(recipe.read_text())["training"]
    assert (training["bf16"], training["max_grad_norm"]) == (True, 0.5)


def test_a_key_that_a_parent_spells_wrong_is_left_to_the_parent(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("num_generations: 1   # too few", "num_generations: 2") + "foo: 1\n")
    child = recipe.with_name("child.yaml")
    child.write_text(f"recipe: 1\nname: child\nextends: {recipe.name}\n")
    grpo_run("validate", str(child), "--fix=suggested", "--write", "--target", TARGET)
    assert "foo" not in child.read_text()
