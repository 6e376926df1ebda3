"""The shipped rewards, for plain and conversational completions."""

import json
import threading
from collections.abc import Callable

import pytest

from grpo_recipes.rewards.completion_length import completion_length
from grpo_recipes.rewards.completion_text import Completion
from grpo_recipes.rewards.countdown import countdown
from grpo_recipes.rewards.exact_match import exact_match
from grpo_recipes.rewards.follows_instruction import follows_instruction
from grpo_recipes.rewards.function_calls import function_calls
from grpo_recipes.rewards.json_fields import json_fields
from grpo_recipes.rewards.language_consistency import language_consistency
from grpo_recipes.rewards.regex_match import regex_match
from grpo_recipes.rewards.tag_format import tag_format
from grpo_recipes.rewards.valid_json import valid_json

Reward = Callable[..., list[float | None]]
THINK = "<think>a</think>\n<answer>b</answer>"


def case(
    name: str, reward: Reward, text: str, value: float | None, **keywords: object
) -> object:  # one line of the table
    marks = [pytest.mark.processes] if reward is regex_match else []
    return pytest.param(reward, text, value, keywords, id=f"{reward.__name__}: {name}", marks=marks)


def counted(name: str, answer: str, value: float, nums: object = (44, 19, 35), target: object = 98) -> object:
    return case(name, countdown, f"<think>1</think><answer>{answer}</answer>", value, nums=[nums], target=[target])


def ruled(name: str, text: str, value: float | None, function: str, **arguments: object) -> object:
    rule = json.dumps({"func_name": function, "N": None, "quantifier": None} | arguments)
    return case(f"{function}: {name}", follows_instruction, text, value, ground_truth=[rule])


CALL = {"name": "rain", "arguments": {"place": "Oslo", "days": 2}}
CALLS = json.dumps([CALL, {"name": "sun", "arguments": {}}])

