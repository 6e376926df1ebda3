"""The shim logits_to_keep: any class builds the last logits alone, and nothing else of it changes."""

import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.stack
KEPT = 4


def _own(self: Any, ids: Any, mask: Any, past: Any, use_cache: Any) -> Any:
    """Hidden states and cache of the layers below the head."""
    out = self.model(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=use_cache)
    return out.last_hidden_state, out.past_key_values


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    """Qwen2 with forwards as code beside weights has them; each takes what generate() gives."""
    import torch
    from transformers import Qwen2ForCausalLM
    from transformers.modeling_outputs import CausalLMOutputWithPast as Output

    class WithoutTheWord(Qwen2ForCausalLM):
        def forward(self, input_ids=None, attention_mask=None, past_key_values=None, use_cache=None, return_dict=None):
            states, past = _own(self, input_ids, attention_mask, past_key_values, use_cache)
            return Output(logits=self.lm_head(states), past_key_values=past)

    class Swallowing(WithoutTheWord):
        def forward(self, input_ids=None, attention_mask=None, past_key_values=None, use_cache=None, **kwargs):
            return super().forward(input_ids, attention_mask, past_key_values, use_cache)

    class OlderWord(WithoutTheWord):
        def forward(
            self,
            input_ids=None,
            attention_mask=None,
            past_key_values=None,
            use_cache=None,
            return_dict=None,
            num_logits_to_keep=0,
        ):
            states, past = _own(self, input_ids, attention_mask, past_key_values, use_cache)
            return Output(logits=self.lm_head(states[:, -num_logits_to_keep:]), past_key_values=past)

    class HeadIsNoCall(WithoutTheWord):
        def forward(self, input_ids=None, attention_mask=None, past_key_values=None, use_cache=None, **kwargs):
            states, past = _own(self, input_ids, attention_mask, past_key_values, use_cache)
            return Output(logits=torch.nn.functional.linear(states, self.lm_head.weight), past_key_values=past)

    class SequenceFirst(WithoutTheWord):
        def forward(self, input_ids=None, attention_mask=None, past_key_values=None, use_cache=None, **kwargs):
            states, past = _own(self, input_ids, attention_mask, past_key_values, use_cache)
            return Output(logits=self.lm_head(states.transpose(0, 1)).transpose(0, 1), past_key_values=past)

    return {made.__name__: made for made in (WithoutTheWord, Swallowing, OlderWord, HeadIsNoCall, SequenceFirst)}


@pytest.fixture
def load(classes: dict[str, Any], tiny_model: Path) -> Any:
    """A function from a class' name to two models of it with the same weights: as it is, and with the shim."""
    from grpo_recipes.worker.shims.logits_to_keep import take_both_keywords

    def load(name: str) -> tuple[Any, Any]:
        plain = classes[name].from_pretrained(tiny_model)
        shimmed = copy.deepcopy(plain)
        take_both_keywords(shimmed)
        return plain, shimmed

    return load


def _batch() -> dict[str, Any]:
    """Five rows of nine tokens, two of them padded on the left."""
    import torch

    mask = torch.ones(5, 9, dtype=torch.long)
    mask[0, :3] = mask[1, :1] = 0
    ids = torch.randint(3, 41, mask.shape, generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids * mask, "attention_mask": mask}


def _rows_of_the_head(model: Any) -> list[int]:
    """Filled with the positions that the output layer computes, at each call."""
    rows: list[int] = []
    model.lm_head.register_forward_hook(lambda _, __, logits: rows.append(logits.shape[1]))
    return rows


def _gradient(model: Any, logits: Any) -> Any:
    import torch

    model.zero_grad()
    logits.log_softmax(-1).square().mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


@pytest.mark.parametrize("name", ["WithoutTheWord", "Swallowing", "OlderWord"])
def test_a_call_without_the_word_and_generate_are_as_before(load: Any, name: str) -> None:
    import torch

    plain, shimmed = load(name)
    assert inspect.signature(shimmed.forward) == inspect.signature(plain.forward)  # generate looks at it
    whole = shimmed(**_batch()).logits
    assert torch.equal(whole, plain(**_batch()).logits) and whole.shape[1] == 9
    rows = _rows_of_the_head(shimmed)
    greedy = {"do_sample": False, "max_new_tokens": 3, "min_new_tokens": 3}
    assert torch.equal(shimmed.generate(**_batch(), **greedy), plain.generate(**_batch(), **greedy))
    assert rows[1:] == [1, 1], "the cache is used as before"


