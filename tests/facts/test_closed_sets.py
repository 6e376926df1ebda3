"""A field has a closed set only where the package's own source refuses every other value."""

import ast
from pathlib import Path

import pytest
from source_trees import PEFT, TRANSFORMERS, TRL, write_package

from grpo_recipes.facts.source.field import plain_annotation
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read_package import read_package, values_by_refusal, values_of_annotation


@pytest.mark.parametrize(
    ("files", "owner", "name", "expected"),
    [
        pytest.param(TRL, "GRPOConfig", "beta", None, id="number"),
        pytest.param(TRL, "GRPOConfig", "cache_implementation", None, id="chain-that-asks-for-something-else"),
        pytest.param(TRL, "GRPOConfig", "level", None, id="refused-only-with-another-field"),
        pytest.param(PEFT, "LoraConfig", "init_lora_weights", None, id="literal-that-is-a-pattern"),
        pytest.param(TRANSFORMERS, "TrainingArguments", "output_dir", None, id="conversion-to-another-type"),
        pytest.param(TRL, "GRPOConfig", "loss_type", ("cispo", "grpo", "dapo"), id="what-both-chains-accept"),
        pytest.param(TRL, "GRPOConfig", "scale_rewards", ("group", "none", "batch", True, False), id="with-a-mapping"),
        pytest.param(TRL, "GRPOConfig", "vllm_mode", ("server", "colocate"), id="refused-by-an-engine"),
        pytest.param(TRANSFORMERS, "TrainingArguments", "eval_strategy", ("no", "steps"), id="enumeration"),
        pytest.param(TRANSFORMERS, "BitsAndBytesConfig", "storage", ("uint8", "bfloat16", None), id="not-in-raises"),
        pytest.param(TRANSFORMERS, "BitsAndBytesConfig", "bnb_4bit_quant_type", ("fp4", "nf4"), id="compared"),
        pytest.param(PEFT, "LoraConfig", "bias", ("none", "all", "lora_only"), id="literal"),
    ],
)
def test_allowed_values_are_what_the_source_accepts(
    tmp_path: Path, files: dict[str, str], owner: str, name: str, expected: tuple[object, ...] | None
) -> None:
    package = write_package(tmp_path, files)
    facts = read_package(PackageSource(package.name, package), "1.0")
    assert facts is not None
    assert facts.owners[owner].fields[name].allowed == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("if a == 'x':\n  pass\nelse:\n  pass", {}, id="else-does-not-raise"),
        pytest.param("if a == 'x' and b:\n  pass\nelse:\n  raise E", {}, id="another-condition"),
        pytest.param("if a == other:\n  pass\nelse:\n  raise E", {}, id="compared-with-a-name"),
        pytest.param("if b:\n  if a not in ['x']:\n    raise E", {}, id="not-in-under-another-condition"),
        pytest.param("if a != 'x':\n  raise E", {}, id="not-equal"),
        pytest.param("if a in ('x',):\n  pass\nelse:\n  raise E", {"a": ("x",)}, id="one-branch"),
        pytest.param("if a not in {'x'}:\n  raise E", {"a": ("x",)}, id="not-in"),
        pytest.param("with y:\n  if a is None:\n    pass\n  else:\n    raise E", {"a": (None,)}, id="none"),
    ],
)
def test_a_refusal_closes_a_field_only_when_it_speaks_of_that_field_alone(
    code: str, expected: dict[str, tuple[object, ...]]
) -> None:
    assert values_by_refusal(ast.parse(code), {"a": "a", "b": "b"}) == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param("str | None", None, id="open"),
        pytest.param("bool", None, id="bool-alone"),
        pytest.param("str | Literal[False]", None, id="str-too"),
        pytest.param("list[Literal['a']]", None, id="list-of-literals"),
        pytest.param("'not python'", None, id="not-an-expression"),
        pytest.param("Literal['a', 'b']", ("a", "b"), id="literal"),
        pytest.param("Optional[Literal['a']]", ("a", None), id="optional"),
        pytest.param("Union[bool, typing.Literal['a']]", (True, False, "a"), id="union"),
        pytest.param("'Literal[1] | None'", (1, None), id="in-quotes"),
    ],
)
def test_an_annotation_closes_a_field_only_when_every_member_is_a_constant(
    annotation: str, expected: tuple[object, ...] | None
) -> None:
    assert values_of_annotation(plain_annotation(ast.parse(annotation, mode="eval").body)) == expected