CASES = [
    case("same", exact_match, "42", 1.0, solution=["42"]),
    case("white space around", exact_match, " 42\n", 1.0, solution=["42 "]),
    case("number", exact_match, "42", 1.0, solution=[42]),
    case("no solution", exact_match, "None", None, solution=[None]),
    case("other", exact_match, "420", 0.0, solution=["42"]),
    case("empty", exact_match, "", 0.0, solution=["42"]),
    case("case counts", exact_match, "Paris", 0.0, solution=["paris"]),
    case("case ignored", exact_match, "Paris", 1.0, solution=["paris"], ignore_case=True),
    case("found inside", regex_match, "is 42.", 1.0, pattern=r"\d+"),
    case("not the whole", regex_match, "is 42.", 0.0, pattern=r"\d+", full=True),
    case("the whole", regex_match, "42", 1.0, pattern=r"\d+", full=True),
    case("not found", regex_match, "none", 0.0, pattern=r"\d+"),
    case("in order", tag_format, THINK, 1.0),
    case("white space around", tag_format, f"\n{THINK}\n", 1.0),
    case("one tag", tag_format, "<a>x</a>", 1.0, tags=["a"]),
    case("text before", tag_format, f"Well: {THINK}", 0.0),
    case("wrong order", tag_format, "<answer>b</answer><think>a</think>", 0.0),
    case("missing end", tag_format, "<think>a</think><answer>b", 0.0),
    case("twice", tag_format, THINK + THINK, 0.0),
    case("nested", tag_format, "<think>a</think><answer><answer>b</answer>", 0.0),
    case("empty", tag_format, "", 0.0),
    case("short", completion_length, "a" * 10, 1.0, target=10, max_characters=20),
    case("half way", completion_length, "a" * 15, 0.5, target=10, max_characters=20),
    case("at the end", completion_length, "a" * 20, 0.0, target=10, max_characters=20),
    case("beyond the end", completion_length, "a" * 99, 0.0, target=10, max_characters=20),
    case("empty", completion_length, "", 1.0),
    case("object", valid_json, ' {"a": 1} ', 1.0),
    case("fenced", valid_json, 'Here:\n```json\n{"a": 1}\n```\nDone.', 1.0),
    case("wanted keys", valid_json, '{"a": 1, "b": null}', 1.0, required_keys=["a", "b"]),
    case("missing key", valid_json, '{"a": 1}', 0.0, required_keys=["a", "b"]),
    case("a list has no keys", valid_json, '["a"]', 0.0, required_keys=["a"]),
    case("text", valid_json, "a: 1", 0.0),
    case("NaN is no JSON", valid_json, "[NaN]", 0.0),
    case("too deep", valid_json, "[" * 100_000, 0.0),
    case("too long a number", valid_json, "1" * 10_000, 0.0),
    case("empty", valid_json, "", 0.0),
    case("all", json_fields, '{"a": 1, "b": ["x "]}', 1.0, solution=['{"a": 1.0, "b": ["x"]}']),
    case("one of two", json_fields, '{"a": 1, "b": 3}', 1 / 3, solution=['{"a": 1, "b": 2}']),
    case("one is made up", json_fields, '{"a": 1, "b": 2}', 0.5, solution=['{"a": 1}']),
    case("order counts in a list", json_fields, "[1, 2]", 0.0, solution=["[2, 1]"]),
    case("fenced", json_fields, '```json\n{"a": null}\n```', 1.0, solution=[{"a": None}]),
    case("true is not 1", json_fields, "true", 0.0, solution=["1"]),
    case("a key is not its place", json_fields, '{"0": 1}', 0.0, solution=["[1]"]),
    case("no JSON", json_fields, "a: 1", 0.0, solution=['{"a": 1}']),
    case("too deep", json_fields, "[" * 100_000, 0.0, solution=["[]"]),
    case("the solution is none", json_fields, "{}", None, solution=["a: 1"]),
    case("one script", language_consistency, "Ein Wörtchen, 42!", 1.0, scripts=["Latin"]),
    case("half", language_consistency, "да no", 0.5, scripts=["Cyrillic"]),
    case("several scripts", language_consistency, "日本のカメラー", 1.0, scripts=["Han", "Hiragana", "Katakana"]),
    case("letters of formulas do not count", language_consistency, "漢 𝑥 5 µm", 0.5, scripts=["han"]),
    case("no letter", language_consistency, "4 + 2 = 6", 0.0, scripts=["Latin"]),
    case("all in another order", function_calls, json.dumps(json.loads(CALLS)[::-1]), 1.0, solution=[CALLS]),
    case("one of two", function_calls, json.dumps(CALL), 0.5, solution=[CALLS]),
    case("one too many", function_calls, CALLS, 0.5, solution=[[CALL]]),
    case("tagged", function_calls, f"So:\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>", 1.0, solution=[[CALL]]),
    case(
        "arguments as text",
        function_calls,
        json.dumps(CALL | {"arguments": '{"days": 2, "place": "Oslo"}'}),
        1.0,
        solution=[[CALL]],
    ),
    case("another argument", function_calls, json.dumps(CALL).replace("2", "3"), 0.0, solution=[[CALL]]),
    case("no call", function_calls, '{"place": "Oslo"}', 0.0, solution=[[CALL]]),
    case("text", function_calls, "rain(Oslo)", 0.0, solution=[[CALL]]),
    case("nothing is wanted", function_calls, "[]", None, solution=["[]"]),
    counted("right", "44 + 19 + 35", 1.0),
    counted("with its result", "(44 + 19) + 35 = 98", 1.0),
    counted("numbers as text", "44 + 19 + 35", 1.0, nums="[44, 19, 35]", target="98"),
    counted("fractions are exact", "8 / (3 - 8 / 3)", 1.0, nums=[8, 3, 8, 3], target=24),
    counted("other signs", "6 × 4 ÷ 2", 1.0, nums=[6, 4, 2], target=12),
    counted("a number is missing", "44 + 19", 0.0, target=63),
    counted("a number twice", "44 + 19 + 35 + 35", 0.0, target=133),
    counted("another number", "90 + 8", 0.0),
    counted("another result", "44 + 35 - 19", 0.0),
    counted("by zero", "44 / (19 - 19)", 0.0, nums=[44, 19, 19]),
    counted("a power", "2 ** 3", 0.0, nums=[2, 3], target=8),
    counted("code", "__import__('os')", 0.0),
    counted("torn", "44 + (19", 0.0),
    counted("too long", "(" * 5000, 0.0),
    counted("empty", "", 0.0),
    case("no answer", countdown, "44 + 19 + 35", 0.0, nums=[[44, 19, 35]], target=[98]),
    ruled("both", "Rain and sun.", 1.0, "verify_keywords", keyword_list=["rain", "Sun"]),
    ruled("one", "Rain.", 0.0, "verify_keywords", keyword_list=["rain", "sun"]),
    ruled("twice", "Sun, sun.", 1.0, "verify_keyword_frequency", word="sun", N=2),
    ruled("part of a word", "Sunny sun", 0.0, "verify_keyword_frequency", word="sun", N=2),
    ruled("none", "Rain.", 1.0, "validate_forbidden_words", forbidden_words=["sun"]),
    ruled("one", "Sun.", 0.0, "validate_forbidden_words", forbidden_words=["sun"]),
    ruled("counted", "banana", 1.0, "verify_letter_frequency", letter="a", N=3),
    ruled("two", "a * * * b", 1.0, "verify_paragraph_count", N=2),
    ruled("one is empty", "a * * * ", 0.0, "verify_paragraph_count", N=2),
    ruled("enough", "a b c", 1.0, "validate_word_constraint", N=3, quantifier="at least"),
    ruled("too many", "a b c", 0.0, "validate_word_constraint", N=2, quantifier="at most"),
    ruled("around", "a b c", 1.0, "validate_word_constraint", N=4, quantifier="around"),
    ruled("far", "a b c", 0.0, "validate_word_constraint", N=6, quantifier="around"),
    ruled("counted", "One. Two? Three!", 1.0, "verify_sentence_constraint", N=3, quantifier="at most"),
    ruled("begins", "One\n\nTwo words", 1.0, "validate_paragraphs", N=2, i=2, first_word="two"),
    ruled("another begins", "Two\n\nOne", 0.0, "validate_paragraphs", N=2, i=2, first_word="two"),
    ruled("there", "Hi.\nP.S. bye", 1.0, "verify_postscript", postscript_marker="P.S."),
    ruled("empty", "Hi.\nP.S.", 0.0, "verify_postscript", postscript_marker="P.S."),
    ruled("two", "[name] at [place]", 1.0, "validate_placeholders", N=2),
    ruled("two", "* a\n* b", 1.0, "verify_bullet_points", N=2),
    ruled("three", "* a\n* b\n- c", 0.0, "verify_bullet_points", N=2),
    ruled("there", "<<joy>>\ntext", 1.0, "validate_title"),
    ruled("not there", "joy\ntext", 0.0, "validate_title"),
    ruled("chosen", "I say yes.", 1.0, "validate_choice", options=["yes", "no"]),
    case("no solution", json_fields, "null", None, solution=[None]),
    ruled("without end", "." * 50_000 + "a", 0.0, "verify_sentence_constraint", N=1, quantifier="at least"),
    ruled(
        "runs and quotes", 'One... "Two?!" a.b (Three.)', 1.0, "verify_sentence_constraint", N=3, quantifier="at most"
    ),
    ruled("infinitely many", "One.", None, "verify_bullet_points", N=float("inf")),
    ruled("no end", "*" + "a" * 50_000, 0.0, "validate_highlighted_sections", N=1),
    ruled("spaces", "*  a b *, *  *", 0.0, "validate_highlighted_sections", N=2),
    case("nested too deeply", follows_instruction, "a", None, ground_truth=["[" * 100_000]),
    ruled("two", "*a* and *b*", 1.0, "validate_highlighted_sections", N=2),
    ruled("bullets are none", "* a\n* b", 0.0, "validate_highlighted_sections", N=1),
    ruled("two", "Section 1\na\nSection 2\nb", 1.0, "validate_sections", N=2, section_splitter="Section"),
    ruled("is", '{"a": 1}', 1.0, "validate_json_format"),
    ruled("too deep", "[" * 100_000, 0.0, "validate_json_format"),
    ruled("repeated", "Say hi. Hi.", 1.0, "validate_repeat_prompt", original_prompt="Say hi."),
    ruled("two", "a ****** b", 1.0, "validate_two_responses"),
    ruled("the same", "a ****** a", 0.0, "validate_two_responses"),
    ruled("is", "HI THERE", 1.0, "validate_uppercase"),
    ruled("is not", "Hi", 0.0, "validate_lowercase"),
    ruled("two", "NO and YES", 1.0, "validate_frequency_capital_words", N=2, quantifier="at least"),
    ruled("ends", "Hi. Bye.", 1.0, "validate_end", end_phrase="Bye."),
    ruled("quoted", '"Hi"', 1.0, "validate_quotation"),
    ruled("without", "a b", 1.0, "validate_no_commas"),
    ruled("with", "a, b", 0.0, "validate_no_commas"),
    ruled("nothing was said", " ", 0.0, "validate_no_commas"),
    ruled("a language is not judged", "Hei", None, "validate_response_language", language="no"),
    ruled("an argument is missing", "a", None, "verify_letter_frequency"),
    case("no rule", follows_instruction, "a", None, ground_truth=["no JSON"]),
]


