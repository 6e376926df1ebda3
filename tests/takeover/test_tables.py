"""The tables that decide what a key becomes: their cases are whole, and lead to keys of a recipe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from taken import BASE, as_yaml, recipe_of, row, taken

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.takeover.basis.draft import CONVERSIONS, cases_of
from grpo_recipes.takeover.basis.read import table_of

PARTS = {
    "trl": ("trl", "open_r1", "generation_kwargs", "model_init_kwargs"),
    "axolotl": ("answers", "in_trl", "vllm"),
    "accelerate": ("answers", "fsdp"),
    "deepspeed": ("homes",),
}
WORDS = {"is", "not", "asked", "in", "declared", "unless", "fate", "home", "value", "as", "because", "at"}
OF_FSDP = {"version", "words"}


def _entries() -> Iterator[tuple[str, str, Any]]:
    for table, parts in PARTS.items():
        for part in parts:
            yield from ((table, name, entry) for name, entry in table_of(table)[part].items())


def _is_known(home: str) -> bool:
    own = {f"trl.{name}" for name in classified_fields()} | {"trl.use_liger_kernel", "trl.vllm_device"}
    own |= {"trl.vllm_dtype", "trl.vllm_enable_prefix_caching"}
    return home in recipe_keys() or home in own or home.startswith("launch.environment.")


@pytest.mark.parametrize("table", PARTS)
def test_a_case_has_a_reason_or_a_home_that_a_recipe_has(table: str) -> None:
    cases = [(name, case) for of, name, entry in _entries() if of == table for case in cases_of(entry)]
    for name, case in cases:
        assert set(case) <= WORDS | OF_FSDP, name
        assert case.get("fate", "refused") in ("mapped", "emulated", "refused"), name
        assert case.get("as", "") in CONVERSIONS, name
        assert case.get("because") or "home" in case or case.get("fate") == "mapped", name
        assert "home" not in case or _is_known(case["home"]), (name, case["home"])


def test_only_a_field_of_grpo_config_may_have_no_case_that_always_holds() -> None:
    conditions = {"is", "not", "asked", "in"}
    left = [name for _, name, entry in _entries() if conditions & set(cases_of(entry)[-1])]
    assert [name for name in left if name not in {*classified_fields(), "max_prompt_length"}] == []


@pytest.mark.parametrize(
    "name", [name for name in table_of("trl")["trl"] if "unless" in str(table_of("trl")["trl"][name])]
)
def test_a_value_for_what_is_done_anyway_changes_no_recipe(name: str, tmp_path: Path) -> None:
    case = cases_of(table_of("trl")["trl"][name])[-1]
    one = taken(tmp_path, as_yaml(**{name: case["unless"][0]}))
    assert row(one, name).fate == "mapped"
    assert recipe_of(one) == recipe_of(taken(tmp_path, BASE))
