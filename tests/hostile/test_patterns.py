"""Regular expressions of a recipe: each is judged within a second, and the good ones as before."""

from pathlib import Path

import pytest
from harms import harms, made_place, run_apart
from hostile_recipes import Attempt, over
from small_recipe import STACK
from support.work import takes_at_most
from test_hostile_recipes import command, placed

from grpo_recipes.contract import patterns
from grpo_recipes.contract.patterns import ask, ask_once
from grpo_recipes.facts.module_names import typical_names
from grpo_recipes.rewards.regex_match import regex_match

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
NAMES = tuple(
    f"model.layers.{layer}.{name}"
    for layer in range(24)
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.down_proj")
)
GOOD = {
    "a list of two": r".*\.(q|v)_proj",
    "whole names": r"model\.layers\.(\d+)\.(self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj",
    "parts of a model that sees": (
        r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp).*?(?:q_proj|k_proj|v_proj).*?)"
        r"|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:q_proj|k_proj))"
    ),
    "not those of another part": r"^(?!.*vision).*proj$",
    "some layers": r"model\.layers\.(1[0-9]|2[0-3])\..*proj",
    "no capitals": r"(?i).*Q_PROJ",
    "a name that is said again": r".*(self).*\.(q)_proj",
    "many repeats": r".*layers.*[0-9]+.*attn.*[qkv]_proj",
}
SLOW = {
    "repeats in repeats": r"((.+)+)+%",
    "a group of repeats": r"(?:.+)+%",
    "letters or letters": r"(?:\w|[a-z._0-9])*%",
    "alternatives that overlap": "(?:.|[^%])" * 30 + "%",
    "thirty-five alternatives": "(?:a|.|[^%])" * 35 + "%",
    "optional letters": "(?:.?){25}" + ".{0,20}" * 10 + "%",
    "many repeats": ".*" * 20 + "%",
    "many lazy repeats": ".*?" * 20 + "%",
    "words and dots": r"(?:\w+\.?)+%",
    "empty repeats": r"(?:(?:.?)*)*%",
    "looking ahead": r"(?=((.+)+)+%)x",
    "looking ahead for none": r"(?!((.+)+)+%)((.+)+)+%",
    "back references": r"(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\1\2\3\4%",
    "nested groups": "(" * 20 + ".*" + ")*" * 20 + "%",
    "a named group": r"(?P<a>(?:.+)+)%",
    "with flags": r"(?is)((.+)+)+%",
    "counted repeats": r"(?:.{1,9}){1,40}%",
    "two in a row": r"(?:.+)*(?:.+)*%",
    "an or of repeats": r"(?:.*|.+|\S*)*%",
    "sets without capitals": "(?i)" + "[\0-\U0010ffff]" * 400,
}
NO_PATTERNS = {
    "not closed": "(",
    "a repeat beyond memory": "a{99999999999}",
    "a repeat of 5,000 digits": "a{" + "9" * 5000 + "}",
    "groups without end": "(" * 5000 + ")" * 5000,
    "nothing to repeat": "*q_proj",
    "an unknown group": r"(?P=nobody)",
}


def model(place: Path) -> None:
    """A model's configuration beside the recipe."""
    (place / "m").mkdir()
    sizes = '"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 24, "vocab_size": 100, '
    heads = '"num_attention_heads": 4, "num_key_value_heads": 2'
    text = f'{{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", {sizes}{heads}}}'
    (place / "m" / "config.json").write_text(text)


@pytest.mark.parametrize("pattern", GOOD.values(), ids=GOOD)
def test_a_good_pattern_finds_what_python_finds(pattern: str) -> None:
    import re

    asked = ask((pattern,), NAMES)[0]
    assert asked.finds == tuple(re.fullmatch(pattern, name) is not None for name in NAMES)
    assert any(asked.finds)


@pytest.mark.hostile(cases=4)
@pytest.mark.parametrize("names", [NAMES, typical_names()], ids=["of the model", "of others"])
@pytest.mark.parametrize("pattern", SLOW.values(), ids=SLOW)
def test_a_pattern_without_end_is_ended(pattern: str, names: tuple[str, ...]) -> None:
    with takes_at_most(1.5):
        asked = ask_once([pattern], names, "fullmatch")[0]
        assert asked.slow or not any(asked.finds)


@pytest.mark.parametrize("pattern", NO_PATTERNS.values(), ids=NO_PATTERNS)
def test_what_is_no_pattern_is_said(pattern: str) -> None:
    asked = ask((pattern,), NAMES)[0]
    assert asked.problem
    assert not asked.finds


def test_only_the_first_of_many_slow_ones_costs_time() -> None:
    asked = ask_once([*GOOD.values(), *list(SLOW.values())[:1] * 1000], NAMES, "fullmatch")
    assert all(any(one.finds) for one in asked[: len(GOOD)])
    assert "more than 1 s" in asked[len(GOOD)].slow
    assert "not tried" in asked[-1].slow


