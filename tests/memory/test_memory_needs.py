"""What a plan says of its memory is read from its arguments, and what it does not say is named."""

import json
from pathlib import Path

import pytest

from grpo_recipes.memory.estimate import MemoryNeeds, estimate
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.target import parse_target
from grpo_recipes.user_files.model_config import read_model_config

RECIPES = Path(__file__).parents[2] / "recipes"
QLORA = str(RECIPES / "qwen2_qlora.yaml")
NEWEST = "tested,vllm==0.30.0,gpus="


def _planned(recipe: str, target: str, *overrides: str) -> MemoryNeeds | str:
    stack, _ = parse_target(target)
    assert stack is not None
    resolution = resolve(str(RECIPES / recipe), stack, overrides)
    assert not resolution.refused, [finding.message for finding in resolution.findings]
    assert resolution.context is not None
    return memory_needs(resolution.context)


def _known(recipe: str, target: str, *overrides: str) -> MemoryNeeds:
    found = _planned(recipe, target, *overrides)
    assert isinstance(found, MemoryNeeds), found
    return found


def test_an_adapter_beside_four_bits() -> None:
    found = _known("qwen2_qlora.yaml", f"{NEWEST}1xA100-80GB")
    assert found.update.four_bits is not None
    assert found.update.adapter is not None
    assert (found.update.adapter.r, found.update.adapter.width, found.update.width) == (16, 2, 2)
    assert (found.layout.strategy, found.layout.sequences) == ("single", 128)
    assert found.gpu_bytes == 80 * 2**30
    assert found.assumed == (
        "prompts of at most 512 tokens; neither max_prompt_length nor preflight gives their length",
    )


@pytest.mark.parametrize(("cut", "dropped", "longest"), [("null", 2048, 2048), (1024, 2048, 1024), (4096, 2048, 2048)])
def test_rows_that_are_left_out_need_no_memory(cut: object, dropped: int, longest: int) -> None:
    overrides = (f"generation.max_prompt_length={cut}", f"dataset.max_prompt_tokens={{limit: {dropped}}}")
    found = _known("qwen2_qlora.yaml", f"{NEWEST}1xA100-80GB", *overrides)
    assert (found.update.prompt, found.assumed) == (longest, ())


def test_shards_with_vllm_in_the_same_processes() -> None:
    found = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB")
    assert (found.layout.strategy, found.layout.processes) == ("zero3", 8)
    assert (found.layout.generation, found.layout.vllm_share, found.layout.scores) == ("vllm_colocate", 0.3, True)
    fixed = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", "generation.vllm_engine.kv_cache_memory_bytes=5000")
    assert (found.layout.vllm_cache, fixed.layout.vllm_cache) == (None, 5000)
    zero = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", "generation.vllm_engine.kv_cache_memory_bytes=0")
    assert zero.layout.vllm_cache is None, "vLLM takes 0 for not set, and its share"
    assert (found.update.weight_width, found.update.autocast_width) == (4, 2)
    assert found.update.trains_weights()


def test_deepspeed_casts_half_precision_weights_and_has_no_autocast() -> None:
    sixteen = ("model.dtype=bfloat16", "training.learning_rate=1e-5")
    found = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", *sixteen)
    assert (found.update.weight_width, found.update.autocast_width, found.update.copies_logits) == (2, None, False)
    beside = _known("qwen2_lora.yaml", f"{NEWEST}8xH100-80GB", "distributed.strategy=ddp")
    assert (beside.update.autocast_width, beside.update.copies_logits) == (2, True)
    assert _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB").update.copies_logits


def test_parameters_that_are_not_gathered_to_generate_stay_in_shards() -> None:
    generates = ("generation.use_vllm=false",)
    gathered = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", *generates)
    apart = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", *generates, "trl.ds3_gather_for_generation=false")
    whole, parts = (one.estimate().by_phase()["generate"]["gathered"] for one in (gathered, apart))
    assert parts < whole / 3


def test_fsdp2_keeps_layers_whole_where_the_recipe_says_so() -> None:
    sharded = ("distributed.strategy=fsdp2", "distributed.fsdp.reshard_after_forward")
    for written, keeps in (("true", False), ("false", True)):
        found = _known("qwen2_5_7b_zero3.yaml", f"{NEWEST}8xH100-80GB", sharded[0], f"{sharded[1]}={written}")
        assert found.layout.keeps_gathered is keeps


def test_an_adapter_is_cast_with_its_model() -> None:
    found = _known("qwen2_lora.yaml", f"{NEWEST}8xH100-80GB", "distributed.strategy=zero2", "launch.gpus_per_node=8")
    assert found.update.adapter is not None
    assert (found.update.adapter.width, found.update.autocast_width) == (2, None)


