"""Reads the images of rows from their columns, checks them once, keeps their bytes, and decodes them per batch."""

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Image
from datasets import Sequence as ListOf  # a list, also before datasets 4

from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import IMAGE_TAG, LARGEST_IMAGE, SOURCE_NAME
from grpo_recipes.worker._shared.inputs import IMAGES, decode_images
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.image_files import grey_image, image_to_keep, unreadable_image

ROLES = ("system", "user", "assistant")
_AT_ONCE, _LONGEST_SHOWN = 32, 500
_TYPE = pa.list_(pa.struct({"bytes": pa.binary(), "path": pa.string()}))
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|data:")


def without_decoding(rows: Any, data: Data) -> Any:
    """Returns the rows with bytes instead of images of `datasets`, which it would decode whenever a row is read."""
    for name in data.images:
        if (feature := _as_bytes(rows.features.get(name))) is not None:
            rows = rows.cast_column(name, feature)
    return rows


def _as_bytes(feature: Any) -> Any:
    if isinstance(feature, Image):
        return Image(decode=False)
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return ListOf(Image(decode=False)) if isinstance(inner, Image) else None


def check_image_columns(data: Data, where: str, columns: Sequence[str]) -> None:
    """Raises Refused if a column of images is missing, or if TRL would take a different column for images."""
    missing = [name for name in data.images if name not in columns]
    if missing:
        raise Refused.of(
            f"{where}: the rows have no column `{missing[0]}`, which dataset.images names",
            because=f"{data.path} has the columns {', '.join(sorted(columns))}",
            fix="dataset.images: the column with the images",
        )
    taken = [name for name in ("image", IMAGES) if name in {*columns, *data.columns} - {*data.images}]
    if taken:
        raise Refused.of(
            f"{where}: the rows have a column `{taken[0]}` that dataset.images does not name",
            because="trl always reads images from a column of this name",
            fix=f"dataset.images: {taken[0]}; or rename it in {data.path}",
        )


def with_images(
    rows: Any, data: Data, where: str, places: Sequence[int] | None, facts: dict[str, object], how: dict[str, Any]
) -> Any:
    """Returns the rows with their images in the column `images`, instead of the columns that they come from.

    A row is text if each of its columns is null or an empty list. places: indices of the rows in the data, if only a
    part. how: keywords for writing them. facts: gets a digest of all images. Raises Refused for an image that
    cannot be read.
    """
    digest, folder, features = hashlib.sha256(), _folder_of(data), rows.features.copy()
    # `datasets` stores paths and lists of paths in one column as JSON.
    mixed = {name for name in data.images if type(features.pop(name)).__name__ == "Json"}

    def make_images(table: pa.Table, indices: Sequence[int]) -> pa.Table:
        columns = [table[name].to_pylist() for name in data.images]
        for name, column in zip(data.images, columns, strict=True):
            column[:] = [each and json.loads(each) for each in column] if name in mixed else column
        cells = []
        for index, values in zip(indices, zip(*columns, strict=True), strict=True):
            row = (index if places is None else places[index]) + 1
            is_text = all(value is None or value == [] for value in values)
            images = [] if is_text else [_read_image(value, folder, data, where, row) for value in _flat(values)]
            for image in images:
                digest.update(hashlib.sha256(image).digest())
            cells.append([{"bytes": image_to_keep(image, data.max_pixels), "path": None} for image in images])
        table = table.drop_columns(list(data.images))
        return table.append_column(IMAGES, pa.array(cells, _TYPE))

    features[IMAGES] = ListOf(Image(decode=False))
    rows = rows.with_format("arrow").map(
        make_images, with_indices=True, batched=True, batch_size=_AT_ONCE, features=features, **how
    )
    facts[f"{where}.images"] = digest.hexdigest()
    return rows.with_format(None)


def refuse_no_images(sources: Sequence[Data], datasets: Sequence[Any], where: str) -> None:
    """Raises Refused if no row of the training has an image. A part of the data may be text alone.

    sources, datasets: the data of the training and their prepared rows.
    """
    if any(not data.images or data.max_rows is not None or data.filter is not None for data in sources):
        return
    if all(len(rows_of_text(rows)) == len(rows) for rows in datasets):
        columns = dict.fromkeys(name for data in sources for name in data.images)
        raise Refused.of(
            f"{where}: no row has an image",
            because=f"{', '.join(columns)} is empty in each of {sum(map(len, datasets))} rows",
            fix="dataset.images: the column with the images; or remove it, and train on text",
        )


def decoding(rows: Any) -> Any:
    """Returns the rows, whose images are decoded to RGB Pillow images on each read; text rows are unchanged."""
    return rows.cast_column(IMAGES, ListOf(Image(mode="RGB"))) if IMAGES in rows.column_names else rows


