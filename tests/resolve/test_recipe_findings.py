"""What is wrong with a value or a key is said once, at its place, with what to write instead."""

from pathlib import Path

import pytest
import yaml
from recipe_mistakes import MISTAKES
from small_recipe import BASE, declared, errors, resolved
from support.work import takes_at_most

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.yaml.compose import with_patches

SILENT = [
    pytest.param("lora: {r: 16, use_rslora: true}", id="a-lora-field-of-peft"),
    pytest.param("training: {learning_rate: 1e-5, bf16: true}", id="a-number-with-an-exponent"),
    pytest.param("trl: {sapo_temperature_pos: 2.0}\ngrpo: {loss_type: sapo}", id="a-grpo-config-field-under-trl"),
    pytest.param("generation: {stop: [], use_vllm: auto}", id="a-word-beside-a-boolean"),
    pytest.param("grpo: {scale_rewards: false}", id="a-boolean-that-trl-translates"),
    pytest.param("description: yes", id="a-word-where-text-is-expected"),
]
# Where only the user knows what was meant; the others end with a fix as data that leaves no error.
NO_PATCH = {
    "the recipe has no reward",
    "the recipe lacks training",
    "`model` lacks model_name_or_path",
    "recipe format 2 is newer than this grpo-run",
    "evaluation_strategy no longer exists",
    "vllm_device no longer exists",
    "`training.cut` lacks per_device_train_batch_size",
    "training.max_steps is -1, but must be at least 1",
    "training.max_steps is 0, but must be at least 1",
    "`training.cut` has no key machine",
    "a recipe has no key extra",
    "environment.python is 'trl.experimental.openreward:OpenRewardSpec', but must be of the form file.py:function",
    "environment.python is 'trl.experimental.harbor:HarborSpec', but must be of the form file.py:function",
    "launch.engine is 'kubernetes', but must be one of local, slurm",
    "launch.engine is 'skypilot', but must be one of local, slurm",
    "the top level of a recipe has no key kubernetes",
    "the top level of a recipe has no key skypilot",
    "`warm_start` has no key num_train_epochs",
    "`warm_start` lacks answer",
}


@pytest.mark.parametrize("text", SILENT)
def test_a_value_of_the_right_kind_is_taken(text: str, tmp_path: Path) -> None:
    assert errors(resolved(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "rule", "key", "message", "fix"), [pytest.param(*case, id=case[0]) for case in MISTAKES]
)
def test_a_mistake_is_one_finding(
    text: str, rule: str, key: str, message: str, fix: str | None, tmp_path: Path
) -> None:
    found = errors(resolved(tmp_path, text))
    assert [(f.rule, f.key, f.message) for f in found] == [(rule, key, message)]
    assert found[0].because
    if fix is not None:
        assert found[0].fix == fix
    mark = found[0].mark
    assert mark is not None
    if "lacks" not in message:
        assert Path(mark.file).name == "recipe.yaml"
    if fix is None or message in NO_PATCH:
        assert found[0].patch == ()
        return
    _fixed_has_no_error(text, found[0].patch, tmp_path)


