"""The rows of every source, cut and rendered, with nothing left outside the run folder."""

import csv
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack
ROWS = [{"question": f"{number}+1=", "answer": str(number + 1), "number": number} for number in range(5)]


def json_file(folder: Path) -> Data:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return Data(**planned_data(folder / "rows.jsonl"))


def csv_file(folder: Path) -> Data:
    with (folder / "rows.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["question", "answer", "number"])
        table.writeheader()
        table.writerows(ROWS)
    return Data(**planned_data(folder / "rows.csv", format="csv"))


def parquet_file(folder: Path) -> Data:
    from datasets import Dataset

    Dataset.from_list(ROWS).to_parquet(folder / "rows.parquet")
    return Data(**planned_data(folder / "rows.parquet", format="parquet"))


def saved_dataset(folder: Path) -> Data:
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(folder / "saved")
    return Data(**planned_data(folder / "saved", source="folder", format=None))


def saved_splits(folder: Path) -> Data:
    from datasets import Dataset, DatasetDict

    splits = {"train": Dataset.from_list(ROWS[:1]), "test": Dataset.from_list(ROWS)}
    DatasetDict(splits).save_to_disk(folder / "saved")
    return Data(**planned_data(folder / "saved", source="folder", format=None, split="test"))


def folder_of_files(folder: Path) -> Data:
    (folder / "files").mkdir()
    (folder / "files" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return Data(**planned_data(folder / "files", source="folder", format=None, split="test"))


@pytest.mark.parametrize("source", [json_file, csv_file, parquet_file, saved_dataset, saved_splits, folder_of_files])
def test_every_source_gives_the_same_rows(
    source: Callable[[Path], Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    from grpo_recipes.worker.data.dataset import prepare_rows

    outside = tmp_path / "outside"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", outside)
    rows = list(prepare_rows(source(tmp_path), "dataset", tmp_path / "cache", rank=0))

    assert [row["prompt"] for row in rows] == [[{"role": "user", "content": f"{n}+1="}] for n in range(5)]
    assert [row["solution"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row["number"] for row in rows] == [0, 1, 2, 3, 4]
    assert not outside.exists()


def test_rows_are_read_from_a_file_of_the_run_folder(tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import prepare_rows

    for source in (json_file, saved_dataset):
        rows = prepare_rows(source(tmp_path), "dataset", tmp_path / "cache", rank=1)
        assert rows[4]["prompt"] == [{"role": "user", "content": "4+1="}]
        assert [Path(one["filename"]) for one in rows.cache_files] == [tmp_path / "cache" / "dataset-1.arrow"]


def test_a_prompt_column_of_another_type_is_replaced(tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import prepare_rows

    (tmp_path / "rows.jsonl").write_text('{"prompt": "1+1="}\n')
    planned = Data(**planned_data(tmp_path / "rows.jsonl", prompt="{{ prompt }}", columns={}, max_rows=9))
    rows = prepare_rows(planned, "dataset", tmp_path / "cache", rank=0)
    assert list(rows) == [{"prompt": [{"role": "user", "content": "1+1="}]}]


def file_with_digest(folder: Path) -> Data:
    from dataclasses import replace

    return replace(json_file(folder), sha256=file_sha256(folder / "rows.jsonl"))


def rendered_again(data: Data, cache: Path) -> bool:
    """Whether rows are rendered, and not taken as the run left them; either way they are the same."""
    from grpo_recipes.worker.data import dataset

    seen, expected = dict[str, object](), dict[str, object]()
    dataset.without_cache(cache)
    with patch.object(dataset, "render_rows", wraps=dataset.render_rows) as rendering:
        rows = dataset.prepare_rows(data, "dataset", cache, 0, seen, is_resumed_later=True)
    fresh = dataset.prepare_rows(data, "dataset", cache.parent / uuid.uuid4().hex, 0, expected)
    assert (list(rows), rows.features, seen) == (list(fresh), fresh.features, expected)
    return rendering.called


def test_a_resumed_run_takes_the_rows_that_were_rendered(tmp_path: Path) -> None:
    from dataclasses import replace

    data, cache = file_with_digest(tmp_path), tmp_path / "cache"
    assert [rendered_again(data, cache) for _ in range(3)] == [True, False, False]
    assert sorted(entry.name for entry in cache.iterdir()) == ["dataset-0.arrow", "dataset-0.json"]
    assert rendered_again(replace(data, prompt="{{ question }} "), cache)
    unpinned = replace(data, sha256=None)
    assert [rendered_again(unpinned, cache) for _ in range(2)] == [True, True]


def test_the_other_processes_of_a_machine_take_the_rows_of_the_first(tmp_path: Path) -> None:
    from grpo_recipes.worker.data import dataset

    data, cache, seen = file_with_digest(tmp_path), tmp_path / "cache", [dict[str, object](), dict[str, object]()]
    rows = dataset.prepare_rows(data, "dataset", cache, 4, seen[0], is_resumed_later=True, first=4)
    with patch.object(dataset, "render_rows") as rendering:
        taken = dataset.prepare_rows(data, "dataset", cache, 5, seen[1], is_resumed_later=True, first=4)
    assert not rendering.called
    assert (list(taken), taken.features, seen[1]) == (list(rows), rows.features, seen[0])


def test_a_process_renders_its_own_rows_where_the_first_left_none(tmp_path: Path) -> None:
    from grpo_recipes.worker.data import dataset

    rows = dataset.prepare_rows(file_with_digest(tmp_path), "dataset", tmp_path, 5, is_resumed_later=True, first=4)
    assert len(rows) == 5
    assert sorted(file.name for file in tmp_path.glob("dataset-*")) == ["dataset-5.arrow"]


@pytest.mark.parametrize("left", ["other rows", "no seal", "a broken seal", "links"])
def test_rows_that_were_changed_are_rendered_again(left: str, tmp_path: Path) -> None:
    data, cache = file_with_digest(tmp_path), tmp_path / "cache"
    assert rendered_again(data, cache)
    rows, seal = cache / "dataset-0.arrow", cache / "dataset-0.json"
    if left == "other rows":
        rows.write_bytes(rows.read_bytes().replace(b"1+1=", b"9+9="))
    elif left == "no seal":
        seal.unlink()
    elif left == "a broken seal":
        seal.write_text(seal.read_text()[:-9])
    else:
        for file in (rows, seal):
            file.symlink_to(file.rename(tmp_path / file.name))
    assert rendered_again(data, cache)


def test_rows_of_a_file_that_changed_are_refused(tmp_path: Path) -> None:
    data, cache = file_with_digest(tmp_path), tmp_path / "cache"
    assert rendered_again(data, cache)
    (tmp_path / "rows.jsonl").write_text('{"question": "9+9=", "answer": "18", "number": 0}\n')
    with pytest.raises(Refused, match="changed since the plan was made"):
        rendered_again(data, cache)


REFUSED = [
    pytest.param({"sha256": "0" * 64}, "changed since the plan was made", id="digest"),
    pytest.param({"max_rows": 0}, "has no rows", id="no rows"),
    pytest.param({"prompt": None}, "the rows have no column `prompt`", id="no prompt"),
    pytest.param({"prompt": "{{ answers }}"}, "row 1 cannot fill the template", id="template"),
    pytest.param({"columns": {"prompts": "a"}}, "the rows have a column `prompts`", id="taken column"),
    pytest.param({"columns": {"images": "a"}}, "the rows have a column `images`", id="pictures"),
    pytest.param({"path": "/nonexistent.jsonl"}, "does not exist", id="no file"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_rows_that_cannot_be_trained_on_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    from dataclasses import replace

    from grpo_recipes.worker.data.dataset import prepare_rows

    planned = replace(json_file(tmp_path), **changes)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=message):
        prepare_rows(planned, "dataset", tmp_path / "cache", rank=0)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ([{"from": "human", "value": "1+1="}], "its messages have `from` and `value`"),
        (None, "it is null"),
        ([], "it is an empty list"),
        (5, "it is a number"),
        ([{"role": "user", "content": [{"type": "image", "text": ""}]}], "a message has an image"),
    ],
    ids=str,
)
def test_a_prompt_that_trl_cannot_take_is_named_by_its_row(prompt: object, reason: str, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import prepare_rows

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"prompt": one}) + "\n" for one in (prompt, prompt)))
    planned = Data(**planned_data(tmp_path / "rows.jsonl", prompt=None, columns={}, max_rows=None))
    with pytest.raises(Refused, match="the prompt of row 1 cannot be used") as stopped:
        prepare_rows(planned, "dataset", tmp_path / "cache", rank=0)
    assert reason in str(stopped.value)


def test_prompts_are_those_of_the_rows_in_their_order() -> None:
    from datasets import Dataset

    from grpo_recipes.worker.data.dataset import prompts_of

    prompts = [[{"role": "user", "content": str(number)}] for number in range(2500)] + [[], None]
    rows = Dataset.from_dict({"prompt": prompts})
    assert list(prompts_of(rows)) == prompts
    assert list(prompts_of(rows.select([2501, 0]))) == [None, prompts[0]]


@pytest.mark.parametrize("source", [json_file, folder_of_files])
def test_a_line_that_is_no_json_is_named(source: Callable[[Path], Data], tmp_path: Path) -> None:
    from dataclasses import replace

    from grpo_recipes.worker.data.dataset import prepare_rows

    planned = replace(source(tmp_path), sha256=None)
    file = next(tmp_path.rglob("*.jsonl"))
    with file.open("a") as opened:
        opened.write('\n{"question": "1+1="\n')
    line = file.read_text().count("\n")
    with pytest.raises(Refused, match=f"{file}:{line}: the line is not JSON"):
        prepare_rows(planned, "dataset", tmp_path / "cache", rank=0)


def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    from dataclasses import replace

    from grpo_recipes.worker.data.dataset import prepare_rows

    planned = replace(saved_splits(tmp_path), split="validation")
    with pytest.raises(Refused, match="has no split validation\n  = because: it has test, train"):
        prepare_rows(planned, "dataset", tmp_path / "cache", rank=0)
