"""The shipped rewards give 0 to a completion in a different format than theirs."""

from grpo_recipes.rewards.accuracy import accuracy
from grpo_recipes.rewards.exact_match import exact_match
from grpo_recipes.rewards.tag_format import tag_format


def test_other_tags_and_boxes_get_nothing() -> None:
    asked = ["<reasoning>\n40 + 2\n</reasoning>\n<answer>\n42\n</answer>"]
    assert tag_format(asked) == [0.0]
    assert tag_format(asked, tags=["reasoning", "answer"]) == [1.0]
    assert exact_match([r"\boxed{42}"], solution=["42"]) == [0.0]
    assert accuracy([r"\boxed{42}"], solution=["42"]) == [1.0]
