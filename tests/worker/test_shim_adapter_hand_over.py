"""The shim `adapter_hand_over` in TRL's own hand-over: what vLLM gets, and that the weights below stay as they are."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.stack

CYCLES, FEW = 120, 20
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS: dict[str, dict[str, Any]] = {
    "lora": {"target_modules": ALL},
    "with trained copies": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "dora": {"target_modules": ALL, "use_dora": True},
    "with biases": {"target_modules": ["q_proj", "v_proj"], "lora_bias": True},
    "embeddings": {"target_modules": ["embed_tokens", "q_proj"]},
    "parameters": {"target_modules": [], "target_parameters": ["q_proj.weight", "up_proj.weight"]},
}


@pytest.fixture(scope="module")
def adapted(tiny_model: Path) -> Callable[..., Any]:
    """The tiny model in bfloat16 under an adapter that changes it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    def make(**adapter: Any) -> Any:
        torch.manual_seed(0)
        base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16, tie_word_embeddings=False)
        model = get_peft_model(base, LoraConfig(r=4, **adapter))
        for name, parameter in model.named_parameters():
            if "lora_" in name and "magnitude" not in name:
                torch.nn.init.normal_(parameter, std=0.05)
        return model

    return make


def hand_over(model: Any) -> Callable[[], dict[str, Any]]:
    """TRL's own, to an engine that keeps a copy of what it is given."""
    import torch
    from accelerate import Accelerator
    from trl.distributed import DistributedBackend
    from trl.generation.vllm_generation import VLLMGeneration

    got: dict[str, Any] = {}

    def load_weights(weights: list[tuple[str, Any]]) -> None:
        got.update((name, torch.clone(weight.detach())) for name, weight in weights)

    runner = SimpleNamespace(model_runner=SimpleNamespace(model=SimpleNamespace(load_weights=load_weights)))
    engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))
    generation: Any = VLLMGeneration.__new__(VLLMGeneration)
    generation.model, generation.mode, generation.enable_sleep_mode = model, "colocate", False
    generation.accelerator = Accelerator(cpu=True)
    generation._dist = DistributedBackend(generation.accelerator)
    generation.llm = SimpleNamespace(llm_engine=engine, reset_prefix_cache=lambda: None)

    def hand() -> dict[str, Any]:
        got.clear()
        generation.sync_weights()
        return dict(got)

    return hand


def shimmed(model: Any) -> Any:
    from grpo_recipes.worker.shims import adapter_hand_over

    said = adapter_hand_over.on_trainer(SimpleNamespace(model=model), True, None)  # type: ignore[arg-type]
    assert said.endswith("weights are merged into copies")
    return model


def state(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model: Any, before: dict[str, Any]) -> set[str]:
    import torch

    after = model.state_dict()
    assert list(after) == list(before)
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=list(ADAPTERS))
def test_vllm_gets_what_trl_hands_over_first_bit_for_bit(adapter: dict[str, Any], adapted: Callable[..., Any]) -> None:
    import torch

    ours = hand_over(shimmed(adapted(**adapter)))()
    theirs = hand_over(adapted(**adapter))()
    assert list(ours) == list(theirs)
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=list(ADAPTERS))
def test_hundreds_of_hand_overs_move_nothing(adapter: dict[str, Any], adapted: Callable[..., Any]) -> None:
    model = shimmed(adapted(**adapter))
    before, hand = state(model), hand_over(model)
    first = hand()
    for _ in range(CYCLES - 1 if adapter is ADAPTERS["lora"] else FEW):
        last = hand()
    assert changed(model, before) == set()
    assert all((first[name] == last[name]).all() for name in first)


def test_as_released_every_hand_over_moves_the_weights(adapted: Callable[..., Any]) -> None:
    model = adapted(**ADAPTERS["lora"])
    before, hand = state(model), hand_over(model)
    for _ in range(CYCLES):
        hand()
    moved = changed(model, before)
    assert len(moved) == 14 and all(name.endswith("base_layer.weight") for name in moved), "the shim can go"


def test_the_model_trains_and_is_saved_as_before(adapted: Callable[..., Any], tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    model, plain = shimmed(adapted(**ADAPTERS["dora"])), adapted(**ADAPTERS["dora"])
    hand_over(model)()
    ids = torch.arange(12).reshape(2, 6)
    for one in (model, plain):
        one(input_ids=ids, labels=ids).loss.backward()
        one.save_pretrained(tmp_path / str(one is model))
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        assert ours.grad is None or torch.equal(ours.grad, theirs.grad)
    saved = [load_file(tmp_path / str(one) / "adapter_model.safetensors") for one in (True, False)]
    assert saved[0].keys() == saved[1].keys()


def test_one_module_is_copied_at_a_time(adapted: Callable[..., Any]) -> None:
    import weakref

    model = shimmed(adapted(**ADAPTERS["lora"]))
    own = {id(parameter) for parameter in model.parameters()}
    model.merge_adapter()
    copies: list[Any] = []
    most = 0
    for _, parameter in model.named_parameters():
        if id(parameter) not in own:
            copies.append(weakref.ref(parameter))
        most = max(most, sum(copy() is not None for copy in copies))
    model.unmerge_adapter()
    assert len(copies) == 14 + 6 and most <= 2  # a bias is copied with its weight


def test_a_hand_over_that_breaks_off_leaves_the_weights(adapted: Callable[..., Any]) -> None:
    model = shimmed(adapted(**ADAPTERS["lora"]))
    before = state(model)
    model.merge_adapter()
    next(iter(model.named_parameters()))
    model.unmerge_adapter()
    assert changed(model, before) == set()


def test_a_model_without_an_adapter_is_left_alone() -> None:
    import torch

    from grpo_recipes.worker.shims import adapter_hand_over

    model = torch.nn.Linear(2, 2)
    assert adapter_hand_over.on_trainer(SimpleNamespace(model=model), True, None) == ""  # type: ignore[arg-type]
    assert "named_parameters" not in vars(model) and not hasattr(model, "merge_adapter")