def test_where_no_process_starts_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/python")
    assert ask_once([SLOW["many repeats"]], NAMES, "fullmatch")[0] == patterns.Asked()
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert ask_once([SLOW["many repeats"]], NAMES, "fullmatch")[0] == patterns.Asked()


def lora(text: str) -> str:
    """A recipe with an adapter on the model beside it."""
    return over(f"model: {{model_name_or_path: ./m}}\nlora: {{{text}}}")


RECIPES = {
    "target_modules, nested": lora("target_modules: '((.+)+)+%'"),
    "target_modules, thirty of two": lora("target_modules: '" + "(?:.|[^%])" * 30 + "%'"),
    "target_modules, thirty-five of three": lora("target_modules: '" + "(?:a|.|[^%])" * 35 + "%'"),
    "target_modules with flags": lora("target_modules: '(?i)" + "[^a]" * 30 + "((.+)+)+%'"),
    "target_modules of an unknown model": over("lora: {target_modules: '((.+)+)+%'}"),
    "a key of rank_pattern": lora("rank_pattern: {'((.+)+)+%': 4}"),
    "a key of alpha_pattern": lora("alpha_pattern: {'((.+)+)+%': 4}"),
    "a thousand keys": lora("rank_pattern: {" + ", ".join(f"'((.+)+)+%{n}': 4" for n in range(1000)) + "}"),
    "exclude_modules": lora("exclude_modules: '((.+)+)+%'"),
    "layers_pattern": lora("layers_to_transform: [1], layers_pattern: '((.+)+)+%'"),
    "layers_pattern in a list": lora("layers_to_transform: [1], layers_pattern: [layers, '((.+)+)+%']"),
    "a repeat beyond memory": lora("target_modules: 'a{99999999999}'"),
    "a repeat of 5,000 digits": lora("target_modules: 'a{" + "9" * 5000 + "}'"),
    "groups without end": lora("target_modules: '" + "(" * 5000 + ")" * 5000 + "'"),
    "no pattern in exclude_modules": lora("exclude_modules: '('"),
}
GENERATED = {
    "100,000 brackets": r"\[" * 100_000,
    "100,000 open sets": "[" * 100_000,
    "sets in sets": "[a[" * 50_000 + "]",
    "groups without end": "(" * 50_000 + ")" * 50_000,
    "a repeat of 5,000 digits": "a{" + "9" * 5000 + "}",
    "a repeat beyond memory": "a{99999999999}",
    "sets without capitals": r"(?i)" + r"[\x00-\U0010ffff]" * 2000,
    "backslashes": "\\\\" * 60_000,
}


@pytest.mark.hostile
@pytest.mark.parametrize("text", RECIPES.values(), ids=RECIPES)
def test_validate_refuses_the_pattern_in_little_time(text: str, tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("pattern", text, make=model))
    ended = run_apart(place, [command("validate", "recipe.yaml", "--target", STACK)])
    assert harms(place, ended) == [], ended.printed[-2000:]
    assert ended.codes == [2]
    assert any(said in ended.printed for said in ("takes too long to match", "not a regular expression", "no module"))


@pytest.mark.hostile
@pytest.mark.parametrize("pattern", GENERATED.values(), ids=GENERATED)
def test_validate_reads_a_pattern_for_completions_in_little_time(pattern: str, tmp_path: Path) -> None:
    quoted = pattern.replace("'", "''")
    text = over(f"trl: {{use_vllm: true, vllm_structured_outputs_regex: '{quoted}'}}")
    place = placed(made_place(tmp_path), Attempt("pattern", text))
    ended = run_apart(place, [command("validate", "recipe.yaml", "--target", STACK)])
    assert harms(place, ended) == [], ended.printed[-2000:]


@pytest.mark.hostile
def test_a_pattern_asked_in_the_process_itself_would_be_seen(tmp_path: Path) -> None:
    import re

    place = made_place(tmp_path)
    ended = run_apart(place, [lambda: int(bool(re.fullmatch(SLOW["repeats in repeats"], NAMES[0])))], cpu_s=2)
    assert any("did not end" in harm for harm in harms(place, ended))


def test_a_reward_matches_as_python_does() -> None:
    texts = ["<answer>4</answer>", "no", "a\0b\ud800<answer>\n5</answer>", ""]
    assert regex_match(texts, pattern=r"(?s)<answer>.*?</answer>") == [1.0, 0.0, 1.0, 0.0]
    assert regex_match(texts, pattern=r"<answer>\d</answer>", full=True) == [1.0, 0.0, 0.0, 0.0]
    assert regex_match([], pattern="a") == []


def test_a_reward_whose_pattern_has_no_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_recipes.rewards.regex_match.SECONDS", 1)
    with pytest.raises(TimeoutError, match="takes too long for a completion"):
        regex_match(["a" * 60], pattern=r"((a+)+)+%", full=True)
