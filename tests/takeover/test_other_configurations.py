"""open-r1's own keys, axolotl's configurations, and the files that lie beside a configuration."""

import ast
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from taken import BASE, as_yaml, recipe_of, row, taken

from grpo_recipes.rewards.regex_match import regex_match
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.read import table_of

OPEN_R1 = """
model_name_or_path: owner/model
torch_dtype: bfloat16
dataset_name: owner/data
dataset_prompt_column: problem
system_prompt: "Think.\\nThen answer: \\"yes\\" or no # maybe"
reward_funcs: [format, tag_count]
reward_weights: [1.0, 2.0]
loss_type: grpo
"""
AXOLOTL = """
base_model: owner/model
rl: grpo
adapter: qlora
load_in_4bit: true
lora_r: 8
lora_alpha: 16
lora_target_linear: true
trl:
  use_vllm: true
  vllm_mode: colocate
  beta: 0.01
  num_generations: 4
  max_completion_length: 128
  reward_funcs: [my.rewards.brevity]
vllm: {gpu_memory_utilization: 0.2, host: 0.0.0.0}
chat_template: tokenizer_default
datasets:
  - {path: owner/data, name: main, split: train}
micro_batch_size: 4
gradient_accumulation_steps: 2
num_epochs: 1
learning_rate: 1e-5
optimizer: adamw_8bit
bf16: auto
flash_attention: true
sequence_len: 512
wandb_project:
"""
ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, zero3_init_flag: true}
mixed_precision: bf16
num_machines: 1
num_processes: 4
downcast_bf16: 'no'
"""
TEXTS = (
    "<think>\na\n</think>\n<answer>\nb\n</answer>",
    "<think>\na\n</think>\n<answer>\nb\n</answer>\nmore",
    "so <think>\na\n</think>\n<answer>\nb\n</answer>",
    "<think>\na</think>\n<answer>\nb\n</answer>",
    "<think>\n<think>\na\n</think>\n<answer>\n\n<answer>\nb\n</answer>",
    "<think>a</think> b",
    "<think>a\n</think>",
    "\n</think>\n</think>\n",
    "",
)


def test_the_rows_of_the_vision_script_of_trl_have_their_images(tmp_path: Path) -> None:
    text = "model_name_or_path: Qwen/Qwen2.5-VL-3B-Instruct\ndataset_name: {}\nlearning_rate: 1.0e-5\n"
    one = taken(tmp_path, text.format("lmms-lab/multimodal-open-r1-8k-verified"))
    dataset = {"path": "lmms-lab/multimodal-open-r1-8k-verified", "prompt": "{{ problem }}", "images": "image"}
    assert recipe_of(one)["dataset"] == dataset
    assert "adds a system prompt too" in row(one, "prompt (of the script)").because
    other = taken(tmp_path, text.format("owner/charts"))
    assert "images if the rows have some" in row(other, "prompt (of the script)").because


def test_a_configuration_of_open_r1_is_taken_over_in_full(tmp_path: Path) -> None:
    one = taken(tmp_path, OPEN_R1, "trl==0.18.0")
    recipe = recipe_of(one)
    assert one.is_complete
    assert one.dialect == "open_r1"
    assert recipe["model"]["dtype"] == "bfloat16"
    assert recipe["dataset"]["prompt"] == "{{ problem }}"
    assert recipe["dataset"]["system_prompt"] == 'Think.\nThen answer: "yes" or no # maybe'
    assert [reward["weight"] for reward in recipe["rewards"]] == [1.0, 0.5, 0.5, 0.5, 0.5]
    assert recipe["grpo"]["beta"] == 0.04


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("format", r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$"),
        ("think_format_reward", r"^<think>(?!.*<think>)(.*?)</think>.*$"),
    ],
)
@pytest.mark.processes
def test_a_format_reward_is_the_same_function(name: str, pattern: str) -> None:
    tables = other_names()["rewards"]
    options = {**tables["open_r1"], **tables["trl"]}[name]["rewards"][0]["options"]
    wanted = [float(re.match(pattern, text, re.DOTALL | re.MULTILINE) is not None) for text in TEXTS]
    assert regex_match(list(TEXTS), **options) == wanted
    assert set(wanted) == {0.0, 1.0}


@pytest.mark.processes
def test_tag_count_is_the_same_sum() -> None:
    tags = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")
    wanted = [sum(0.25 for tag in tags if text.count(tag) == 1) for text in TEXTS]
    parts = other_names()["rewards"]["open_r1"]["tag_count"]["rewards"]
    columns = [[part["weight"] * value for value in regex_match(list(TEXTS), **part["options"])] for part in parts]
    assert [sum(values) for values in zip(*columns, strict=True)] == wanted
    assert len(set(wanted)) > 2


def test_a_reward_that_nobody_ships_becomes_a_stub_with_its_options(tmp_path: Path) -> None:
    one = taken(
        tmp_path, OPEN_R1.replace("tag_count", "repetition_penalty") + "repetition_n_grams: 3\ncode_language: python\n"
    )
    reward = {"python": "rewards.py:repetition_penalty", "weight": 2.0, "options": {"repetition_n_grams": 3}}
    assert recipe_of(one)["rewards"][1] == reward
    assert (one.stubs, one.is_complete) == (("repetition_penalty",), True)
    assert (row(one, "repetition_n_grams").where, row(one, "code_language").where) == (("rewards",), ())
    functions: dict[str, Any] = {}
    exec(one.files["rewards.py"], functions)
    with pytest.raises(NotImplementedError, match=r"put the reward repetition_penalty here"):
        functions["repetition_penalty"](completions=["a"], prompts=["b"], repetition_n_grams=3, solution=["c"])


def test_the_cosine_of_open_r1_counts_characters(tmp_path: Path) -> None:
    one = taken(tmp_path, OPEN_R1.replace("tag_count", "cosine") + "cosine_max_len: 100\n")
    reward = {"python": "rewards.py:cosine", "weight": 2.0, "options": {"cosine_max_len": 100}}
    assert recipe_of(one)["rewards"][1] == reward
    assert (one.stubs, one.is_complete) == ((), True)
    functions: dict[str, Any] = {}
    exec(one.files["rewards.py"], functions)
    right, wrong = "\\boxed{4}", "\\boxed{5}"
    texts = [right, right.rjust(50), wrong.rjust(100), wrong.rjust(150)]
    rewards = functions["cosine"]([[{"content": text}] for text in texts], solution=["4"] * 4, cosine_max_len=100)
    assert rewards == pytest.approx([0.5 + 0.25 * (1 + math.cos(math.pi * 0.09)), 0.75, -0.5, -0.25])


def test_only_a_file_of_open_r1_gets_its_default_rewards(tmp_path: Path) -> None:
    without = "model_name_or_path: owner/model\ndataset_name: owner/data\nsystem_prompt: Think.\n"
    assert taken(tmp_path, without).stubs == ("reward",)
    one = taken(tmp_path, without + "dataset_prompt_column: problem\n")
    assert [reward["name"] for reward in recipe_of(one)["rewards"][:2]] == ["accuracy", "regex_match"]
    assert "open-r1's own default" in row(one, "reward_funcs (of open-r1)").because


def test_a_server_that_axolotl_names_is_used(tmp_path: Path) -> None:
    text = "base_model: a/b\nrl: grpo\ntrl: {use_vllm: true, vllm_server_host: node-7, reward_funcs: [r.a]}\n"
    assert recipe_of(taken(tmp_path, text))["generation"]["vllm_mode"] == "server"


def test_a_rollout_of_axolotl_is_a_rollout_here(tmp_path: Path) -> None:
    one = taken(tmp_path, "base_model: a/b\nrl: grpo\ntrl: {rollout_func: own.play, reward_funcs: [r.a]}\n")
    assert recipe_of(one)["rollout"] == {"python": "own.py:play"}
    assert row(one, "trl.rollout_func").fate == "emulated"


@pytest.mark.parametrize(
    ("kind", "said"), [("own.rows", "a Python function"), ("chat_template", "axolotl's chat_temp")]
)
def test_what_builds_the_prompts_of_axolotl_is_named(kind: str, said: str, tmp_path: Path) -> None:
    rows = f"datasets: [{{path: rows.jsonl, type: {kind}, ds_type: json}}]\n"
    one = taken(tmp_path, f"base_model: a/b\nrl: grpo\ntrl: {{reward_funcs: [r.a]}}\n{rows}")
    assert row(one, "datasets.type").because.startswith(said)
    assert row(one, "datasets.ds_type").fate == "emulated"
    assert recipe_of(one)["dataset"]["path"] == "rows.jsonl"


def test_the_penalty_for_length_is_the_same_with_its_lengths(tmp_path: Path) -> None:
    text = OPEN_R1.replace("tag_count", "soft_overlong_punishment") + "max_completion_len: 500\n"
    one = taken(tmp_path, text)
    options = {"max_completion_len": 500, "soft_punish_cache": 4096}
    assert recipe_of(one)["rewards"][1] == {"name": "soft_overlong_punishment", "options": options, "weight": 2.0}
    assert (one.stubs, one.is_complete) == ((), True)


def test_a_stub_has_a_name_that_python_takes_and_a_reward_model_is_none(tmp_path: Path) -> None:
    names = '["a.f", "b.f", "lambda", "as-is", "owner/model-3.1-8B"]'
    one = taken(tmp_path, BASE.replace("[think_format_reward]", names))
    sources = [reward.get("python") or reward["model"] for reward in recipe_of(one)["rewards"]]
    wanted = ["rewards.py:f", "rewards.py:f_2", "rewards.py:reward", "rewards.py:as_is", "owner/model-3.1-8B"]
    assert sources == wanted
    ast.parse(one.files["rewards.py"])


def test_a_chat_template_becomes_a_file(tmp_path: Path) -> None:
    one = taken(tmp_path, OPEN_R1 + "chat_template: '{{ messages }}'\n")
    assert one.files == {"recipe.chat_template.jinja": "{{ messages }}"}
    assert recipe_of(one)["tokenizer"]["chat_template_path"] == "./recipe.chat_template.jinja"


def test_services_of_open_r1_are_variables(tmp_path: Path) -> None:
    one = taken(tmp_path, OPEN_R1 + "wandb_project: p\nbenchmarks: [aime24]\ncallbacks: []\n")
    assert recipe_of(one)["launch"]["environment"] == {"WANDB_PROJECT": "p"}
    assert (row(one, "benchmarks").fate, row(one, "callbacks").fate) == ("emulated", "mapped")
    assert row(taken(tmp_path, OPEN_R1 + "callbacks: [push_to_hub_revision]\n"), "callbacks").fate == "emulated"
    assert row(taken(tmp_path, OPEN_R1 + "callbacks: [of_mine]\n"), "callbacks").fate == "refused"


def test_a_configuration_of_axolotl_is_taken_over_in_full(tmp_path: Path) -> None:
    one = taken(tmp_path, AXOLOTL, "trl==1.8.0")
    recipe = recipe_of(one)
    assert [line for line in one.rows if line.fate == "refused"] == []
    assert recipe["model"] == {
        "model_name_or_path": "owner/model",
        "dtype": "bfloat16",
        "attn_implementation": "flash_attention_2",
    }
    assert recipe["lora"] == {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": "all-linear"}
    assert recipe["quantization"]["bnb_4bit_use_double_quant"] is True
    assert recipe["generation"]["vllm_gpu_memory_utilization"] == 0.2
    assert recipe["rewards"] == [{"python": "rewards.py:brevity", "weight": 1.0}]
    training = recipe["training"]
    assert (training["lr_scheduler_type"], training["optim"], training["bf16"]) == ("cosine", "adamw_8bit", True)
    assert (training["num_train_epochs"], training["gradient_checkpointing"]) == (1, False)


@pytest.mark.parametrize(
    ("said", "dtype", "bf16", "fp16"),
    [
        pytest.param("", "bfloat16", True, None, id="nothing said is auto"),
        pytest.param("fp16: false\n", "bfloat16", True, False, id="auto without fp16"),
        pytest.param("fp16: true\n", "float16", False, True, id="fp16 wins over the default"),
        pytest.param("bf16: auto\nfp16: true\n", "float16", False, True, id="fp16 wins over auto"),
        pytest.param("bf16: null\n", "float32", False, None, id="null is off"),
        pytest.param("bf16: false\n", "float32", False, None, id="off"),
        pytest.param("bf16: full\n", "bfloat16", False, None, id="weights alone"),
    ],
)
def test_the_precision_of_axolotl_is_what_its_loader_makes_of_it(
    said: str, dtype: str, bf16: bool, fp16: bool | None, tmp_path: Path
) -> None:
    """Source: axolotl 0.12.2, utils/schemas/config.py (bf16 is "auto" by default) and utils/config, resolve_dtype."""
    recipe = recipe_of(taken(tmp_path, AXOLOTL.replace("bf16: auto\n", said)))
    assert recipe["model"]["dtype"] == dtype
    assert (recipe["training"]["bf16"], recipe["training"].get("fp16")) == (bf16, fp16)


def test_the_server_of_axolotl_is_started_by_the_run(tmp_path: Path) -> None:
    text = AXOLOTL.replace("vllm_mode: colocate", "vllm_mode: server").replace("0.2, host: 0.0.0.0", "0.8")
    recipe = recipe_of(taken(tmp_path, text.replace("0.8", "0.8, tensor_parallel_size: 2"), "trl==1.8.0"))
    assert recipe["vllm_server"] == {"gpu_memory_utilization": 0.8, "gpus": 2}
    assert recipe["generation"]["vllm_mode"] == "server"


@pytest.mark.parametrize(
    ("own", "aggregation"), [("", "normalize_then_sum"), ("sum_then_normalize", "sum_then_normalize")]
)
def test_gdpo_of_axolotl_is_an_aggregation(own: str, aggregation: str, tmp_path: Path) -> None:
    """axolotl sets it where its own key is not written: core/builders/rl.py, setdefault."""
    text = AXOLOTL.replace("rl: grpo", "rl: gdpo")
    one = taken(tmp_path, text.replace("trl:", f"trl:\n  multi_objective_aggregation: {own}", 1) if own else text)
    written = recipe_of(one)["grpo"].get("multi_objective_aggregation", "sum_then_normalize")
    assert (written, row(one, "rl").fate) == (aggregation, "emulated")


@pytest.mark.parametrize("word", ["dpo", "gspo", "nonsense"])
def test_another_algorithm_of_axolotl_is_refused(word: str, tmp_path: Path) -> None:
    assert row(taken(tmp_path, AXOLOTL.replace("rl: grpo", f"rl: {word}")), "rl").fate == "refused"


def test_every_key_of_axolotl_has_a_row(tmp_path: Path) -> None:
    tables = table_of("axolotl")
    renamed = [name for name, row in other_names()["keys"].items() if "axolotl" in row["tools"].split(", ")]
    names = [*renamed, *tables["same"], *tables["answers"], *tables["where_true"]]
    values = {name: "word" for name in names if name not in ("datasets", "trl", "vllm")}
    inside = dict.fromkeys([*tables["trl"], *tables["in_trl"]], "word")
    text = json.dumps({**values, "trl": inside, "unheard_of": 1, "base_model": "owner/model"})
    keys = {line.key for line in taken(tmp_path, text).rows}
    assert {*values, "unheard_of", *(f"trl.{name}" for name in inside)} - keys == set()


def test_a_python_transform_of_axolotl_is_refused(tmp_path: Path) -> None:
    one = taken(tmp_path, AXOLOTL.replace("split: train", "split: train, type: my.transform"))
    assert [line.key for line in one.rows if line.fate == "refused"] == ["datasets.type"]


def test_an_accelerate_file_says_machine_strategy_and_precision(tmp_path: Path) -> None:
    text = as_yaml(per_device_train_batch_size=8, num_generations=8, gradient_accumulation_steps=2, bf16=False)
    one = taken(tmp_path, text, accelerate=ACCELERATE)
    recipe = recipe_of(one)
    assert one.is_complete
    assert recipe["distributed"] == {"strategy": "zero3", "offload_optimizer_device": "cpu"}
    assert recipe["launch"] == {"gpus_per_node": 4}
    assert recipe["training"]["prompts_per_step"] == 8
    assert recipe["training"]["bf16"] is False
    assert row(one, "accelerate: mixed_precision").fate == "emulated"


def test_the_precision_of_accelerate_counts_where_the_configuration_names_none(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(temperature=1.0), "trl==0.15.2", accelerate=ACCELERATE)
    assert recipe_of(one)["training"]["bf16"] is True


def test_a_deepspeed_file_keeps_what_has_no_home(tmp_path: Path) -> None:
    deepspeed = {
        "zero_optimization": {"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}, "typo": 1},
        "bf16": {"enabled": "auto"},
        "train_batch_size": "auto",
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW"},
    }
    one = taken(tmp_path, BASE, deepspeed=json.dumps(deepspeed))
    assert recipe_of(one)["distributed"] == {
        "strategy": "zero2",
        "offload_optimizer_device": "cpu",
        "deepspeed": {"zero_optimization": {"overlap_comm": True}},
    }
    refused = [line.key for line in one.rows if line.fate == "refused"]
    assert refused == ["deepspeed: zero_optimization.typo", "deepspeed: optimizer.type"]


def test_a_file_that_the_configuration_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 1}}))
    (tmp_path / "acc.yaml").write_text("num_processes: 2\ndistributed_type: MULTI_GPU\n")
    assert recipe_of(taken(tmp_path, as_yaml(deepspeed="ds.json")))["distributed"] == {"strategy": "zero1"}
    one = recipe_of(taken(tmp_path, as_yaml(accelerate_config="acc.yaml")))
    assert (one["distributed"]["strategy"], one["launch"]["gpus_per_node"]) == ("ddp", 2)
    assert row(taken(tmp_path, as_yaml(deepspeed="gone.json")), "deepspeed").fate == "refused"


@pytest.mark.parametrize(
    ("keys", "mode", "section"),
    [
        pytest.param("use_vllm: true", "server", {"gpu_memory_utilization": 0.2}, id="a section of the server"),
        pytest.param("use_vllm: true\n  vllm_mode: colocate", None, None, id="in the training processes"),
        pytest.param("use_vllm: true\n  vllm_server_host: 0.0.0.0", "server", None, id="a server of the author"),
        pytest.param("use_vllm: false", None, None, id="transformers generates"),
    ],
)
def test_a_vllm_section_of_axolotl_goes_where_it_is_read(
    keys: str, mode: str | None, section: dict[str, float] | None, tmp_path: Path
) -> None:
    text = AXOLOTL.replace("use_vllm: true\n  vllm_mode: colocate", keys)
    recipe = recipe_of(taken(tmp_path, text, "trl==1.8.0"))
    assert recipe.get("vllm_server") == section
    assert recipe["generation"].get("vllm_mode") == (mode or ("colocate" if "colocate" in keys else None))


@pytest.mark.parametrize(
    ("model", "value"),
    [
        pytest.param("Qwen/Qwen2.5-0.5B", None, id="known and dense"),
        pytest.param("owner/model", None, id="not known"),
        pytest.param("Qwen/Qwen3-30B-A3B", 0.001, id="named as a mixture"),
        pytest.param("./mixture", 0.001, id="a folder with experts"),
    ],
)
def test_a_dense_model_gets_no_load_balancing_loss(
    model: str, value: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixture").mkdir()
    (tmp_path / "mixture" / "config.json").write_text('{"model_type": "qwen3_moe", "num_experts": 8}')
    recipe = recipe_of(taken(tmp_path, BASE.replace("owner/model", model), "trl==1.9.0"))
    assert recipe.get("trl", {}).get("router_aux_loss_coef") == value


def test_of_two_words_for_one_generation_the_second_is_refused(tmp_path: Path) -> None:
    keys = as_yaml(generation_batch_size=16, steps_per_generation=4, per_device_train_batch_size=8)
    for accelerate in (ACCELERATE, "num_machines: 1\n"):
        one = taken(tmp_path, keys, accelerate=accelerate)
        assert "ValueError" in row(one, "generation_batch_size").because
        assert not one.is_complete
        assert "generation_batch_size" not in recipe_of(one).get("trl", {})


@pytest.mark.parametrize(("processes", "is_complete"), [(1, False), (2, True), (4, False)])
def test_of_two_words_for_one_generation_that_agree_one_is_taken(
    processes: int, is_complete: bool, tmp_path: Path
) -> None:
    keys = as_yaml(generation_batch_size=64, steps_per_generation=4, per_device_train_batch_size=8)
    one = taken(tmp_path, keys, accelerate=f"num_processes: {processes}\n")
    assert one.is_complete == is_complete
    assert ("with 2 processes" in row(one, "generation_batch_size").because) == is_complete


@pytest.mark.stack
def test_all_that_a_configuration_holds_is_taken_over(tmp_path: Path) -> None:
    from trl import GRPOConfig

    held = GRPOConfig(output_dir=str(tmp_path), bf16=False, max_steps=10).to_dict()
    one = taken(tmp_path, as_yaml(**json.loads(json.dumps(held))))
    assert [line.key for line in one.rows if line.fate == "refused"] == []
    assert one.is_complete
    wrong = {"label_smoothing_factor": 0.1, "bf16_full_eval": True, "accelerator_config": {"split_batches": True}}
    two = taken(tmp_path, as_yaml(**json.loads(json.dumps(held | wrong))))
    assert {line.key for line in two.rows if line.fate == "refused"} == set(wrong)


def test_a_key_that_a_later_release_has_is_the_scripts_own(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(project="mine"), "trl==0.16.0,transformers==4.48.3")
    assert (row(one, "project").fate, "project" in recipe_of(one)["trl"]) == ("emulated", False)
    assert recipe_of(taken(tmp_path, as_yaml(project="mine")))["trl"]["project"] == "mine"


def test_a_script_without_rewards_makes_the_prompts_too(tmp_path: Path) -> None:
    text = "model_name_or_path: owner/model\ndataset_id_or_path: owner/data\n"
    one = taken(tmp_path, text, "trl==0.16.0")
    assert recipe_of(one)["dataset"]["path"] == "owner/data"
    assert recipe_of(one)["rewards"] == [{"python": "rewards.py:reward", "weight": 1.0}]
    assert (row(one, "prompt (of the script)").where, one.is_complete) == (("dataset.prompt", "dataset.images"), True)


def test_the_transformers_of_a_release_is_one_that_grpo_run_trains_with(tmp_path: Path) -> None:
    assert taken(tmp_path, BASE, "trl==0.16.0").release.transformers == "4.48.0"
    assert taken(tmp_path, BASE, "trl==0.16.0,transformers==4.47.0").release.transformers == "4.47.0"
    detected = taken(tmp_path, as_yaml(vllm_importance_sampling_cap=2.0, use_liger_loss=True), None).release
    assert (detected.trl, detected.transformers) == ("0.27.2", "5.2.0")


def test_what_a_plugin_of_axolotl_does_is_refused_with_its_reason(tmp_path: Path) -> None:
    one = taken(tmp_path, AXOLOTL + "nemo_gym_dir: gym\nspecial_tokens: {pad_token: <pad>}\n", "trl==1.8.0")
    assert "NeMo Gym" in row(one, "nemo_gym_dir").because
    assert row(one, "special_tokens").fate == "emulated"
    other = taken(tmp_path, AXOLOTL + "special_tokens: {eos_token: <end>}\n", "trl==1.8.0")
    assert row(other, "special_tokens").fate == "refused"


def test_a_supervised_stage_names_the_warm_start(tmp_path: Path) -> None:
    """Its files have a stage each; one without rl trains on answers, as SFTConfig does."""
    assert row(taken(tmp_path, AXOLOTL.replace("rl: grpo\n", "")), "rl").where == ("warm_start",)
    of_trl = row(taken(tmp_path, as_yaml(completion_only_loss=True)), "completion_only_loss")
    assert "warm_start" in of_trl.because
