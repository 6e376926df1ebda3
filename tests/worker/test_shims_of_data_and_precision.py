"""The shims that give older releases the newest one's order of rows, prompts and dtypes, against the newest one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_runs import NF4

pytestmark = pytest.mark.stack
EPOCHS = 3

ORDERS = [
    pytest.param(12, 3, 1, 1, True, id="whole steps, prompts alone"),
    pytest.param(11, 2, 8, 1, True, id="a row is left over"),
    pytest.param(11, 4, 2, 6, True, id="completions are used again"),
    pytest.param(11, 4, 2, 2, False, id="as the rows lie"),
]


@pytest.mark.parametrize(("rows", "chunk", "of_each", "of_chunk", "shuffle"), ORDERS)
def test_rows_come_as_from_the_newest_sampler(
    rows: int, chunk: int, of_each: int, of_chunk: int, shuffle: bool
) -> None:
    from trl.trainer.utils import RepeatSampler

    from grpo_recipes.worker.shims.prompt_order import PromptOrder

    newest = RepeatSampler(range(rows), of_each, chunk, of_chunk, shuffle, 7)
    ours = PromptOrder(rows, chunk, of_each, of_chunk, 7, shuffle=shuffle)
    epochs = [list(ours) for _ in range(EPOCHS)]
    assert epochs == [list(newest) for _ in range(EPOCHS)]
    assert {len(ours), len(newest)} == {len(epoch) for epoch in epochs}
    assert shuffle == (epochs[0] != epochs[1])


@pytest.fixture
def adapted(tiny_model: Path) -> Any:
    """A 4-bit model with an adapter in float32, one of them with a magnitude, as TRL leaves it before 0.26."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    model = AutoModelForCausalLM.from_pretrained(tiny_model, quantization_config=BitsAndBytesConfig(**NF4))
    return get_peft_model(model, LoraConfig(target_modules="all-linear", use_dora=True))


def test_what_is_trained_gets_the_planned_dtype_and_nothing_else(adapted: Any) -> None:
    import torch

    from grpo_recipes.worker.shims import adapter_dtype

    before = {name: parameter.dtype for name, parameter in adapted.named_parameters()}
    plan: Any = SimpleNamespace(expect=SimpleNamespace(adapter_dtype="bfloat16"))
    assert adapter_dtype.on_trainer(SimpleNamespace(model=adapted), True, plan) == "28 tensors to bfloat16"

    changed = {name for name, parameter in adapted.named_parameters() if parameter.dtype != before[name]}
    assert changed == {name for name in before if "lora_A" in name or "lora_B" in name}
    assert {dict(adapted.named_parameters())[name].dtype for name in changed} == {torch.bfloat16}
    assert adapter_dtype.on_trainer(SimpleNamespace(model=adapted), True, plan) == ""


def half_precision(tiny_model: Path) -> Any:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantization = BitsAndBytesConfig(**NF4)
    return AutoModelForCausalLM.from_pretrained(tiny_model, quantization_config=quantization, dtype="bfloat16")


def test_the_rest_of_a_quantized_model_stays_as_it_was_loaded(tiny_model: Path) -> None:
    import torch
    from peft import LoraConfig, prepare_model_for_kbit_training

    from grpo_recipes.worker.shims.no_kbit_preparation import with_adapter

    arguments = SimpleNamespace(gradient_checkpointing=True)
    model = with_adapter(half_precision(tiny_model), LoraConfig(target_modules=["q_proj"]), arguments)
    kinds = {p.dtype for name, p in model.named_parameters() if "lora_" not in name and p.is_floating_point()}
    assert kinds == {torch.bfloat16}
    assert arguments.gradient_checkpointing is True
    assert model.get_input_embeddings()(torch.tensor([[1]])).requires_grad

    prepared = prepare_model_for_kbit_training(half_precision(tiny_model), use_gradient_checkpointing=False)
    assert prepared.model.norm.weight.dtype == torch.float32, "peft casts nothing any more"


@pytest.fixture
def tokenizer(tiny_model: Path) -> Any:
    """A tokenizer that begins each text with a token of its own."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(tiny_model)
    special = [("<|im_start|>", 1)]
    made.backend_tokenizer.post_processor = TemplateProcessing(single="<|im_start|> $A", special_tokens=special)
    return made


def shimmed(prompts: list[Any], tokenizer: Any) -> str:
    from grpo_recipes.worker.shims import prompt_tokens

    plan: Any = None
    trainer = SimpleNamespace(train_dataset={"prompt": prompts}, processing_class=tokenizer)
    return prompt_tokens.on_trainer(trainer, True, plan)


def test_a_plain_prompt_is_tokenized_as_the_newest_release_does(tokenizer: Any) -> None:
    name, wanted = type(tokenizer).__name__, tokenizer(text=["1+2="])["input_ids"]
    assert tokenizer(text=["1+2="], add_special_tokens=False)["input_ids"] == [wanted[0][1:]]
    conversation = [{"role": "user", "content": "1+2="}]
    assert shimmed([conversation], tokenizer) == ""
    assert tokenizer(["1+2="], add_special_tokens=False)["input_ids"] == [wanted[0][1:]]

    assert shimmed(["1+2="], tokenizer) == "1 special tokens in each prompt"
    assert tokenizer(["1+2="], add_special_tokens=False)["input_ids"] == wanted
    assert type(tokenizer).__name__ == name, "it is written to tokenizer_config.json"


def test_a_prompt_that_the_assistant_has_begun_is_refused() -> None:
    from grpo_recipes.worker._shared.inputs import Refused

    prompts = [[{"role": "user", "content": "1+2="}], [{"role": "assistant", "content": "3"}]]
    with pytest.raises(Refused, match="the prompt of row 2 ends with an assistant message"):
        shimmed(prompts, None)


def test_checkpointing_rests_while_the_policy_generates(tiny_model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.shims import generation_cache

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.gradient_checkpointing_enable()
    model.train()
    seen: list[bool] = []
    forward = model.forward
    model.forward = lambda *given, **named: seen.append(checkpoints(model)) or forward(*given, **named)
    plan: Any = None
    generation_cache.on_trainer(SimpleNamespace(model=model), True, plan)

    model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, do_sample=False)

    assert seen == [False] * 2
    assert checkpoints(model)


def checkpoints(model: Any) -> bool:
    """Whether any layer would checkpoint now."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def test_logits_are_divided_by_the_temperature_except_while_the_policy_generates(tiny_model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.shims import scored_temperature

    model, ids = AutoModelForCausalLM.from_pretrained(tiny_model), torch.tensor([[5, 6, 7]])
    before = model(ids).logits
    trainer = SimpleNamespace(model=model, accelerator=SimpleNamespace(unwrap_model=lambda model: model))
    plan: Any = None
    assert scored_temperature.on_trainer(trainer, 0.5, plan) == "log-probs at temperature 0.5"

    drawn = model.generate(ids, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True)
    assert torch.allclose(drawn.logits[0], before[:, -1], atol=1e-5)
    assert torch.allclose(model(ids).logits, 2 * before)