@pytest.mark.parametrize(("reward", "text", "value", "keywords"), CASES)
def test_plain_and_conversational_completions_get_the_same(
    reward: Reward, text: str, value: float | None, keywords: dict[str, object]
) -> None:
    spoken = [{"role": "assistant", "content": text}]
    for completion in (text, spoken):
        found = reward([completion], prompts=["p"], completion_ids=[[1]], trainer_state=None, **keywords)
        assert found == [value]


def test_of_several_turns_the_last_of_the_model_is_the_answer() -> None:
    call = {"role": "assistant", "content": "12, or I ask.", "tool_calls": [{"type": "function", "function": CALL}]}
    replied = [call, {"role": "tool", "name": "rain", "content": "42"}]
    given = [[*replied, {"role": "assistant", "content": "42"}], replied, [{**call, "content": None}], []]
    assert exact_match(given, solution=["42"] * 4) == [1.0, 0.0, 0.0, 0.0]  # type: ignore[arg-type]


def test_a_column_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        exact_match(["1", "2"], solution=["1"])


def test_numbers_that_are_no_list_are_an_error() -> None:
    with pytest.raises(ValueError, match="is not a list of numbers"):
        countdown(["<answer>1</answer>"], nums=["7"], target=[7])


def test_a_length_without_a_slope_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_characters 10 is not greater than target 10"):
        completion_length(["a"], target=10, max_characters=10)


