"""The shim for cuDNN's attention. What cuDNN computes is seen on GPUs alone: stage `padded` of gpu_kit."""

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.stack


@pytest.fixture
def shim() -> Any:
    import torch

    from grpo_recipes.worker.shims import attention_gradient

    before = torch.backends.cuda.cudnn_sdp_enabled()
    yield attention_gradient
    torch.backends.cuda.enable_cudnn_sdp(before)


def applied(shim: Any) -> str:
    import torch

    said: str = shim.on_trainer(SimpleNamespace(accelerator=SimpleNamespace(device=torch.device("cpu"))), True, None)
    return said


def without_a_number(shim: Any, is_broken: Any) -> Any:
    """Attention whose queries get NaN at 64 and 192 keys, as cuDNN's do, while that is what is asked for."""
    import torch

    real = shim.scaled_dot_product_attention

    def attention(query: Any, key: Any, content: Any, attn_mask: Any) -> Any:
        made = real(query, key, content, attn_mask=attn_mask)
        if is_broken() and key.shape[-2] % 128 == 64 and not attn_mask.any(-1).all():
            made = made + 0 * query * torch.where(attn_mask.any(-1), 0.0, torch.inf)[:, None]
        return made

    return attention


def test_nothing_is_done_where_the_gradient_is_finite(shim: Any) -> None:
    import torch

    assert applied(shim) == "nothing: the gradient of attention is finite on this device"
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_cudnn_is_left_out_where_its_gradient_is_not_finite(shim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    broken = without_a_number(shim, torch.backends.cuda.cudnn_sdp_enabled)
    monkeypatch.setattr(shim, "scaled_dot_product_attention", broken)
    assert applied(shim) == "cuDNN's attention is off"
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_it_says_so_if_that_does_not_help(shim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = without_a_number(shim, lambda: True)
    monkeypatch.setattr(shim, "scaled_dot_product_attention", broken)
    assert applied(shim).endswith("not finite on this device, with and without cuDNN")
