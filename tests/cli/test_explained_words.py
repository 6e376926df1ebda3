"""`explain` answers the words of the field, whichever tool they come from."""

from collections.abc import Callable

import pytest

from grpo_recipes.cli.options import choose_stack
from grpo_recipes.explain.explain import explain, nearest, section_keys, topic_page, topics
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.schemas.fast_accept import recipe_keys

# What each page has to name.
WORDS = {
    "lr": "training.learning_rate",
    "learning rate": "training.learning_rate",
    "kl": "grpo.beta",
    "kl coefficient": "grpo.beta",
    "kl_penalty": "grpo.beta",
    "init_kl_coef": "grpo.beta",
    "beta": "grpo.beta",
    "epochs": "training.num_train_epochs",
    "batch_size": "training.prompts_per_step",
    "global batch": "training.prompts_per_step",
    "micro batch": "training.per_device_train_batch_size",
    "micro_batch_size": "training.per_device_train_batch_size",
    "gradient accumulation": "training.prompts_per_step",
    "reward": "rewards",
    "reward function": "rewards",
    "reward_funcs": "rewards",
    "custom reward": "rewards",
    "clip": "grpo.epsilon",
    "clip ratio": "grpo.epsilon",
    "clip-higher": "grpo.epsilon_high",
    "rank": "lora.r",
    "lora_rank": "lora.r",
    "alpha": "lora.lora_alpha",
    "group size": "grpo.num_generations",
    "rollouts": "grpo.num_generations",
    "rollout.n": "grpo.num_generations",
    "max length": "max_completion_length",
    "response length": "generation.max_completion_length",
    "max_new_tokens": "generation.max_completion_length",
    "prompt length": "generation.max_prompt_length",
    "long prompts": "dataset.max_prompt_tokens",
    "warmup": "training.warmup_steps",
    "scheduler": "training.lr_scheduler_type",
    "entropy": "guards.entropy_collapse",
    "advantages": "grpo.scale_rewards",
    "reward_std": "grpo.scale_rewards",
    "reference model": "grpo.beta",
    "grad_norm": "training.max_grad_norm",
    "loss": "grpo.loss_type",
    "nan": "GRD004",
    "oom": "MEM001",
    "out of memory": "MEM001",
    "zero3": "distributed.strategy",
    "zero stage": "distributed.strategy",
    "fsdp": "distributed.fsdp",
    "offload": "distributed.offload_optimizer_device",
    "tensor parallel": "generation.vllm_tensor_parallel_size",
    "vllm": "generation.use_vllm",
    "gpu memory utilization": "gpu_memory_utilization",
    "qlora": "quantization",
    "4bit": "quantization",
    "flash attention": "model.attn_implementation",
    "gradient checkpointing": "training.gradient_checkpointing",
    "chat template": "tokenizer.chat_template_path",
    "enable thinking": "generation.chat_template_kwargs",
    "system prompt": "dataset.system_prompt",
    "eos": "generation.stop",
    "stop strings": "generation.stop",
    "wandb": "logging.report_to",
    "tensorboard": "logging.report_to",
    "eval": "evaluation",
    "early stopping": "evaluation.stop_after",
    "verdict": "VRD001",
    "overfitting": "VRD005",
    "resume": "--resume",
    "checkpoint": "training.save_steps",
    "export": "grpo-run export",
    "hf token": "HF_TOKEN",
    "pass rate": "grpo-run profile",
    "dynamic sampling": "grpo.resample_groups",
    "data mixture": "datasets.weight",
    "curriculum": "datasets with from_step",
    "llm judge": "judge",
    "several test sets": "evaluation.sets",
    "overlong": "soft_overlong_punishment",
    "dapo": "epsilon_high",
    "Dr. GRPO": "dr_grpo",
    "GSPO": "importance_sampling_level",
    "ppo": "no value model",
    "multi-turn": "tools",
    "determinism": "full_determinism",
}


@pytest.mark.parametrize(("word", "named"), WORDS.items())
def test_a_word_of_the_field_leads_to_what_it_is_here(word: str, named: str, grpo_run: Callable) -> None:
    answer = grpo_run("explain", word)
    assert answer.code == 0, answer.err
    assert named in answer.out


def test_topics_name_what_exists_and_hide_no_key() -> None:
    known = {*known_ids(), *recipe_keys(), *(f"trl.{name}" for name in classified_fields())}
    assert {name for row in topics() for name in row["see"]} <= known
    names = [name for row in topics() for name in row["names"]]
    assert len(names) == len({*names})
    facts = facts_for(choose_stack("tested"))
    hidden = {name: explain(name, facts) for name in names}
    assert [name for name, page in hidden.items() if page != topic_page(name)] == []


def test_each_shipped_reward_has_a_page_with_its_options(grpo_run: Callable) -> None:
    for name, reward in shipped_rewards().items():
        page = grpo_run("explain", f"rewards.{name}").out
        assert reward.doc in page
        assert all(f"  {option}" in page for option in (*reward.options, *reward.required))
    assert grpo_run("explain", "tag_format").out == grpo_run("explain", "rewards.tag_format").out
    assert nearest("tag_formt") == "tag_format"


def test_the_line_of_a_key_goes_on_after_an_abbreviation() -> None:
    assert "the model shall write" in " ".join((section_keys("warm_start") or "").split())


@pytest.mark.parametrize(("typed", "meant"), [("chekpoint", "checkpoint"), ("quantisation", "quantization")])
def test_a_mistyped_word_gets_the_nearest_one(typed: str, meant: str) -> None:
    assert nearest(typed) == meant