@pytest.mark.parametrize("word", ["logits_to_keep", "num_logits_to_keep"])
@pytest.mark.parametrize("name", ["WithoutTheWord", "Swallowing", "OlderWord", "HeadIsNoCall", "SequenceFirst"])
def test_any_class_gives_the_last_logits_and_their_gradients(load: Any, name: str, word: str) -> None:
    import torch

    plain, shimmed = load(name)
    wanted = plain(**_batch()).logits[:, -KEPT:]
    found = shimmed(**_batch(), **{word: KEPT}).logits
    assert found.shape == (5, KEPT, 41)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(_gradient(shimmed, found), _gradient(plain, wanted), atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("name", ["WithoutTheWord", "Swallowing", "OlderWord"])
def test_the_head_computes_no_other_positions(load: Any, name: str) -> None:
    _, shimmed = load(name)
    rows = _rows_of_the_head(shimmed)
    shimmed(**_batch(), logits_to_keep=KEPT)
    shimmed(_batch()["input_ids"], num_logits_to_keep=KEPT)  # trl 0.14 passes the ids by their place
    assert rows == [KEPT, KEPT]


def test_a_failed_call_leaves_no_hook_behind(load: Any) -> None:
    _, shimmed = load("WithoutTheWord")
    with pytest.raises(TypeError, match="no_such_argument"):
        shimmed(**_batch(), logits_to_keep=KEPT, no_such_argument=1)
    assert shimmed(**_batch()).logits.shape[1] == 9


@pytest.fixture
def fresh_accelerate() -> Iterator[None]:
    """Another precision than that of the trainers before and after in this process."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("fresh_accelerate")
def test_it_holds_under_an_adapter_and_under_autocast_and_after_it(load: Any) -> None:
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model

    _, shimmed = load("Swallowing")
    adapted = get_peft_model(shimmed, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert adapted(**_batch(), logits_to_keep=KEPT).logits.shape[1] == KEPT

    _, shimmed = load("Swallowing")
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    prepared = accelerator.prepare_model(shimmed)
    assert prepared(**_batch(), logits_to_keep=KEPT).logits.shape[1] == KEPT
    unwrapped = accelerator.unwrap_model(prepared, keep_fp32_wrapper=False)
    assert unwrapped(**_batch(), logits_to_keep=KEPT).logits.shape[1] == KEPT


class _Trainer(SimpleNamespace):
    """What the shim sees of a trainer of an older release."""

    def compute_loss(self) -> None:
        """Passes neither word."""


def _older_trainer(model: Any, reference: Any = None, **attributes: Any) -> Any:
    from accelerate import Accelerator

    return _Trainer(model=model, ref_model=reference, accelerator=Accelerator(cpu=True), **attributes)


def test_a_class_that_knows_the_word_is_left_alone(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.shims import logits_to_keep

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    trainer = _older_trainer(model, model_kwarg_keys=inspect.signature(model.forward).parameters.keys())
    assert logits_to_keep.on_trainer(trainer, True, None) == ""  # type: ignore[arg-type]
    assert "forward" not in vars(model)


def test_policy_and_reference_are_reached_and_the_word_is_passed(load: Any) -> None:
    from grpo_recipes.worker.shims import logits_to_keep

    policy, _ = load("WithoutTheWord")
    reference = copy.deepcopy(policy)
    trainer = _older_trainer(policy, reference, model_kwarg_keys={"input_ids": 0}.keys())
    said = logits_to_keep.on_trainer(trainer, True, None)  # type: ignore[arg-type]
    assert said == "WithoutTheWord keeps the last hidden states for logits_to_keep"
    assert trainer.model_kwarg_keys == {"input_ids", "logits_to_keep"}
    assert [m(**_batch(), logits_to_keep=KEPT).logits.shape[1] for m in (policy, reference)] == [KEPT, KEPT]


def test_a_trainer_with_a_fused_head_is_left_alone(load: Any, tmp_path: Path) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from grpo_recipes.worker.shims import logits_to_keep

    model, _ = load("WithoutTheWord")
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[]),
        train_dataset=Dataset.from_list([{"prompt": "1+1="}]),
        processing_class=AutoTokenizer.from_pretrained(model.name_or_path),
    )
    before = trainer.model.forward
    assert logits_to_keep.on_trainer(trainer, True, None) == ""  # type: ignore[arg-type]
    assert trainer.model.forward == before
