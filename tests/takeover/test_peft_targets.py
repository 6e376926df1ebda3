"""The modules that PEFT chooses by itself, against the installed PEFT, whose source is read and not imported."""

import ast
from importlib.metadata import distribution
from pathlib import Path

import pytest

from grpo_recipes.takeover.basis.read import table_of

pytestmark = pytest.mark.stack


def test_the_table_is_pefts_own() -> None:
    source = Path(str(distribution("peft").locate_file("peft/utils/constants.py"))).read_text(encoding="utf-8")
    tables = {
        target.id: node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    known = ast.literal_eval(tables["TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING"])
    assert {name: known[name] for name in table_of("peft_targets")} == table_of("peft_targets")