@pytest.mark.parametrize("scripts", ["Latin", [], [1], ["Klingon"], ["Latin}|."]])
def test_scripts_that_unicode_does_not_have_are_an_error(scripts: object) -> None:
    with pytest.raises(ValueError, match=r"^language_consistency: .*(list of script names|Unicode has no script)"):
        language_consistency(["a"], scripts=scripts)  # type: ignore[arg-type]


@pytest.mark.processes
@pytest.mark.parametrize("completions", [[], ["a"]])
def test_a_pattern_that_cannot_be_compiled_is_an_error(completions: list[Completion]) -> None:
    with pytest.raises(ValueError, match=r"pattern '\(' is not a regular expression"):
        regex_match(completions, pattern="(")


@pytest.mark.parametrize("tags", [[], [""], ["<think>"], ["think", "/answer"]])
def test_tags_that_no_completion_would_have_are_an_error(tags: list[str]) -> None:
    with pytest.raises(ValueError, match="not a list of names without brackets"):
        tag_format(["<think></think>"], tags=tags)


ACCURACY = [
    pytest.param("the answer is 42.", "42", 1.0, id="number at the end"),
    pytest.param(r"so \boxed{\frac{1}{2}}, not 7", "1/2", 1.0, id="boxed fraction"),
    pytest.param("<think>7</think><answer>42</answer>", "42", 1.0, id="answer tag"),
    pytest.param("$3+4=7$", "$3+4=7$", 1.0, id="an equation that is the answer"),
    pytest.param(r"\boxed{30}", r"the total is $2 \times 15 = 30$ km", None, id="a calculation in a sentence"),
    pytest.param(r"the total is $2 \times 15 = 30$ km", r"the total is $2 \times 15 = 30$ km", None, id="its text"),
    pytest.param("<answer>[1, 2]</answer>", "[1, 2]", 1.0, id="the same text in a tag"),
    pytest.param("<answer>7</answer> <answer>42</answer>", "42", 1.0, id="last answer tag"),
    pytest.param("<answer> x+1 </answer>", "1+x", 1.0, id="expression in a tag"),
    pytest.param("it is 1,234", "1234", 1.0, id="thousands"),
    pytest.param("#### 72", "72", 1.0, id="gsm8k"),
    pytest.param("$1+x$", "x+1", 1.0, id="expression"),
    pytest.param("<answer>5 km</answer>", "5", 1.0, id="unit in a tag"),
    pytest.param("<answer>The result is 42</answer>", "42", 1.0, id="sentence in a tag"),
    pytest.param(r"\boxed{x^2}", "x^2", 1.0, id="power"),
    pytest.param(r"\boxed{\frac{3}{4}}", r"\frac{3}{4}", 1.0, id="solution is LaTeX"),
    pytest.param("1+1", "1+1", 1.0, id="solution is a sum"),
    pytest.param("17 + 12 = 29", "29", 1.0, id="a sum with its result"),
    pytest.param(r"\frac{58}{2}", "29", 1.0, id="a fraction that is a number"),
    pytest.param("58/2", "29", 1.0, id="a division"),
    pytest.param("$2^{10}$", "1024", 1.0, id="a power"),
    pytest.param(r"$3\frac{1}{2}$", "7/2", 1.0, id="a mixed number"),
    pytest.param(r"$6 \times 10^3$", "6000", 1.0, id="scientific"),
    pytest.param(r"\boxed{-1}", "-1", 1.0, id="minus one"),
    pytest.param("1+1", "2", 0.0, id="a sum that is not computed"),
    pytest.param("The result of 17 + 12", "29", 0.0, id="the question again"),
    pytest.param(r"\boxed{30 - 1}", "29", 0.0, id="a difference in a box"),
    pytest.param("<answer>61 - 32</answer>", "29", 0.0, id="a difference in a tag"),
    pytest.param(r"$2 \times 14.5$", "29", 0.0, id="a product"),
    pytest.param("42", 42, 1.0, id="solution is a number"),
    pytest.param("the answer is 43", "42", 0.0, id="other number"),
    pytest.param("1", "1+x", 0.0, id="part of the solution"),
    pytest.param("-3", "3", 0.0, id="sign"),
    pytest.param("<answer>7</answer> 42", "42", 0.0, id="right number outside the tag"),
    pytest.param("", "42", 0.0, id="empty"),
    pytest.param("no idea", "42", 0.0, id="words"),
    pytest.param(r"\boxed{\frac{1}{", "42", 0.0, id="torn LaTeX"),
    pytest.param("9**9**9**9", "42", 0.0, id="tower of powers"),
    pytest.param("2^100000000", "42", 0.0, id="huge exponent"),
    pytest.param(r"9^{9^{9^9}}", "42", 0.0, id="tower in LaTeX"),
    pytest.param("(" * 5000, "42", 0.0, id="parentheses"),
    pytest.param("silent", "listen", None, id="solution is a word"),
    pytest.param("42", "", None, id="solution is empty"),
    pytest.param("42", None, None, id="solution is null"),
]


