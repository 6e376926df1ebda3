"""A stranger's chat template and adapter are refused by name, within seconds."""

import functools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.tiny_models import write_tiny_model

from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data import limits
from grpo_recipes.worker.user_code.reward_call import explain_template

pytestmark = pytest.mark.stack

MESSAGES = [{"role": "user", "content": "1+1="}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("received") / "model")


def processing(model: Path, template: str) -> Any:
    from transformers import AutoTokenizer

    found = AutoTokenizer.from_pretrained(model)
    found.chat_template = template
    return found


@pytest.mark.parametrize(
    "template", ["{{ messages[0].content }}", "{{ raise_exception('no') }}", "{{ none + 1 }}", None]
)
def test_a_template_that_ends_is_left_to_its_use(template: str, model: Path) -> None:
    from grpo_recipes.worker.data.templates import refuse_endless_template

    refuse_endless_template(processing(model, template))
    refuse_endless_template(processing(model, template), ["1+1=", MESSAGES], {"chat_template_kwargs": {"level": 1}})


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}" * 3 + "x" + "{% endfor %}" * 3,
        "{{ 'x' * 2000000000 }}",
        "{% set long = 'x' * 2000000000 %}{{ long | length }}",
    ],
)
def test_a_template_without_end_is_refused_soon(template: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.worker.data import templates
    from grpo_recipes.worker.data.templates import refuse_endless_template

    assert limits.SECONDS <= 2
    monkeypatch.setattr(templates, "limit_block", functools.partial(limits.limit_block, 0.2))
    began = time.monotonic()
    with pytest.raises(Refused, match="the chat template cannot render a prompt") as refused:
        refuse_endless_template(processing(model, template))
    assert any(words in str(refused.value) for words in ("it takes too long", "it needs more than 512 MiB of memory"))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('roles must alternate') }}", "TemplateError: roles must alternate"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ messages[0].nothing.more }}", "UndefinedError"),
        ("{% for %}", "TemplateSyntaxError"),
    ],
)
def test_an_error_of_a_template_is_explained(template: str, says: str, model: Path) -> None:
    with pytest.raises(Exception, match=r".") as raised:
        processing(model, template).apply_chat_template(MESSAGES)
    explained = explain_template(raised.value)
    assert explained is not None
    assert str(explained).startswith("the chat template rejects a prompt")
    assert says in str(explained)


def test_an_error_of_something_else_is_not_explained() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        print(1 // 0)
    assert explain_template(raised.value) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"init_lora_weights": "pissa_niter_999999"}, "init_lora_weights asks for 999,999 iterations"),
        ({"loftq_config": {"loftq_iter": 10**6}}, "init_lora_weights asks for 1,000,000 iterations"),
        ({"layer_replication": [[0, 2]] * 50_000}, "layer_replication asks for 100,000 layers"),
        ({"r": 10**9}, "r asks for 1,000,000,000 ranks"),
        ({"rank_pattern": {"q_proj": 10**9}}, "r asks for 1,000,000,000 ranks"),
        ({"r": "many"}, "cannot be loaded"),
        ({"r": 4}, "cannot be loaded"),
        ({"peft_type": "NONE"}, "cannot be loaded"),
        ({"target_modules": ["nothing"]}, "cannot be loaded"),
        ({"layer_replication": 7}, "cannot be loaded"),
        (None, "cannot be loaded"),
    ],
    ids=str,
)
def test_an_adapter_that_costs_hours_or_does_not_fit_is_refused(
    changes: dict[str, Any] | None, says: str, model: Path, tmp_path: Path
) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.model.adapters import CONFIG, with_adapter

    def base() -> Any:
        return AutoModelForCausalLM.from_pretrained(model)

    get_peft_model(base(), LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    assert with_adapter(base(), tmp_path / "adapter").peft_config
    config = json.loads((tmp_path / "adapter" / CONFIG).read_text())
    (tmp_path / "adapter" / CONFIG).write_text(json.dumps([] if changes is None else {**config, **changes}))
    with pytest.raises(Refused, match=says) as refused:
        with_adapter(base(), tmp_path / "adapter")
    assert str(tmp_path / "adapter") in str(refused.value)