def test_a_reference_is_loaded_for_the_kl_term_of_a_full_training() -> None:
    found = _known("qwen2_lora.yaml", f"{NEWEST}1xH100-80GB", "lora=null", "grpo.beta=0.04")
    assert found.layout.has_reference
    assert found.layout.scores


def test_the_release_decides_how_logits_are_made() -> None:
    older = "trl==0.23.1,transformers==4.57.6,torch==2.8.0,peft==0.17.1,accelerate==1.10.1,datasets==4.8.5,gpus=1xH100"
    assert _known("qwen2_lora.yaml", older).update.output == "logits"
    assert _known("qwen2_lora.yaml", f"{NEWEST}1xH100").update.output == "fused"


@pytest.mark.parametrize(
    ("recipe", "gpus"),
    [
        pytest.param("qwen2_lora.yaml", "1xA100-80GB", id="adapter"),
        pytest.param("qwen2_qlora.yaml", "1xRTX-4090", id="four bits"),
        pytest.param("qwen2_5_7b_zero3.yaml", "8xH100-80GB", id="shards"),
    ],
)
def test_a_shipped_recipe_has_an_estimate(recipe: str, gpus: str) -> None:
    found = _known(recipe, NEWEST + gpus)
    model = "Qwen/Qwen2.5-7B-Instruct" if "7b" in recipe else "Qwen/Qwen2-0.5B-Instruct"
    answer = estimate(read_model_config(model), found.update, found.layout, found.gpu_bytes)
    assert answer.unknown == ""
    assert answer.verdict() in ("fits", "tight")


def test_experts_that_are_modules_of_their_own_are_unknown(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_key_value_heads": 2}
    rest = {"model_type": "qwen3_moe", "head_dim": 16, "vocab_size": 512, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(sizes | experts | rest))
    model = f"model.model_name_or_path={tmp_path}"
    assert _known("qwen2_lora.yaml", f"{NEWEST}1xH200", model).update.adapter is not None
    older = _planned("qwen2_lora.yaml", "tested,transformers==4.57.6,gpus=1xH200", model)
    assert older == "grpo-run has no estimate for the experts of this release of transformers"


@pytest.mark.parametrize("setting", ["lora=16", "lora=[]", "lora.r=many", "quantization=4bit", "training=1"])
def test_a_section_that_was_refused_is_one_mistake(setting: str) -> None:
    stack, _ = parse_target(f"{NEWEST}1xA100-80GB")
    assert stack is not None
    found = resolve(str(RECIPES / "qwen2_lora.yaml"), stack, [setting])
    assert found.refused
    assert [finding.rule for finding in found.findings if finding.rule.startswith(("MEM", "QNT"))] == []


def test_memory_is_not_judged_by_what_would_be_trained_without_a_refused_section() -> None:
    stack, _ = parse_target(f"{NEWEST}1xRTX-4090")
    assert stack is not None
    large = ["model.model_name_or_path=Qwen/Qwen2.5-7B-Instruct", "model.dtype=float32"]
    rules = [
        [one.rule for one in resolve(QLORA, stack, [*large, more]).findings]
        for more in ("quantization=null", "quantization=4bit")
    ]
    assert ["MEM001" in found for found in rules] == [True, False]


def test_a_cpu_holds_the_libraries_and_ddp_sends_the_weights_in_copies() -> None:
    cpu = "tested,gpus=0,avx512_bf16=yes"
    alone, two = (_known("qwen2_lora.yaml", cpu, f"launch.num_processes={number}") for number in (1, 2))
    one, both = (each.estimate().by_phase() for each in (alone, two))
    assert {phase["libraries"] for phase in (*one.values(), *both.values())} == {600 << 20}
    assert "broadcast" not in one["load"] and both["load"]["broadcast"] == 500 << 20
    assert not any("broadcast" in both[phase] for phase in both if phase != "load")
    zero2 = _known("qwen2_lora.yaml", f"{NEWEST}2xH100-80GB", "distributed.strategy=zero2").estimate().by_phase()
    assert "broadcast" not in zero2["load"] and "libraries" not in zero2["load"]


def test_a_cpu_has_no_verdict() -> None:
    assert _known("qwen2_lora.yaml", "tested,gpus=0,avx512_bf16=yes").gpu_bytes is None


def test_a_warm_start_has_a_phase_with_whole_logits() -> None:
    stack = f"{NEWEST}1xA100-80GB"
    warm_start = ("warm_start.steps=5", "warm_start.answer=x", "warm_start.learning_rate=1e-4")
    without = _known("qwen2_lora.yaml", stack).estimate()
    phases = {phase.name: phase.total() for phase in _known("qwen2_lora.yaml", stack, *warm_start).estimate().phases}
    assert {phase.name: phase.total() for phase in without.phases} == {
        name: size for name, size in phases.items() if name != "warm_start"
    }
    assert phases["warm_start"] > phases["save"]
