"""DAT001: a column that is not there shows up after the model was loaded."""

from pathlib import Path

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_rows_without_a_prompt_raise_in_the_first_step(library: Library) -> None:
    answer = library.call("train", arguments={}, rows=[{"question": "1+1="}] * 8)
    assert (answer.stage, answer.raised, answer.text) == ("train", "KeyError", "'prompt'")


@pytest.mark.parametrize(
    "content",
    ['[{"q": "1"}, {"q": "2"}]', '[\n {"q": "1"},\n {"q": "2"}\n]\n', '\ufeff{"q": "1"}\n{"q": "2"}\n'],
    ids=["array", "array over lines", "byte order mark"],
)
def test_datasets_reads_an_array_and_a_byte_order_mark_in_a_jsonl(tmp_path: Path, content: str) -> None:
    import datasets

    (tmp_path / "rows.jsonl").write_text(content, encoding="utf-8")
    read = datasets.load_dataset(
        "json", data_files=str(tmp_path / "rows.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert list(read["q"]) == ["1", "2"]


def test_datasets_reads_a_web_address_as_a_folder() -> None:
    import datasets

    with pytest.raises(FileNotFoundError, match=r"any data file at .*/https:/huggingface\.co/datasets"):
        datasets.load_dataset("https://huggingface.co/datasets/openai/gsm8k")
