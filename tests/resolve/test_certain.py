"""A fix is certain where it keeps every value that the user wrote; all else is a suggestion."""

from pathlib import Path as Path_

import pytest

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.resolve.fixes.certain import is_certain, is_same_name
from grpo_recipes.resolve.fixes.fixes import is_safe
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.resolve.written_numbers import number_of_text
from grpo_recipes.stack.target import parse_target

VALUES = {
    "num_generation": 8,
    "training": {"lr": 1e-5, "prompts_per_step": "16", "max_steps": 5.0, "bf16": "yes"},
    "grpo": {"beta": 0.1, "loss_type": "DAPO", "dapoo": "x"},
    "rewards": "accuracy",
    "lora": {"target_modules": "q_proj"},
}


def moved(old: Path, new: Path, value: object) -> list[Patch]:
    return [Patch(old, remove=True), Patch(new, value)]


NOT_CERTAIN = [
    pytest.param([Patch(("grpo", "beta"), remove=True)], id="a value goes"),
    pytest.param([Patch(("training", "prompts_per_step"), 32)], id="a value becomes another"),
    pytest.param([Patch(("grpo", "loss_type"), "grpo")], id="a word becomes another"),
    pytest.param([Patch(("lora", "r"), 16)], id="a value is invented"),
    pytest.param([Patch(("lora", "target_modules"), ["q_proj", "v_proj"])], id="a list grows"),
    pytest.param(moved(("training", "lr"), ("training", "learning_rate"), 1e-5), id="a name that is only like another"),
    pytest.param(moved(("grpo", "dapoo"), ("grpo", "beta"), "x"), id="a move onto another value"),
    pytest.param(moved(("grpo", "beta"), ("trl", "beta"), 0.2), id="a move that changes the value"),
    pytest.param(moved(("trl", "beta"), ("grpo", "epsilon"), 0.2), id="a move of what is not there"),
    pytest.param(moved(("lora", "target_modules"), ("trl", "target_modules"), "q_proj"), id="out of an adapter"),
    pytest.param(moved(("grpo", "beta"), ("evaluation", "beta"), 0.1), id="into an evaluation"),
    pytest.param([], id="nothing at all"),
]
CERTAIN = [
    pytest.param(moved(("num_generation",), ("grpo", "num_generations"), 8), id="a slip in a long name"),
    pytest.param(moved(("grpo", "beta"), ("trl", "beta"), 0.1), id="the same name elsewhere"),
    pytest.param([Patch(("training", "prompts_per_step"), 16)], id="a number in quotes"),
    pytest.param([Patch(("training", "max_steps"), 5)], id="a whole number with a point"),
    pytest.param([Patch(("training", "bf16"), True)], id="a word for true"),
    pytest.param([Patch(("grpo", "loss_type"), "dapo")], id="a word in capitals"),
    pytest.param([Patch(("rewards",), [{"name": "accuracy"}])], id="a name where a list of sections belongs"),
    pytest.param([Patch(("lora", "target_modules"), ["q_proj"])], id="one where a list belongs"),
]


@pytest.mark.parametrize("patches", NOT_CERTAIN)
def test_what_loses_replaces_or_invents_is_not_certain(patches: list[Patch]) -> None:
    assert not is_certain(patches, VALUES, is_known_name=False)


@pytest.mark.parametrize("patches", CERTAIN)
def test_what_keeps_every_value_is_certain(patches: list[Patch]) -> None:
    assert is_certain(patches, VALUES, is_known_name=False)


def test_another_programs_name_for_a_key_is_certain_where_it_is_known() -> None:
    assert is_certain(moved(("training", "lr"), ("training", "learning_rate"), 1e-5), VALUES, is_known_name=True)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("rl", "trl", False),
        ("epsilon_low", "epsilon", False),
        ("adam_beta1", "adam_beta2", False),
        ("num_generation", "num_generations", True),
        ("learning_rtae", "learning_rate", True),
        ("Learning-Rate", "learning_rate", True),
        ("max_step", "max_steps", True),
        ("num_iterations", "num_generations", False),
    ],
)
def test_a_name_is_another_one_with_a_slip_in_it(one: str, other: str, same: bool) -> None:
    assert is_same_name(one, other) is is_same_name(other, one) is same


NUMBERS = [
    ("100,0", None, (100, 1000)),
    ("8,0", None, (8, 80)),
    ("'8,0'", None, (8, 80)),
    ("1.000", None, (1, 1000)),
    ("'1.000'", None, (1, 1000)),
    ("'16'", 16, ()),
    ("5.0", 5, ()),
    ("1e3", 1000, ()),
    ("'1e3'", 1000, ()),
    ("1,000", 1000, ()),
    ("12,345,678", 12345678, ()),
    ("'010'", None, ()),
    ("1,5", None, ()),
    ("0,001", None, ()),
]
SUGGESTED = [("1 000", 1000), ("1'000", 1000), ("1.000.000", 1000000), ("10k", 10000), ("1_000", 1000)]


def values_of(resolution: Resolution) -> dict[str, object]:
    assert resolution.context is not None
    return resolution.context.source.values


def steps_finding(tmp_path: Path_, written: str) -> tuple[Finding, Resolution]:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "recipe: 1\nname: case\nmodel: {model_name_or_path: owner/model}\ndataset: {path: owner/data}\n"
        f"rewards: [{{name: exact_match}}]\ntraining:\n  prompts_per_step: 4\n  max_steps: {written}\n"
    )
    resolution = resolve(str(recipe), parse_target("tested")[0])
    return next(one for one in resolution.findings if one.key == "training.max_steps"), resolution


@pytest.mark.parametrize(("written", "value", "meanings"), NUMBERS, ids=lambda one: str(one))
def test_a_number_of_one_meaning_alone_is_a_certain_fix(
    tmp_path: Path_, written: str, value: int | None, meanings: tuple[int, ...]
) -> None:
    finding, resolution = steps_finding(tmp_path, written)
    assert [patch.value for patch in finding.patch] == ([] if value is None else [value])
    assert is_safe(finding, resolution, values_of(resolution)) is (value is not None)
    assert all(str(one) in str(finding.fix) for one in meanings)
    assert ("in quotes it is text" in finding.because) is (value is not None and written.startswith("'"))


@pytest.mark.parametrize(("written", "value"), [("0,001", 0.001), ("10,001", None), ("1e-400", None), ("0.0", 0.0)])
def test_a_number_is_read_where_it_has_one_meaning(written: str, value: float | None) -> None:
    assert number_of_text(written, ["a number"]) == value


@pytest.mark.parametrize("written", ["1,5", "0,001", "12,25"])
def test_a_number_that_is_no_whole_one_gives_no_whole_one(tmp_path: Path_, written: str) -> None:
    assert steps_finding(tmp_path, written)[0].fix is None


@pytest.mark.parametrize(("written", "value"), SUGGESTED, ids=lambda one: str(one))
def test_a_number_in_another_countrys_hand_is_a_suggestion(tmp_path: Path_, written: str, value: int) -> None:
    finding, resolution = steps_finding(tmp_path, written)
    assert [patch.value for patch in finding.patch] == [value]
    assert not is_safe(finding, resolution, values_of(resolution))
