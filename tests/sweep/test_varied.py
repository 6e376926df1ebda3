"""What --vary says, and which settings come of it."""

import math

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.sweep.sweep_file import SAFE_NAME, run_names, setting_text
from grpo_recipes.sweep.variations import read_varied, trials_of
from grpo_recipes.yaml.merge import read_override


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("training.learning_rate=1e-5,3e-5", ("1e-5", "3e-5")),
        ("lora=null,{r: 8, lora_alpha: 16}", ("null", "{r: 8, lora_alpha: 16}")),
        ("lora.target_modules=[q_proj,v_proj],all-linear", ("[q_proj,v_proj]", "all-linear")),
        ("name='a,b',\"c,]\"", ("'a,b'", '"c,]"')),
        ("name=it's, one", ("it's", "one")),
    ],
)
def test_values_stand_between_commas(text: str, values: tuple[str, ...]) -> None:
    assert read_varied(text).texts == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("training.learning_rate", "cannot be read"),
        ("=1,2", "cannot be read"),
        ("training.learning_rate=1e-5", "there is only one value"),
        ("training.learning_rate=1e-5,1e-5", "1e-5 is listed twice"),
        ("training.learning_rate=1e-5,", "cannot be read"),
        ("training.learning_rate=1e-5,,2e-5", "cannot be read"),
        ("grpo.beta=[1,2", "cannot be read"),
        ("seed=1,2", "a separate option"),
        ("extends=a.yaml,b.yaml", "cannot be read"),
        ("grpo.beta=log:0..1", "above 0"),
        ("grpo.beta=uniform:1..0", "below the second"),
        ("grpo.beta=uniform:0..inf", "below the second"),
        ("grpo.beta=uniform:low..high", "not numbers"),
        ("lora.r=int:1..2.5", "not whole numbers"),
    ],
)
def test_what_cannot_be_varied_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        read_varied(text)


def test_lists_between_commas_are_values() -> None:
    assert read_varied("lora.target_modules=[q_proj,v_proj],[k_proj]").texts == ("[q_proj,v_proj]", "[k_proj]")


def test_all_combinations_are_tried_and_the_last_key_changes_fastest() -> None:
    varied = [read_varied("a.x=1,2"), read_varied("b.y=3,4")]
    assert [dict(trial) for trial in trials_of(varied, None, 0)] == [
        {"a.x": "1", "b.y": "3"},
        {"a.x": "1", "b.y": "4"},
        {"a.x": "2", "b.y": "3"},
        {"a.x": "2", "b.y": "4"},
    ]
    assert trials_of([], None, 0) == [()]


def test_a_range_and_a_key_twice_make_no_grid() -> None:
    with pytest.raises(Refusal, match="a range has infinitely many values"):
        trials_of([read_varied("grpo.beta=uniform:0..1")], None, 0)
    with pytest.raises(Refusal, match=r"--vary grpo\.beta is given twice"):
        trials_of([read_varied("grpo.beta=0,1"), read_varied("grpo.beta=2,3")], None, 0)


def test_a_draw_is_the_same_for_the_same_seed_and_keeps_to_its_ranges() -> None:
    words = ("training.learning_rate=log:1e-6..1e-2", "grpo.beta=uniform:0..0.1", "lora.r=int:2..4", "x.y=a,b")
    varied = [read_varied(text) for text in words]
    drawn = trials_of(varied, 400, 7)
    assert drawn == trials_of(varied, 400, 7)
    assert drawn[:5] == trials_of(varied, 5, 7)
    assert drawn != trials_of(varied, 400, 8)
    values = [dict(trial) for trial in drawn]
    rates = [float(one["training.learning_rate"]) for one in values]
    assert all(1e-6 <= rate <= 1e-2 for rate in rates)
    assert 0.4 < sum(rate < 1e-4 for rate in rates) / 400 < 0.6  # half of the digits
    assert {one["lora.r"] for one in values} == {"2", "3", "4"}
    assert {one["x.y"] for one in values} == {"a", "b"}
    assert math.isclose(sum(float(one["grpo.beta"]) for one in values) / 400, 0.05, abs_tol=0.01)
    for trial in drawn:
        for key, text in trial:
            override, _ = read_override(f"{key}={text}")
            assert override is not None
            assert isinstance(override.value.value, str if key == "x.y" else int | float), text


def test_more_draws_than_settings_are_refused() -> None:
    with pytest.raises(Refusal, match="6 different settings") as refused:
        trials_of([read_varied("a.x=1,2"), read_varied("lora.r=int:1..3")], 7, 0)
    assert "--trials 6" in str(refused.value)
    assert len(trials_of([read_varied("a.x=1,2"), read_varied("lora.r=int:1..3")], 6, 0)) == 6


def test_a_run_is_named_after_its_values_in_safe_letters() -> None:
    trial = (("training.learning_rate", "1e-5"), ("lora.r", "8"))
    assert run_names([(trial, 42)]) == ["learning_rate-1e-5-lora.r-8-seed-42"]
    assert setting_text(trial) == "learning_rate=1e-5 lora.r=8"
    assert run_names([((), 1)]) == ["seed-1"]


@pytest.mark.parametrize(
    "text", ["../../etc", "a b\nc", "'quoted'", "x" * 300, "{r: 8, lora_alpha: 16}", "\u202etxt", "$(rm)", "-1", ""]
)
def test_any_value_makes_a_safe_name(text: str) -> None:
    trials = [((("a.value", text),), seed) for seed in (1, 2)]
    names = run_names(trials)
    assert len(set(names)) == 2
    assert all(SAFE_NAME.fullmatch(name) for name in names)


def test_values_that_become_the_same_letters_get_names_of_their_own() -> None:
    names = run_names([((("a.value", text),), 1) for text in ("a b", "a/b", "A,b", "[a,b]")])
    assert len({name.lower() for name in names}) == 4
