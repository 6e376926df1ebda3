"""1.0 for a completion that follows a checkable instruction, such as "no commas" or "at least 200 words"."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_recipes.rewards.completion_text import Completion, completion_text

Check = Callable[[str, Mapping[str, Any]], bool]
PARAGRAPH_MARK = "* * *"
ANSWER_MARK = "******"
SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"')\]]*+(?=\s|$)")


def follows_instruction(
    completions: list[Completion], *, ground_truth: list[object], **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion that keeps the rule of its row, else 0.0.

    ground_truth: the rule as allenai/RLVR-IFeval writes it, a JSON object with its name as func_name and its
    arguments. A row gets None, that is, no reward, if its rule is not supported: validate_response_language needs a
    language detector. The checks are grpo-run's own, written from the text of the rules.
    """
    return [_judge(completion_text(given), rule) for given, rule in zip(completions, ground_truth, strict=True)]


def _judge(text: str, written: object) -> float | None:
    rule: Any
    try:
        rule = json.loads(written) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        return None
    check = CHECKS.get(str(rule.get("func_name"))) if isinstance(rule, dict) else None
    if check is None:
        return None
    try:
        return float(bool(text.strip()) and check(text.strip(), rule))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # this rule's argument is missing
        return None


def _is_so_many(count: int, rule: Mapping[str, Any], slack: int | None = None) -> bool:
    """Whether a count is at least, around or at most N. slack: the tolerance of around, by default a tenth."""
    wanted = int(rule["N"])
    if rule["quantifier"] == "around":
        return abs(count - wanted) <= (max(round(wanted / 10), 1) if slack is None else slack)
    return {"at least": count >= wanted, "at most": count <= wanted}[rule["quantifier"]]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _has_marked_paragraphs(text: str, rule: Mapping[str, Any]) -> bool:
    paragraphs = text.split(PARAGRAPH_MARK)
    return len(paragraphs) == int(rule["N"]) and all(paragraph.strip() for paragraph in paragraphs)


def _begins_paragraph(text: str, rule: Mapping[str, Any]) -> bool:
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    number = int(rule["i"])
    if len(paragraphs) != int(rule["N"]) or not 1 <= number <= len(paragraphs):
        return False
    return _words(paragraphs[number - 1])[:1] == _words(str(rule["first_word"]))[:1]


def _postscript(text: str, rule: Mapping[str, Any]) -> bool:
    mark, _, rest = text.partition(str(rule["postscript_marker"]))
    return len(mark) < len(text) and bool(rest.strip())


def _two_answers(text: str, rule: Mapping[str, Any]) -> bool:
    answers = [answer.strip() for answer in text.split(ANSWER_MARK)]
    return len(answers) == 2 and all(answers) and answers[0] != answers[1]


def _sections(text: str, rule: Mapping[str, Any]) -> bool:
    return len(re.findall(rf"{re.escape(str(rule['section_splitter']))}\s*\d+", text, re.I)) >= int(rule["N"])


def _is_json(text: str, rule: Mapping[str, Any]) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _highlights(text: str, rule: Mapping[str, Any]) -> bool:
    return len(re.findall(r"\*[^\S\n]*+[^*\s][^*\n]*+\*", text)) >= int(rule["N"])


CHECKS: dict[str, Check] = {
    "verify_keywords": lambda text, rule: all(str(keyword).lower() in text.lower() for keyword in rule["keyword_list"]),
    "verify_keyword_frequency": lambda text, rule: _words(text).count(str(rule["word"]).lower()) == int(rule["N"]),
    "validate_forbidden_words": lambda text, rule: (
        not set(_words(text)) & {str(word).lower() for word in rule["forbidden_words"]}
    ),
    "verify_letter_frequency": lambda text, rule: text.count(str(rule["letter"])) == int(rule["N"]),
    "verify_paragraph_count": _has_marked_paragraphs,
    "validate_word_constraint": lambda text, rule: _is_so_many(len(text.split()), rule),
    "verify_sentence_constraint": lambda text, rule: _is_so_many(len(SENTENCE_END.findall(text)), rule, slack=1),
    "validate_paragraphs": _begins_paragraph,
    "verify_postscript": _postscript,
    "validate_placeholders": lambda text, rule: len(re.findall(r"\[[^\[\]\n]+\]", text)) >= int(rule["N"]),
    "verify_bullet_points": lambda text, rule: len(re.findall(r"(?m)^\s*[*-]\s+\S", text)) == int(rule["N"]),
    "validate_title": lambda text, rule: re.search(r"<<[^<>\n]+>>", text) is not None,
    "validate_choice": lambda text, rule: any(str(option) in text for option in rule["options"]),
    "validate_highlighted_sections": _highlights,
    "validate_sections": _sections,
    "validate_json_format": _is_json,
    "validate_repeat_prompt": lambda text, rule: text.startswith(str(rule["original_prompt"]).strip()),
    "validate_two_responses": _two_answers,
    "validate_uppercase": lambda text, rule: text == text.upper(),
    "validate_lowercase": lambda text, rule: text == text.lower(),
    "validate_frequency_capital_words": lambda text, rule: _is_so_many(
        len(re.findall(r"\b[A-Z]{2,}\b|\b[A-Z]\b(?!['’])", text)), rule
    ),
    "validate_end": lambda text, rule: text.endswith(str(rule["end_phrase"]).strip()),
    "validate_quotation": lambda text, rule: len(text) > 2 and text.startswith('"') and text.endswith('"'),
    "validate_no_commas": lambda text, rule: "," not in text,
}
