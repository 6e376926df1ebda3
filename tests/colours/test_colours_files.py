"""The colours recipe's data and model folder as files: what can be said of them without torch."""

import io
from pathlib import Path

import pyarrow.parquet
import pytest
from PIL import Image

COLOURS = Path(__file__).resolve().parents[2] / "recipes" / "colours"
NAMES = {(255, 0, 0): "red", (0, 255, 0): "green", (0, 0, 255): "blue", (255, 255, 255): "white"}


def pictures(file_name: str) -> list[tuple[str, Image.Image]]:
    """The answer and the image of each row."""
    rows = pyarrow.parquet.read_table(COLOURS / file_name).to_pylist()
    return [(row["answer"], Image.open(io.BytesIO(row["image"])).convert("RGB")) for row in rows]


@pytest.mark.parametrize(("file_name", "count"), [("train.parquet", 768), ("test.parquet", 256)])
def test_an_answer_is_the_colour_and_the_number_of_the_squares(file_name: str, count: int) -> None:
    found = pictures(file_name)
    assert len(found) == count
    for answer, image in found:
        drawn = {pixel for _, pixel in image.getcolors() or () if pixel != (0, 0, 0)}
        # A square is in a quarter of its own.
        quarters = [image.crop((x, y, x + 14, y + 14)) for x in (0, 14) for y in (0, 14)]
        assert answer == f"{NAMES[drawn.pop()]} {sum(one.getbbox() is not None for one in quarters)}"
        assert not drawn


def test_no_held_out_image_is_trained_on() -> None:
    trained, held_out = ({image.tobytes() for _, image in pictures(f"{name}.parquet")} for name in ("train", "test"))
    assert (len(trained), len(held_out), trained & held_out) == (768, 256, set())


def test_all_answers_are_about_equally_frequent() -> None:
    answers = [answer for answer, _ in pictures("test.parquet")]
    assert len(set(answers)) == 12
    assert max(answers.count(one) for one in set(answers)) <= len(answers) / 6


def test_the_weights_stay_small() -> None:
    assert sum(file.stat().st_size for file in (COLOURS / "model").iterdir()) < 1_500_000