def _fixed_has_no_error(text: str, patch: tuple[Patch, ...], folder: Path) -> None:
    resolution = resolved(folder, text)
    assert resolution.context is not None
    values = with_patches(resolution.context.source.values, patch)
    if text.startswith("generation: {stop"):  # vLLM is absent here, so the stop itself would be the next mistake
        del values["generation"]["stop"]
    (folder / "fixed.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    assert errors(resolve(str(folder / "fixed.yaml"), declared())) == []


@pytest.mark.parametrize(
    ("text", "because", "fix"),
    [
        ("grpo:", "a section without keys is null in YAML", "remove grpo, or write its keys below it, indented"),
        ("guards: ~", "a section without keys is null in YAML", "remove guards"),
        ("lora: {lora_alpha: 0.5}", "lora.lora_alpha: Scale", "lora_alpha: 8, the default"),
        ("training: {save_steps: 0.1}", "a share of the run", "save_steps: 500, the default"),
        ("generation: {max_completion_length: 24GB}", "Maximum number of tokens", None),
        ("generation: {max_completion_length: 24-32}", "Maximum number of tokens", None),
        ("training: {max_steps: 2 epochs}", "Optimizer steps", None),
        ("training: {max_steps: 2 hours}", "Optimizer steps", None),
        ("guards: {no_progress_seconds: 5 min}", "at most this many seconds", "no_progress_seconds: 300, in seconds"),
        ('slurm: {time: "1 day"}', "Time limit of each start", "time: 1440, in minutes"),
        ("slurm: {time: 1d12h}", "Time limit of each start", "time: 2160, in minutes"),
        ("generation: {max_completion_length: 512 tokens}", "Maximum number of tokens", "max_completion_length: 512"),
        ("dataset: {columns: [a]}", "without dashes", None),
        (
            "generation: {stop_token_ids: ['<|im_end|>']}",
            "its text belongs under generation.stop",
            'stop: ["<|im_end|>"]',
        ),
        ("generation: {temperature: 0}", "all completions of a group are the same", "temperature: 1.0"),
        ("generation: {temperature: -1}", "Sampling temperature", "temperature: 1.0, the default"),
        ("logging: {report_to: wandb_offline}", "WANDB_MODE", "report_to: [wandb]"),
    ],
)
def test_a_mistake_of_the_format_has_a_reason_and_a_fix(
    text: str, because: str, fix: str | None, tmp_path: Path
) -> None:
    found = errors(resolved(tmp_path, text))
    assert len(found) == 1
    assert because in found[0].because[0]
    assert found[0].fix is None if fix is None else str(found[0].fix).count(fix) == 1


def test_a_number_of_many_digits_is_refused_at_once(tmp_path: Path) -> None:
    with takes_at_most(8):
        assert len(errors(resolved(tmp_path, f"seed: {'9' * 60_000}"))) == 1


def test_words_that_python_keeps_for_itself_are_keys_like_others(tmp_path: Path) -> None:
    found = errors(resolved(tmp_path, 'lora: {"True": 1, "class": 2, continue_: true}'))
    assert [finding.message for finding in found] == [
        f"`lora` has no key {key}" for key in ("True", "class", "continue_")
    ]


def test_five_mistakes_are_five_findings_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "name: Base Run\n"
        "lora: {r: 8.0}\n"
        "grpo: {num_generation: 8, loss_type: dap}\n"
        "quantization: {load_in_4bit: true, load_in_8bit: true}"
    )
    found = errors(resolved(tmp_path, text))
    assert [f.rule for f in found] == ["SCH003", "SCH002", "FCT001", "FCT005", "QNT002"]
    assert [f.mark.line for f in found if f.mark] == [2, 3, 4, 4, 5]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param("grpo: {num_generations: 1}", "SCH003", id="no-word-about-the-batch"),
        pytest.param("training: {bf16: yes, fp16: true}", "SCH002", id="no-word-about-autocast"),
        pytest.param('trl: {gradient_accumulation_steps: "2"}', "FCT006", id="no-word-about-accumulation"),
        pytest.param("evaluation: {split: 3}", "SCH002", id="no-word-about-held-out-rows"),
        pytest.param("generation: {use_vllm: yes}", "SCH002", id="no-word-about-vllm"),
    ],
)
def test_a_refused_value_is_not_judged_again(text: str, rule: str, tmp_path: Path) -> None:
    expected = [rule] if "fp16" not in text else ["SCH002"]
    assert [f.rule for f in errors(resolved(tmp_path, text))] == expected


def test_a_word_among_the_options_of_a_reward_is_not_made_a_boolean(tmp_path: Path) -> None:
    text = 'rewards: [{name: exact_match}, {python: "r.py:f", options: {labels: [yes, maybe]}}]'
    (finding,) = [f for f in errors(resolved(tmp_path, text)) if f.rule == "FCT007"]
    assert (finding.patch, finding.fix) == ((), 'true, or "yes" for the word')


def test_a_finding_of_the_reader_is_not_repeated(tmp_path: Path) -> None:
    assert [f.rule for f in errors(resolved(tmp_path, "training: {max_steps: 1,000}"))] == ["YML008"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param("grpo: {beta: 0.1, use_bias_correction_kl: false}", [], id="with-a-penalty"),
        pytest.param("grpo: {use_bias_correction_kl: false}", ["grpo.use_bias_correction_kl"], id="without-a-penalty"),
        pytest.param("trl: {sapo_temperature_pos: 2.0}", ["trl.sapo_temperature_pos"], id="another-loss"),
        pytest.param("logging: {log_completions: true}\ntrl: {num_completions_to_print: 3}", [], id="printed"),
        pytest.param("trl: {num_completions_to_print: 3}", ["trl.num_completions_to_print"], id="nothing-is-printed"),
        pytest.param("generation: {use_vllm: auto, vllm_gpu_memory_utilization: 0.2}", [], id="elsewhere"),
        pytest.param(
            "generation: {use_vllm: false, vllm_gpu_memory_utilization: 0.2}",
            ["generation.vllm_gpu_memory_utilization"],
            id="without-vllm",
        ),
        pytest.param(
            "generation: {max_tool_calling_iterations: 3}", ["generation.max_tool_calling_iterations"], id="no-tools"
        ),
        pytest.param("dataset: {images: picture}\ntrl: {log_multimodal: true}", [], id="with-images"),
        pytest.param(
            "datasets: [{source: a, path: a/b, images: picture}]\ntrl: {log_multimodal: true}", [], id="mixed-images"
        ),
        pytest.param("trl: {log_multimodal: true}", ["trl.log_multimodal"], id="without-images"),
    ],
)
def test_a_value_without_effect_is_a_warning(text: str, keys: list[str], tmp_path: Path) -> None:
    found = [finding for finding in resolved(tmp_path, text).findings if finding.rule == "FCT008"]
    assert [(finding.key, finding.severity) for finding in found] == [(key, "warning") for key in keys]