class WithGreyImages:
    """Prepared rows with each image replaced by a grey one of the same size."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = decode_images(self._rows[index])
        return {**row, IMAGES: [{"bytes": grey_image(image.size), "path": None} for image in row[IMAGES]]}


def _folder_of(data: Data) -> Path | None:
    """Returns the folder that paths of images are relative to; None for rows of the hub, whose files are not here."""
    path = Path(data.path)
    return path.parent if data.source == "file" else path if data.source == "folder" else None


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _read_image(value: Any, folder: Path | None, data: Data, where: str, row: int) -> bytes:
    """Returns the bytes of one image. Raises Refused if they cannot be read or decoded."""
    named = ""

    def refusal(because: str) -> Refused:
        return Refused.of(
            f"{where}: an image of row {row} cannot be used",
            because=because,
            fix=f"leave such rows out of {data.path}, or repair the image",
        )

    if isinstance(value, Mapping) and {"bytes", "path"} & value.keys():
        if isinstance(value.get("bytes"), str):
            raise refusal("its bytes are text; write the image to a file, and put the file's path in the row")
        value = value.get("bytes") if value.get("bytes") is not None else value.get("path")
    if value is None or value == "":
        raise refusal("it is null" if value is None else "its path is empty; a row of text has null instead")
    if isinstance(value, str):
        if _ADDRESS.match(value):
            raise refusal(f"{value[:80]} is a URL, and grpo-run downloads no images; use the path of a file")
        if folder is None and not Path(value).is_absolute():
            raise refusal(f"{value[:80]} is a path, and rows from the hub come without files")
        path = Path(value) if folder is None else folder / value
        named = f"{path}: " if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...: "
        try:
            if not stat.S_ISREG((status := path.stat()).st_mode):  # reading a pipe would block
                raise refusal(f"{named}it is not a file")
            if status.st_size > LARGEST_IMAGE:
                raise refusal(f"{named}it has {status.st_size:,} bytes, and the most is {LARGEST_IMAGE:,}")
            value = path.read_bytes()
        except (OSError, ValueError) as problem:
            raise refusal(f"{named}{getattr(problem, 'strerror', None) or problem}") from problem
    if not isinstance(value, bytes):
        raise refusal(f"{str(value)[:80]} is neither a path nor the bytes of a file")
    if (fault := unreadable_image(value)) is not None:
        raise refusal(f"{named}{fault}")
    return value


def wrong_prompt_for_images(prompt: Any) -> str | None:
    """Returns why images cannot be added to this prompt, which TRL accepts without them; None if they can."""
    if isinstance(prompt, str):
        return "it is plain text, and images need the messages of a conversation"
    for message in prompt:
        if message["role"] not in ROLES:
            return f"a message has the role {message['role']}, and trl puts images among {', '.join(ROLES)} alone"
        if not isinstance(message.get("content"), str):
            return "the content of a message is a list of parts, and images come before the text of one"
    return None if any(message["role"] == "user" for message in prompt) else "it has no user message"


def tokens_of_images(processing: Any) -> list[str]:
    """Returns the texts that a processor takes for an image."""
    named = (getattr(processing, name, None) for name in ("image_token", "boi_token"))  # Gemma 3 looks for the second
    return [token for token in named if isinstance(token, str)]


def refuse_written_tokens(processing: Any, rows: Any, where: str, number: Callable[[int], int] | None) -> None:
    """Raises Refused if a prompt's text contains an image token, which a processor takes for one more image.

    rows: those without images may contain it. number: returns the number of a row from its index, None if the rows were
    chosen or mixed.
    """
    if IMAGES not in rows.column_names:
        return
    tokens = [*tokens_of_images(processing), IMAGE_TAG]
    prompts = (prompt for batch in rows.select_columns("prompt").iter(1000) for prompt in batch["prompt"])
    for index, prompt in enumerate(prompts):
        text, token = next(((turn["content"], t) for turn in prompt for t in tokens if t in turn["content"]), ("", ""))
        if text:
            source = rows.select_columns(SOURCE_NAME)[index][SOURCE_NAME] if SOURCE_NAME in rows.column_names else ""
            row = "a prompt" if number is None else f"the prompt of row {number(index)}"
            which = "; grpo-run preflight names the row" if number is None else ""
            raise Refused.of(
                f"{where}{source and f'.{source}'}: {row} contains {token}",
                because=[f"the text is {text[:100]!r}", f"the processor takes {token} for one more image, or for text"],
                fix=f"remove {token}, as {{{{ question | replace('{token}', '') }}}} does; trl adds images before the "
                f"text{which}",
            )


def rows_of_text(rows: Any) -> list[int]:
    """The indices of prepared rows without an image among rows with images; [] without a column of images."""
    if IMAGES not in rows.column_names:
        return []
    tables = rows.select_columns(IMAGES).with_format("arrow").iter(1000)
    lengths = [length for table in tables for length in pc.list_value_length(table[IMAGES]).to_pylist()]
    return [index for index, length in enumerate(lengths) if not length]
