"""Images of rows are read whatever they are written as, scaled, and refused by row where they cannot be used."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.seeing_models import QUESTION, png, square, write_seeing_model
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack
Rows = list[dict[str, Any]]


@pytest.fixture
def data_of(tmp_path: Path) -> Callable[..., Data]:
    """The data of rows in a .jsonl file, or in a folder that `datasets` saved."""

    def make(rows: Rows, *, features: Any = None, **changes: Any) -> Data:
        path = tmp_path / "rows.jsonl"
        kind: dict[str, Any] = {}
        if any(isinstance(value, bytes) for row in rows for value in row.values()) or features is not None:
            from datasets import Dataset

            path = tmp_path / "saved"
            Dataset.from_list(rows, features=features).save_to_disk(str(path))
            kind = {"source": "folder", "format": None}
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        planned = planned_data(path, columns={}, **{"images": ("picture",), **kind, **changes})
        return Data(**planned)

    return make


def prepared(data: Data, folder: Path, seen: dict[str, object] | None = None) -> Any:
    from grpo_recipes.worker.data.dataset import prepare_rows

    return prepare_rows(data, "dataset", folder / "cache", 0, seen)


def images_of(rows: Any, place: int = 0) -> list[Any]:
    from grpo_recipes.worker._shared.inputs import decode_images

    found: list[Any] = decode_images(rows[place])["images"]
    return found


def red(side: int = 20) -> bytes:
    return png(square("red", random.Random(1), side))


def row(picture: object) -> dict[str, Any]:
    return {"question": QUESTION, "picture": picture}


def test_paths_bytes_and_images_of_datasets_are_the_same_images(data_of: Callable[..., Data], tmp_path: Path) -> None:
    from datasets import Features, Image, Value

    (tmp_path / "red.png").write_bytes(red())
    as_images = Features({"question": Value("string"), "picture": Image()})
    texts = prepared(data_of([row("red.png")]), tmp_path / "a")
    raw = prepared(data_of([row(red())]), tmp_path / "b")
    structs = prepared(data_of([row({"bytes": red(), "path": None})], features=as_images), tmp_path / "saved-2")
    listed = prepared(data_of([row(["red.png", "red.png"])], images=("picture",)), tmp_path / "c")

    assert texts.column_names == ["question", "prompt", "images"]
    assert [images_of(rows)[0].tobytes() for rows in (texts, raw, structs)] == [images_of(texts)[0].tobytes()] * 3
    assert [image.mode for image in images_of(texts)] == ["RGB"]
    assert len(images_of(listed)) == 2


def test_columns_of_images_come_in_their_order(data_of: Callable[..., Data], tmp_path: Path) -> None:
    drawn = random.Random(1)
    for name in ("red", "blue"):
        (tmp_path / f"{name}.png").write_bytes(png(square(name, drawn)))
    data = data_of([{"question": QUESTION, "one": "red.png", "two": "blue.png"}], images=("two", "one"))

    first, second = images_of(prepared(data, tmp_path))

    assert (first.getpixel((28, 28)), second.getpixel((28, 28))) == ((0, 0, 255), (255, 0, 0))


def test_larger_images_are_scaled_down_in_their_shape(data_of: Callable[..., Data], tmp_path: Path) -> None:
    from PIL import Image

    for name, size in (("wide", (400, 100)), ("small", (10, 10))):
        Image.new("RGB", size).save(tmp_path / f"{name}.png")
    rows = prepared(data_of([row("wide.png"), row("small.png")], max_pixels=10_000), tmp_path)

    assert [images_of(rows, place)[0].size for place in (0, 1)] == [(200, 50), (10, 10)]


def test_a_digest_of_all_images_is_kept_for_a_resume(data_of: Callable[..., Data], tmp_path: Path) -> None:
    digests = []
    for side in (20, 20, 24):
        seen: dict[str, object] = {}
        (tmp_path / "red.png").write_bytes(red(side))
        prepared(data_of([row("red.png")]), tmp_path / f"{len(digests)}", seen)
        digests.append(seen["dataset.images"])

    assert digests[0] == digests[1] != digests[2]


def broken() -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.effect_noise((300, 300), 90).save(written, "JPEG")
    return written.getvalue()[:3000]


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ([None], "it is null"),
        ("", "its path is empty; a row of text has null"),
        ("gone.png", "gone.png: No such file or directory"),
        ("http://127.0.0.1:9/a.png", "is a URL, and grpo-run downloads no images"),
        ("data:image/png;base64,AAAA", "is a URL, and grpo-run downloads no images"),
        ("text.png", "it is not an image of a format that grpo-run opens: PNG, JPEG, WEBP, GIF, BMP, TIFF"),
        ("cut.jpg", "OSError: image file is truncated"),
        (7, "neither a path nor the bytes"),
    ],
)
def test_an_image_that_cannot_be_used_is_refused_by_its_row(
    picture: object, says: str, data_of: Callable[..., Data], tmp_path: Path
) -> None:
    (tmp_path / "red.png").write_bytes(red())
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "cut.jpg").write_bytes(broken())
    as_list = isinstance(picture, list)
    data = data_of([row(picture if picture == 7 else ["red.png"] if as_list else "red.png"), row(picture)])

    with pytest.raises(Refused) as refused:
        prepared(data, tmp_path)

    (finding,) = refused.value.findings
    assert says in " ".join((finding.message, *finding.because)) and finding.fix
    assert ("row 1" if picture == 7 else "row 2") in finding.message


@pytest.mark.parametrize(
    ("rows", "changes", "says"),
    [
        ([{"question": QUESTION, "image": "a.png"}], {"images": ()}, "a column `image` that dataset.images does not"),
        ([{"question": QUESTION, "photo": "a.png"}], {}, "no column `picture`"),
        ([{**row("a.png"), "images": "b"}], {}, "a column `images` that dataset.images does not name"),
        ([row("a.png")], {"prompt_format": "standard"}, "it is plain text"),
        ([{"prompt": [{"role": "developer", "content": "x"}], "picture": "a.png"}], {"prompt": None}, "role developer"),
        ([{"prompt": [{"role": "system", "content": "x"}], "picture": "a.png"}], {"prompt": None}, "no user message"),
        (
            [{"prompt": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "picture": "a.png"}],
            {"prompt": None},
            "a list of parts",
        ),
        (
            [{"prompt": [{"role": "user", "content": [{"type": "image_url", "text": "x"}]}], "picture": "a.png"}],
            {"prompt": None},
            "a message has an image",
        ),
    ],
)
def test_rows_that_images_do_not_fit_are_refused(
    rows: Rows, changes: dict[str, Any], says: str, data_of: Callable[..., Data], tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(red())

    with pytest.raises(Refused) as refused:
        prepared(data_of(rows, **changes), tmp_path)

    (finding,) = refused.value.findings
    assert says in " ".join((finding.message, *finding.because)) and finding.fix


@pytest.mark.parametrize("picture", [None, []])
def test_a_row_without_an_image_is_text(picture: object, data_of: Callable[..., Data], tmp_path: Path) -> None:
    from grpo_recipes.worker.data.images import WithGreyImages, decoding, rows_of_text

    (tmp_path / "red.png").write_bytes(red())
    data = data_of([row(["red.png"] if picture == [] else "red.png"), row(picture)])

    rows = prepared(data, tmp_path)

    assert rows_of_text(rows) == [1] and rows_of_text(rows.select([1, 0, 1])) == [0, 2]
    assert [len(one["images"]) for one in decoding(rows)] == [1, 0] and images_of(rows, 1) == []
    assert [len(WithGreyImages(rows)[place]["images"]) for place in (0, 1)] == [1, 0]


def test_paths_and_lists_of_paths_may_be_in_one_column(data_of: Callable[..., Data], tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(red())
    mixed = prepared(data_of([row("a.png"), row(["a.png", "a.png"]), row(None), row([])]), tmp_path)
    assert [len(each["images"]) for each in mixed] == [1, 2, 0, 0]
    with pytest.raises(Refused, match="an image of row 2 cannot be used"):
        prepared(data_of([row(["a.png"]), row("gone.png")]), tmp_path)


def test_a_null_in_one_of_two_columns_is_not_text(data_of: Callable[..., Data], tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(red())

    with pytest.raises(Refused) as refused:
        prepared(data_of([{"question": QUESTION, "one": "red.png", "two": None}], images=("one", "two")), tmp_path)

    (finding,) = refused.value.findings
    assert "it is null" in finding.because[0]


def test_a_source_may_be_text_alone_but_not_all_of_them(data_of: Callable[..., Data], tmp_path: Path) -> None:
    from grpo_recipes.worker.data.images import refuse_no_images
    from grpo_recipes.worker.data.mixture import together

    (tmp_path / "a.png").write_bytes(red())
    data = data_of([row("a.png")])
    seeing = prepared(data, tmp_path / "seeing")
    data = data_of([row(None), row([])])
    text = prepared(data, tmp_path / "text")

    assert len(together((data, data), [seeing, text])) == 3
    refuse_no_images([replace(data, max_rows=1)], [text.select([0])], "dataset")
    with pytest.raises(Refused, match="no row has an image"):
        together((data, data), [text, text])
    with pytest.raises(Refused, match="no row has an image"):
        refuse_no_images([data], [text], "dataset")


def test_sources_have_images_all_or_none(data_of: Callable[..., Data], tmp_path: Path) -> None:
    from grpo_recipes.worker.data.mixture import together

    (tmp_path / "a.png").write_bytes(red())
    seeing = data_of([row("a.png")])
    rows = [prepared(data, tmp_path / str(place)) for place, data in enumerate((seeing, replace(seeing, images=())))]

    with pytest.raises(Refused, match="some sources have images"):
        together((seeing, seeing), rows)


@pytest.mark.parametrize(
    ("chosen", "stay"),
    [
        pytest.param({"max_prompt_tokens": 40}, [0, 3], id="a limit"),
        pytest.param({"filter": "{{ prompt_tokens > 40 }}"}, [1, 2], id="a filter"),
    ],
)
def test_the_tokens_of_images_are_counted(
    chosen: dict[str, Any], stay: list[int], data_of: Callable[..., Data], tmp_path: Path
) -> None:
    from transformers import AutoProcessor

    from grpo_recipes.worker.data.dataset import prepare_rows
    from grpo_recipes.worker.data.prompt_tokens import PromptTokens

    processor = AutoProcessor.from_pretrained(write_seeing_model(tmp_path / "model"))
    plan: Any = SimpleNamespace(arguments=SimpleNamespace(GRPOConfig={}), model="", tokenizer="", tools=())
    tokens = PromptTokens(plan, lambda: processor, tuple)
    (tmp_path / "red.png").write_bytes(red())
    data = data_of([{**row(["red.png"] * count), "place": place} for place, count in enumerate((1, 2, 2, 1))], **chosen)
    rows = prepare_rows(data, "dataset", tmp_path / "cache", 0, tokens=tokens)
    assert rows["place"] == stay
    for place, images in zip(range(len(rows)), rows["images"], strict=True):
        shown = [
            {"role": "user", "content": [*({"type": "image"} for _ in images), {"type": "text", "text": QUESTION}]}
        ]
        text = processor.apply_chat_template(shown, add_generation_prompt=True)
        expected = len(processor(text=text, images=images_of(rows, place))["input_ids"][0])
        assert tokens.counts([rows[place]["prompt"]], [images]) == [expected]


def test_the_token_of_an_image_in_a_text_is_refused(data_of: Callable[..., Data], tmp_path: Path) -> None:
    from grpo_recipes.worker.data.images import refuse_written_tokens

    (tmp_path / "a.png").write_bytes(red())
    rows = prepared(data_of([{"question": "what is in <image> ?", "picture": "a.png"}]), tmp_path)

    with pytest.raises(Refused, match=r"dataset: a prompt contains <image>(.|\n)*preflight names the row"):
        refuse_written_tokens(SimpleNamespace(image_token="<image>"), rows, "dataset", None)
    with pytest.raises(Refused, match="contains <image>"):  # of ms-swift and LLaVA, which Qwen reads as text
        refuse_written_tokens(SimpleNamespace(image_token="<|image_pad|>"), rows, "dataset", None)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "evaluation: the prompt of row 2 contains <image>"),
        ({"filter": "{{ true }}"}, "evaluation: a prompt contains <image>"),
    ],
)
def test_a_run_names_the_row_with_the_token_of_an_image(
    changes: dict[str, Any], says: str, data_of: Callable[..., Data], tmp_path: Path
) -> None:
    from grpo_recipes.worker.data.chosen_rows import refuse_tokens_of_images

    (tmp_path / "a.png").write_bytes(red())
    data = data_of([row("a.png"), {"question": "<image>", "picture": "a.png"}])
    written = prepared(data, tmp_path)
    fine, processor = written.select([0]), SimpleNamespace(image_token="<image>")
    one: Any = SimpleNamespace(section="evaluation", data=replace(data, **changes))
    plan: Any = SimpleNamespace(sources=(), data=data, evaluation=SimpleNamespace(sets=(one,)))

    with pytest.raises(Refused, match=says):
        refuse_tokens_of_images(plan, processor, fine, [written])
    with pytest.raises(Refused, match="dataset: the prompt of row 2 contains <image>"):
        refuse_tokens_of_images(plan, processor, written, [fine])
    plan.sources, named = (data,), written.add_column("source_name", ["charts", "maps"])
    with pytest.raises(Refused, match=r"datasets\.maps: a prompt contains <image>"):
        refuse_tokens_of_images(plan, processor, named, [fine])
