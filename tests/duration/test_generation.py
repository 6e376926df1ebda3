"""What goes through memory for a new token, by hand, and in which type a model generates."""

from collections.abc import Iterator

import pytest

from grpo_recipes.duration.generation import cache_traffic, weight_traffic
from grpo_recipes.memory.update import Adapter, FourBits, Update
from grpo_recipes.user_files.architecture import Architecture, Experts

SMALL = Architecture(256, 512, 2, 4096, 4, 2, 64, True, False, False, False, False, None)
LINEAR = 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512)
OUTPUT = 4096 * 256
PLAIN = Update(2, None, None, None, False, "sdpa", 1, 100, 40, 1, "adamw_torch", "fused", is_padded=False)
ADAPTER = Adapter(8, ("q_proj",), width=4)


@pytest.mark.parametrize(
    ("update", "sequences", "size"),
    [
        pytest.param(PLAIN, 8, 2 * (LINEAR + OUTPUT), id="16 bits"),
        pytest.param(PLAIN._replace(weight_width=4), 8, 4 * (LINEAR + OUTPUT), id="float32"),
        pytest.param(
            PLAIN._replace(weight_width=4, autocast_width=2),
            8,
            8 * (LINEAR + OUTPUT),
            id="cast: read, written and read",
        ),
        pytest.param(
            PLAIN._replace(weight_width=4, autocast_width=2, adapter=ADAPTER),
            8,
            4 * (LINEAR + OUTPUT) + 4 * 2 * 8 * (256 + 256),
            id="nothing casts the weights beside an adapter",
        ),
        pytest.param(
            PLAIN._replace(four_bits=FourBits(2, True)), 8, 4.5 * LINEAR + 2 * OUTPUT, id="four bits, unpacked"
        ),
        pytest.param(
            PLAIN._replace(four_bits=FourBits(2, True)), 1, 0.5 * LINEAR + 2 * OUTPUT, id="four bits of one sequence"
        ),
    ],
)
def test_weights(update: Update, sequences: int, size: float) -> None:
    assert weight_traffic(SMALL, update, sequences) == size


@pytest.mark.parametrize(("sequences", "read"), [(1, 2), (3, 6), (8, 8), (500, 8)])
def test_experts_that_no_sequence_goes_to_are_not_read(sequences: int, read: int) -> None:
    routed = SMALL._replace(experts=Experts(number=8, per_token=2, intermediate=64))
    attention = 2 * (2 * 256 * 256 + 2 * 256 * 128)
    experts = 2 * read * 3 * 64 * 256
    assert weight_traffic(routed, PLAIN, sequences) == 2 * (attention + experts + OUTPUT)


@pytest.mark.parametrize(
    ("update", "passes"),
    [
        pytest.param(PLAIN, 3, id="copied, and read"),
        pytest.param(PLAIN._replace(is_padded=True), 3 + 2 * 2, id="two heads share a key, and a mask parts them"),
        pytest.param(PLAIN._replace(is_padded=True, attention="flash_attention_2"), 3, id="a kernel that knows groups"),
    ],
)
def test_keys_and_values(update: Update, passes: int) -> None:
    one_token = 2 * 2 * 2 * 64 * 2
    assert cache_traffic(SMALL, update, 5) == passes * 5 * (100 + 40 / 2) * one_token


@pytest.fixture
def no_accelerator() -> Iterator[None]:
    """Forgets the accelerator of a test, which a process has one of."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.stack
@pytest.mark.parametrize(("has_adapter", "dtype"), [(False, "bfloat16"), (True, "float32")])
@pytest.mark.usefixtures("no_accelerator")
def test_mixed_precision_is_that_of_the_whole_model_alone(has_adapter: bool, dtype: str) -> None:
    """PEFT's generate calls the model within, which accelerate has not wrapped."""
    import torch
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl.models import unwrap_model_for_generation

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 64}
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=1))
    if has_adapter:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    seen = set()
    for name, module in model.named_modules():
        if name.endswith("down_proj"):
            module.register_forward_hook(lambda _module, _given, made: seen.add(made.dtype))
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    prepared = accelerator.prepare_model(model)
    with unwrap_model_for_generation(prepared, accelerator) as unwrapped, torch.no_grad():
        unwrapped.generate(input_ids=torch.ones(1, 3, dtype=torch.long), max_new_tokens=2)
    assert seen == {getattr(torch, dtype)}
