"""A value is passed, translated, done by the release itself, or refused with the field, the release and a way out."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from small_recipe import declared, errors, resolved
from support.releases import TRL, pinned

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.yaml.compose import with_patches

OLD = {
    "0.14.0": "trl==0.14.0,transformers==4.48.3,peft==0.14.0,gpus=0",
    "0.15.2": "trl==0.15.2,transformers==4.49.0,peft==0.14.0,gpus=0",
    "0.16.1": "trl==0.16.1,transformers==4.49.0,peft==0.15.0,gpus=0",
    "0.17.0": "trl==0.17.0,transformers==4.51.3,peft==0.15.2,gpus=0",
    "0.21.0": "trl==0.21.0,transformers==4.55.4,peft==0.17.0,gpus=0",
    "0.22.1": "trl==0.22.1,transformers==4.55.4,peft==0.17.0,gpus=0",
    "0.23.1": "trl==0.23.1,transformers==4.57.6,peft==0.17.1,gpus=1xH100-80GB,vllm==0.10.0",
    "1.9.0": "trl==1.9.0,transformers==5.23.0,peft==0.19.1,gpus=0",
    "1.16.0": f"{pinned('trl transformers peft')},gpus=0",
}
EVERYWHERE = "generation: {top_k: 50}\ngrpo: {loss_type: grpo, scale_rewards: group}\n"

PASSED = [
    pytest.param("0.14.0", EVERYWHERE, {"max_prompt_length": None}, id="whole-prompts-are-asked-for"),
    pytest.param("0.14.0", EVERYWHERE, {"per_device_train_batch_size": 1}, id="prompts-are-counted"),
    pytest.param("0.15.2", EVERYWHERE, {"reward_weights": [1.0]}, id="weights"),
    pytest.param(
        "0.15.2",
        "generation: {top_k: 50, temperature: 0.9}\ngrpo: {loss_type: grpo}",
        {"temperature": 0.9},
        id="scored-by-a-shim",
    ),
    pytest.param("0.21.0", "grpo: {scale_rewards: none, loss_type: grpo}", {"scale_rewards": False}, id="a-word"),
    pytest.param("0.21.0", "", {"loss_type": "bnpo", "scale_rewards": True}, id="dapo-in-one-piece"),
    pytest.param("0.22.1", "", {"loss_type": "dapo", "scale_rewards": "batch"}, id="mixed-up-words"),
    pytest.param("0.22.1", "grpo: {scale_rewards: false}", {"scale_rewards": "group"}, id="mixed-up-booleans"),
    pytest.param("1.16.0", "grpo: {scale_rewards: false}", {"scale_rewards": "none"}, id="a-boolean"),
    pytest.param("0.17.0", EVERYWHERE + "training: {warmup_steps: 0.1}", {"warmup_ratio": 0.1}, id="a-share"),
    pytest.param("1.9.0", "training: {warmup_steps: 0.1}", {"warmup_steps": 0.1}, id="a-share-as-steps"),
    pytest.param(
        "0.23.1",
        "generation: {use_vllm: true}\n"
        "trl: {vllm_structured_outputs_regex: a+, vllm_importance_sampling_mode: token_truncate}",
        {"vllm_guided_decoding_regex": "a+"},
        id="an-older-name",
        marks=pytest.mark.processes,
    ),
    pytest.param("0.14.0", EVERYWHERE + "trl: {disable_dropout: false}", {}, id="a-written-value-that-needs-no-field"),
]
NEVER_PASSED = ("loss_type", "top_k", "steps_per_generation", "shuffle_dataset", "reward_weights")


@pytest.mark.parametrize(("release", "text", "passed"), PASSED)
def test_a_value_is_passed_as_the_release_says_it(
    release: str, text: str, passed: dict[str, Any], tmp_path: Path
) -> None:
    resolution = resolved(tmp_path, text, OLD[release])
    assert errors(resolution) == []
    arguments = plan_of(resolution).arguments.GRPOConfig
    assert {name: arguments[name] for name in passed} == passed
    if release == "0.14.0":
        assert [name for name in NEVER_PASSED if name in arguments] == []


def test_loading_arguments_have_the_names_that_the_release_reads(tmp_path: Path) -> None:
    text = (
        EVERYWHERE + "model: {dtype: bfloat16, trust_remote_code: true}\nlora: {}\nquantization: {load_in_4bit: true}"
    )
    loading = {"attn_implementation": None, "device_map": "local_rank"}
    seen = {}
    for release in ("0.22.1", "1.9.0"):
        arguments = plan_of(resolved(tmp_path, text, OLD[release])).arguments
        kept = {name: value for name, value in arguments.model_init_kwargs.items() if name not in loading}
        seen[release] = (kept, arguments.quantization_config_in, "trust_remote_code" in arguments.GRPOConfig)
    assert seen == {
        "0.22.1": ({"torch_dtype": "bfloat16", "trust_remote_code": True}, "model_init_kwargs", False),
        "1.9.0": ({"dtype": "bfloat16"}, "GRPOTrainer", True),
    }


# release, recipe, key, message, because, fix
REFUSED = [
    ("0.14.0", "generation: {top_k: 50}", "grpo.loss_type", "loss_type 'dapo'", "averages the loss per sequence"),
    ("0.14.0", "grpo: {loss_type: grpo}", "generation.top_k", "top_k 0", "transformers' own value is 50"),
    ("0.15.2", EVERYWHERE + "training: {shuffle_dataset: false}", "training.shuffle_dataset", "false", "random order"),
    ("0.15.2", EVERYWHERE.replace("group", "none"), "grpo.scale_rewards", "'none'", "always divides"),
    ("0.16.1", "grpo: {loss_type: grpo}", "grpo.loss_type", "loss_type 'grpo'", "tokens of a micro-batch"),
    ("0.17.0", "grpo: {loss_type: sapo}", "grpo.loss_type", "'sapo'", "it accepts grpo, bnpo, dr_grpo"),
    (
        "0.21.0",
        "launch: {num_processes: 2}",
        "grpo.loss_type",
        "loss_type 'dapo'",
        "grpo.loss_type is 'dapo' in format 1",
    ),
    ("0.21.0", "grpo: {scale_rewards: batch}", "grpo.scale_rewards", "'batch'", "of the group alone"),
    ("0.22.1", "grpo: {scale_rewards: batch}", "grpo.scale_rewards", "'batch'", "never divide"),
    ("0.21.0", "grpo: {beta: 0.1}", "grpo.use_bias_correction_kl", "true", "does not weigh the KL penalty"),
    ("0.21.0", "trl: {entropy_coef: 0.1}", "trl.entropy_coef", "0.1", "no entropy bonus"),
    ("0.17.0", "trl: {off_policy_mask_threshold: 2.0}", "trl.off_policy_mask_threshold", "2.0", "masks no sequence"),
    ("0.23.1", "generation: {use_vllm: true, vllm_mode: colocate}", "trl.vllm_importance_sampling_mode", "mask", "cap"),
]


@pytest.mark.parametrize(
    ("release", "text", "key", "said", "because"), [pytest.param(*c, id=f"{c[0]}-{c[2]}") for c in REFUSED]
)
def test_a_value_that_the_release_cannot_express_is_refused_once(
    release: str, text: str, key: str, said: str, because: str, tmp_path: Path
) -> None:
    resolution = resolved(tmp_path, text, OLD[release])
    found = [finding for finding in errors(resolution) if finding.rule == "FCT004"]
    assert [finding.key for finding in found] == [key], found
    assert f"trl {release}" in found[0].message and said in found[0].message
    assert because in "\n".join(found[0].because)
    assert found[0].fix is not None and "trl " in found[0].fix
    assert resolution.context is not None
    values = with_patches(resolution.context.source.values, found[0].patch)
    (tmp_path / "fixed.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    assert _refusals(str(tmp_path / "fixed.yaml"), OLD[release]) == []


def _refusals(file: str, stack: str) -> list[Finding]:
    return [finding for finding in errors(resolve(file, declared(stack))) if finding.rule == "FCT004"]


def test_the_releases_that_can_are_named(tmp_path: Path) -> None:
    (found,) = errors(resolved(tmp_path, "grpo: {loss_type: grpo}", OLD["0.16.1"]))
    assert found.fix == f"loss_type: bnpo, or trl 0.14.0-0.15.2, 0.17.0-{TRL}"


def test_a_release_that_lacks_what_the_value_belongs_to_is_not_named(tmp_path: Path) -> None:
    """The mode means something beside the correction alone, which trl before 0.23 refuses with another finding."""
    (found,) = errors(resolved(tmp_path, "generation: {use_vllm: true, vllm_mode: colocate}", OLD["0.23.1"]))
    assert found.fix == f"vllm_importance_sampling_mode: token_truncate, or trl 0.26.0-{TRL}"


def test_the_name_of_an_older_release_is_answered_with_the_newest(tmp_path: Path) -> None:
    text = "grpo: {loss_type: grpo}\ntrl: {vllm_guided_decoding_regex: a+}"
    (found,) = errors(resolved(tmp_path, text, OLD["0.21.0"]))
    assert (found.rule, found.fix) == ("FCT002", "write it as trl.vllm_structured_outputs_regex")
    assert "only older releases use the name" in found.message


OF_TRL = {
    "trl==0.19.1 grpo: {loss_type: dr_grpo, importance_sampling_level: sequence}": "FCT004",
    "trl==0.19.1 grpo: {loss_type: dapoo}": "FCT005",
    "trl==1.16.0,gpus=8xH100-80GB grpo: {importance_sampling_level: sequenz}": "FCT005",
    "trl==1.16.0 trl: {vllm_importance_sampling_mode: foo}": "FCT005",
    "trl==1.16.0 ": "",
    "trl==1.16.0 training: {learning_rate: 1e-4, warmup_steps: 0.1, optim: adafactor}": "",
}


@pytest.mark.parametrize("case", OF_TRL)
def test_fields_of_trl_are_judged_without_the_release_of_transformers(case: str, tmp_path: Path) -> None:
    target, _, text = case.partition(" ")
    resolution = resolved(tmp_path, text, target)
    assert " ".join(finding.rule for finding in errors(resolution)) == OF_TRL[case]
    if not OF_TRL[case]:
        whole = plan_of(resolved(tmp_path, text, f"{target},{pinned('transformers')}")).arguments.GRPOConfig
        passed = plan_of(resolution).arguments.GRPOConfig
        assert whole.keys() - passed.keys() <= {"activation_checkpointing_kwargs"}, "renamed by transformers"