def test_what_a_rule_refuses_is_not_called_without_effect(tmp_path: Path) -> None:
    found = resolved(tmp_path, "trl: {sync_ref_model: true}").findings
    assert [(finding.rule, finding.severity) for finding in found] == [("GRP002", "error")]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("AdamW", "adamw_torch"),
        ("adam_w", "adamw_torch"),
        ("paged_adamw_8bits", "paged_adamw_8bit"),
        ("adamw-8bit", "adamw_8bit"),
        ("adam", None),
        ("lomo_adam", None),
        ("muon", None),
    ],
)
def test_the_nearest_word_is_of_the_same_family(word: str, meant: str | None, tmp_path: Path) -> None:
    found = errors(resolved(tmp_path, f"training: {{optim: {word}}}"))
    assert [finding.fix for finding in found] == [meant and f"optim: {meant}"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("cosine_with_warmup", "cosine"),
        ("linear_with_warmup", "linear"),
        ("wsd", "warmup_stable_decay"),
        ("constant_with_warmups", "constant_with_warmup"),
    ],
)
def test_a_schedule_of_another_program_is_the_one_that_it_names(word: str, meant: str, tmp_path: Path) -> None:
    """Each of transformers' schedules takes warmup_steps, except constant."""
    (found,) = errors(resolved(tmp_path, f"training: {{lr_scheduler_type: {word}}}"))
    assert found.fix == f"lr_scheduler_type: {meant}"


def test_a_width_under_another_name_is_the_one_that_is_meant(tmp_path: Path) -> None:
    found = errors(resolved(tmp_path, "quantization: {bits: 8}\nlora: {r: 4}"))
    assert "load_in_8bit: true" in [finding.fix for finding in found]


@pytest.mark.parametrize(
    ("text", "section"),
    [("peft: {lora_r: 8}", "lora"), ("sampling: {max_new_tokens: 64}", "generation"), ("peft: {}", "lora")],
)
def test_a_section_of_another_program_is_told_its_name(text: str, section: str, tmp_path: Path) -> None:
    (found,) = errors(resolved(tmp_path, text))
    assert found.fix == f"write it as {section}"


CALLED = 'def add(a: int) -> int:\n    """Adds one.\n\n    Args:\n        a: the number\n    """\n    return a + 1\n'


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param("tools: [{python: 't.py:add'}]", [], id="good"),
        pytest.param("tools: 't.py:add'", ["tools"], id="a-word"),
        pytest.param("tools: [{timeout: 3}]", ["tools[0].python"], id="no-function"),
        pytest.param("tools: [{python: add}]", ["tools[0].python"], id="no-file"),
        pytest.param("tools: [{python: 't.py:add', timout: 3}]", ["tools[0].timout"], id="nearly-a-key"),
        pytest.param("tools: [{python: 't.py:add', timeout: 0}]", ["tools[0].timeout"], id="no-time"),
        pytest.param(f"tools: [{'{python: t.py:add}, ' * 65}]", ["tools"], id="too-many"),
    ],
)
def test_a_mistake_in_tools_is_one_message(text: str, keys: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(CALLED)
    found = resolved(tmp_path, f"{text}\ngeneration: {{max_tool_calling_iterations: 2}}").findings
    assert [finding.key for finding in found if finding.severity != "not-checked"] == keys, found


@pytest.mark.parametrize("name", ["name", "path", "model_id", "model_name"])
def test_a_model_under_another_name_is_one_finding(name: str, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(BASE.replace("model_name_or_path", name))
    (finding,) = resolve(str(recipe), declared()).findings
    assert (finding.message, finding.fix) == (
        f"`model` has no key {name}",
        "write it as model.model_name_or_path",
    )
    assert with_patches(yaml.safe_load(recipe.read_text()), finding.patch) == yaml.safe_load(BASE)


@pytest.mark.parametrize("key", ["name", "description", "nme"])
def test_what_a_tool_is_called_is_not_what_the_recipe_is_called(key: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(CALLED)
    tools = f"tools: [{{python: 't.py:add', {key}: adder}}]"
    (found,) = resolved(tmp_path, f"{tools}\ngeneration: {{max_tool_calling_iterations: 2}}").findings
    assert (found.rule, found.key, found.fix) == (
        "FCT001",
        f"tools[0].{key}",
        f"remove {key}, if you do not need it",
    )
    assert found.because == ("nothing reads it", "it has python, timeout")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("rewards: [{python: 'rw.py:Judge.short'}]", "python: rw.py:short, with a line short = Judge.short at the end"),
        ("tools: [{python: './t.py:A.B.add'}]", "python: ./t.py:add, with a line add = A.B.add at the end of the file"),
        ("rewards: [{python: 'rw.py'}]", None),
        ("rewards: [{python: 'rw.py:a-b.c'}]", None),
    ],
)
def test_a_function_of_a_class_gets_a_name_of_the_file(text: str, fix: str | None, tmp_path: Path) -> None:
    (found,) = errors(resolved(tmp_path, text))
    assert found.rule == "SCH003"
    assert (found.fix or "").startswith(fix) if fix else found.fix is None
