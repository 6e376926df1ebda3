"""DAT005: TRL's loss shows tokens of PaliGemma the later ones, and PaliGemma does not train on text."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("family", "sees_later"), [("idefics3", False), ("gemma3", False), ("paligemma", True)])
def test_scores_of_paligemma_depend_on_later_tokens(family: str, sees_later: bool, library: Library) -> None:
    answer = library.call("in_model.train_on_images", family=family)
    assert answer.raised == "", answer.text
    assert len(answer.result) == 4 * 7
    assert max(answer.result) > 1e-3 if sees_later else max(answer.result) == 0.0, answer.result


def test_paligemma_takes_no_prompt_without_an_image(library: Library) -> None:
    answer = library.call("in_model.train_on_images", family="paligemma", images=False)
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "`images` are expected" in answer.text