@pytest.mark.stack
@pytest.mark.parametrize(("text", "solution", "value"), ACCURACY)
def test_accuracy_judges_and_never_raises(text: str, solution: object, value: float | None) -> None:
    from grpo_recipes.rewards.accuracy import accuracy

    assert accuracy([text, [{"role": "assistant", "content": text}]], solution=[solution] * 2) == [value] * 2


@pytest.mark.stack
def test_accuracy_judges_in_a_thread_where_signals_cannot_be_set() -> None:
    from grpo_recipes.rewards.accuracy import accuracy

    found: list[list[float | None]] = []
    texts = ["42", "9**9**9**9", "7"]
    thread = threading.Thread(target=lambda: found.append(accuracy(texts, solution=["42"] * 3)), daemon=True)
    thread.start()
    thread.join(timeout=180)
    assert found == [[1.0, 0.0, 0.0]]


def test_calls_that_were_read_out_of_a_completion_are_judged_too() -> None:
    """With tools TRL takes the calls out of the text, and a completion has the replies between."""
    called = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": CALL}]}
    reply, answer = {"role": "tool", "name": "rain", "content": "1 mm"}, {"role": "assistant", "content": "a little"}
    wanted = [[CALL]] * 4
    turns = [[called, reply, answer], [called], [called, reply, called, reply, answer], [answer]]
    assert function_calls(turns, solution=wanted) == [1.0, 1.0, 0.5, 0.0]
    odd = [{"role": "assistant", "tool_calls": [{"type": "other"}, "rain"]}]
    assert function_calls([odd, [{**answer, "content": json.dumps(CALL)}]], solution=wanted[:2]) == [0.0, 1.0]
