"""Of a model whose files are not here, each rule that a written key asks says that it was not checked."""

from pathlib import Path
from typing import Any

import pytest
from rule_cases import BASE_RECIPE, declared, laid_over, resolved

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve.engine import applies
from grpo_recipes.rules import conversations_have_a_chat_template as templates
from grpo_recipes.rules._shared import loaded_model
from grpo_recipes.rules._shared.context import NotJudged
from grpo_recipes.rules.catalog import Rule, rules

# Rules that read the files of any model, whatever the recipe says: of an unknown one each recipe would name them all.
OF_EVERY_RECIPE = {
    "DAT005": "asks whether the data has pictures",
    "DAT006": "looks at the template for a role that is already in doubt",
    "GEN009": "the context is the model's own unless vllm_max_model_length is written",
    "GEN013": "asks for no key",
    "LRA011": "asks whether the model has fused experts; LRA003 says that the names are not checked",
    "LRN001": "knows the rates of all models, and more of wide ones",
    "MDL003": "asks whether the model is one of pictures",
    "MDL004": "asks whether the model is one of pictures",
    "MDL005": "asks whether the class of the model lies beside it",
    "MDL009": "asks whether the class of the model generates text; hardly one does not",
    "MDL011": "asks for the type of the model; nearly all are in the planned release",
    "MEM001": "`plan` and `fit` say that nothing of the model is here",
    "QNT004": "asks whether the checkpoint is quantized; hardly one is that a section quantization is written for",
    "STK010": "asks whether the model is one of pictures",
    "TOK002": "asks whether the model has a template; nearly all that are trained on messages have",
    "VLL001": "asks whether a share that is mostly decided holds the model",
}
LORA = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "layers_to_transform": [0]}
RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "template": {
        "dataset": {"prompt_format": "conversational"},
        "generation": {"chat_template_kwargs": {"enable_thinking": True}, "stop_token_ids": [151645]},
        "tools": [{"python": "t.py:add"}],
    },
    "adapter": {"lora": LORA, "quantization": {"load_in_4bit": True}, "trl": {"router_aux_loss_coef": 0.1}},
    "weights": {"trl": {"cast_lm_head_to_fp32": True}},
    "vllm": {
        "generation": {"use_vllm": True, "vllm_tensor_parallel_size": 2, "vllm_max_model_length": 4096},
        "launch": {"num_processes": 2},
    },
}
TOOL = """
def add(a: int) -> int:
    \"\"\"Adds one.

    Args:
        a: the number
    \"\"\"
    return a + 1
"""
STACKS = {"vllm": {"vllm": "0.28.0", "gpus": "2xH100-80GB"}, "template": {"jmespath": "1.0.1"}}


def _asked(rule: Rule, context: Any, asks: list[str]) -> list[Finding] | None:
    """What a rule finds, None if it asks for no file of the model."""
    asks.clear()
    try:
        found = list(rule.check(context)) if rule.check is not None and applies(rule, context.stack) else []
    except NotJudged:
        return None
    return found if asks else None


@pytest.mark.parametrize("name", RECIPES)
def test_a_rule_that_asks_for_an_unknown_model_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.py").write_text(TOOL, encoding="utf-8")
    context = resolved(laid_over(BASE_RECIPE, RECIPES[name]), declared(STACKS.get(name)), tmp_path).context
    assert context is not None
    asks: list[str] = []
    monkeypatch.setattr(loaded_model, "_config", lambda *_: asks.append("config"))
    monkeypatch.setattr(templates, "chat_template_of", lambda *_: asks.append("template"))
    found = {rule.id: findings for rule in rules() if (findings := _asked(rule, context, asks)) is not None}
    silent = {rule for rule, findings in found.items() if not findings}
    assert silent - OF_EVERY_RECIPE.keys() == set()
    if name != "plain":
        assert [
            f for findings in found.values() for f in findings if f.severity == "not-checked" and not f.because
        ] == []
        assert any(f.severity == "not-checked" for findings in found.values() for f in findings)
