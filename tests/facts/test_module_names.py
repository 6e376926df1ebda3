"""The names of modules are those of the real models, and are found as PEFT finds them."""

import pytest
from model_modules import OF_ALL_RELEASES, SINCE_5, modules_of
from support.releases import TRANSFORMERS

from grpo_recipes.contract.patterns import ask
from grpo_recipes.facts.module_names import ModuleNames, module_names, names_matching
from grpo_recipes.facts.released.shipped import table

QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 3}
ROWS = {name: row for row in table("module_names")["structures"] for name in row["classes"]}


def _names(config: dict[str, object], transformers: str | None = TRANSFORMERS) -> ModuleNames:
    names = module_names(config, transformers)
    assert names is not None
    return names


def test_a_model_outside_of_the_table_has_no_names() -> None:
    assert module_names({"architectures": ["OwnForCausalLM"], "num_hidden_layers": 3}, TRANSFORMERS) is None
    assert module_names({"architectures": ["Qwen2ForCausalLM"]}, TRANSFORMERS) is None
    assert module_names({}, TRANSFORMERS) is None


def test_a_model_that_was_rebuilt_has_names_in_the_new_release_alone() -> None:
    config: dict[str, object] = {"architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 2}
    assert module_names(config, TRANSFORMERS) is not None
    assert module_names(config, "4.57.6") is None
    assert module_names(config, None) is None
    assert module_names(QWEN2, None) is not None


def test_every_block_has_its_number() -> None:
    names = _names(QWEN2)
    assert [name for name in names.linear if name.endswith("q_proj")] == [
        f"model.layers.{n}.self_attn.q_proj" for n in range(3)
    ]
    assert names.embedding == ("model.embed_tokens",)
    assert "lm_head" in names.linear
    assert _names({"architectures": ["GPT2LMHeadModel"], "n_layer": 2}).number == 2


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("q_proj", 3),
        ("self_attn.q_proj", 3),
        ("model.layers.1.self_attn.q_proj", 1),
        ("layers.1.self_attn.q_proj", 1),
        ("layers.3.self_attn.q_proj", 0),
        ("proj", 0),
        ("q_prj", 0),
        ("lm_head", 1),
    ],
)
def test_an_entry_finds_whole_names_and_their_ends(target: str, count: int) -> None:
    assert len(names_matching(target, _names(QWEN2).linear)) == count


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r".*\.(q|v)_proj", True),
        (r"model\.layers\.2\..*_proj", True),
        ("q_proj", False),
        (r"(a+)+\.q_proj", False),
        (r".*.*.*.*q", False),
    ],
)
@pytest.mark.processes
def test_a_pattern_matches_whole_names(pattern: str, found: bool) -> None:
    assert any(ask((pattern,), _names(QWEN2).linear)[0].finds) is found


def test_classes_with_names_are_those_that_are_read() -> None:
    assert set(ROWS) == {*OF_ALL_RELEASES, *SINCE_5}


@pytest.mark.stack
@pytest.mark.parametrize("model_class", [*OF_ALL_RELEASES, *SINCE_5])
def test_names_are_those_of_the_model(model_class: str) -> None:
    read = modules_of(model_class)
    row = ROWS[model_class]
    texts = {key: value if isinstance(value, str) else " ".join(value) for key, value in read.items()}
    assert {key: row.get(key, "") for key in texts} == texts
