"""Image files as they come: each broken one is named by its row, and each good one shows what its viewer shows."""

import io
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.seeing_models import QUESTION, png, square
from worker_runs import planned_data

from grpo_recipes.cli.trained_run import image_part
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import LARGEST_IMAGE
from grpo_recipes.worker._shared.inputs import decode_images
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack
UNKNOWN = "it is not an image of a format that grpo-run opens: PNG, JPEG, WEBP, GIF, BMP, TIFF"
RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def data_of(folder: Path, *pictures: object, **changes: Any) -> Data:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"question": QUESTION, "picture": one}) + "\n" for one in pictures))
    return Data(**planned_data(path, columns={}, images=("picture",), **changes))


def prepared(data: Data, folder: Path) -> Any:
    from grpo_recipes.worker.data.dataset import prepare_rows

    return prepare_rows(data, "dataset", folder / "cache", 0, {})


def why(data: Data, folder: Path) -> str:
    """What is said of the second row."""
    with pytest.raises(Refused) as refused:
        prepared(data, folder)
    (finding,) = refused.value.findings
    assert finding.message.startswith("dataset: ") and "row 2 " in finding.message
    assert str(data.path) in (finding.fix or "")
    return " ".join((finding.message, *finding.because))


def halves(mode: str = "RGB") -> Any:
    """40 x 20 pixels, red on the left and blue on the right."""
    from PIL import Image

    image = Image.new("RGB", (40, 20), RED)
    image.paste(BLUE, (20, 0, 40, 20))
    return image.convert(mode)


def written(image: Any, kind: str, **how: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **how)
    return stream.getvalue()


def noise(kind: str, size: tuple[int, int] = (90, 90), **how: Any) -> bytes:
    from PIL import Image

    return written(Image.effect_noise(size, 90).convert("RGB"), kind, **how)


def of_size(width: int, height: int) -> bytes:
    """A PNG whose header says so."""
    import struct
    import zlib

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


def cut(kind: str, share: float, **how: Any) -> Callable[[], bytes]:
    def make() -> bytes:
        content = noise(kind, **how)
        return content[: int(len(content) * share)]

    return make


def with_text_in_the_middle() -> bytes:
    content = noise("PNG")
    return content[: len(content) // 2] + b"x" * 99 + content[len(content) // 2 + 99 :]


def float_tiff() -> bytes:
    from PIL import Image

    return written(Image.new("F", (9, 9), 0.5), "TIFF")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n%%EOF\n"
BROKEN: dict[str, tuple[Callable[[], bytes | None], str]] = {
    "empty.png": (lambda: b"", UNKNOWN),
    "one_byte.png": (lambda: b"\x89", UNKNOWN),
    "signature.png": (lambda: b"\x89PNG\r\n\x1a\n", ""),
    "text.png": (lambda: b"not an image", UNKNOWN),
    "page.jpg": (lambda: b"<html><body>404</body></html>", UNKNOWN),
    "drawn.svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", UNKNOWN),
    "pointer.png": (lambda: b"version https://git-lfs.github.com/spec/v1\nsize 9\n", UNKNOWN),
    "heic.heic": (lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 99, UNKNOWN),
    "avif.avif": (lambda: b"\0\0\0\x18ftypavif\0\0\0\0mif1avif" + b"\0" * 99, UNKNOWN),
    "portable.ppm": (lambda: noise("PPM"), UNKNOWN),
    "drawn.png": (lambda: EPS, UNKNOWN),
    "movie.mp4": (lambda: b"\0\0\0\x18ftypisom\0\0\0\0isomiso2" + b"\0" * 99, UNKNOWN),
    "a.pdf": (lambda: b"%PDF-1.7\n%%EOF", UNKNOWN),
    "zeros.png": (lambda: bytes(5000), UNKNOWN),
    "bomb.png": (lambda: of_size(60_000, 60_000), "DecompressionBombError: Image size (3600000000 pixels)"),
    "large.png": (lambda: of_size(13_000, 13_000), "it has 13,000 x 13,000 pixels, and the most is 89,478,485"),
    "sparse.png": (lambda: None, "it has 268,435,457 bytes, and the most is 268,435,456"),
    "no_size.png": (lambda: of_size(0, 0), ""),
    "other_size.png": (lambda: of_size(300, 300), "truncated"),
    "overwritten.png": (with_text_in_the_middle, ""),
    "float.tiff": (float_tiff, "its pixels are 32-bit numbers (mode F)"),
    **{f"cut_{share}.png": (cut("PNG", share), "") for share in (0.02, 0.3, 0.6, 0.95)},
    **{f"cut_{share}.jpg": (cut("JPEG", share), "") for share in (0.02, 0.1, 0.3, 0.6, 0.95)},
    **{f"progressive_{share}.jpg": (cut("JPEG", share, progressive=True), "") for share in (0.3, 0.8)},
    **{f"cut_{share}.webp": (cut("WEBP", share), "") for share in (0.01, 0.5, 0.9)},
    **{f"cut_{share}.gif": (cut("GIF", share), "") for share in (0.1, 0.5)},
    "cut.bmp": (cut("BMP", 0.5), "truncated"),
    "cut.tiff": (cut("TIFF", 0.5), ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_with_its_row(name: str, tmp_path: Path) -> None:
    make, says = BROKEN[name]
    (tmp_path / "good.png").write_bytes(png(square("red", random.Random(1))))
    if (content := make()) is not None:
        (tmp_path / name).write_bytes(content)
    else:
        with (tmp_path / name).open("wb") as sparse:
            sparse.truncate(LARGEST_IMAGE + 1)

    said = why(data_of(tmp_path, "good.png", name, "good.png"), tmp_path)

    assert f"{tmp_path / name}: " in said and says in said


DECODES = """
import sys
from pathlib import Path
from grpo_recipes.worker._shared.imports import quiet_libraries
quiet_libraries()
from datasets import Image
try:
    Image().decode_example({"bytes": Path(sys.argv[1]).read_bytes(), "path": None}).load()
except OSError as problem:
    print(problem)
"""


@pytest.mark.parametrize("is_kept", [False, True], ids=["Pillow alone", "in a worker"])
def test_a_column_of_images_that_datasets_decodes_starts_no_program(
    is_kept: bool, warm_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "drawn.png").write_bytes(EPS)
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/trace\nexit 1\n")
    (tmp_path / "gs").chmod(0o755)
    program = DECODES if is_kept else DECODES.replace("quiet_libraries()\n", "")
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [str(warm_python / "python"), "-Xwarm", "-c", program, str(tmp_path / "drawn.png")]
    done = subprocess.run(words, env=variables, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (tmp_path / "trace").exists() != is_kept, done.stderr
    assert not is_kept or "Unable to locate Ghostscript" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("", "its path is empty"),
        ("folder", "it is not a file"),
        ("pipe", "it is not a file"),
        ("/dev/zero", "/dev/zero: it is not a file"),
        ("loop", "Too many levels of symbolic links"),
        ("dangling", "No such file or directory"),
        ("gone.png", "gone.png: No such file or directory"),
        ("good.png/inside", "Not a directory"),
        ("a\0b.png", "null"),
        ("../gone.png", "../gone.png: No such file or directory"),
        ("x" * 5000, "x...: File name too long"),
        ("d/" * 5000, "File name too long"),
        ("data:image/png;base64,AAAA", "is a URL, and grpo-run downloads no images"),
        ("https://example.com/a.png", "is a URL, and grpo-run downloads no images"),
        ("file:///good.png", "is a URL, and grpo-run downloads no images"),
        ("s3://bucket/a.png", "is a URL, and grpo-run downloads no images"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_path_that_leads_to_no_file_is_named_with_its_row(picture: object, says: str, tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(png(square("red", random.Random(1))))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")

    said = why(data_of(tmp_path, "good.png", picture), tmp_path)

    assert says in said and len(said) < 1000


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_file_that_must_not_be_read_is_named_with_its_row(locked: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for place in ("good.png", "in/locked.png"):
        (tmp_path / place).write_bytes(png(square("red", random.Random(1))))
    taken = tmp_path / ("in/locked.png" if locked == "file" else "in")
    taken.chmod(0)
    try:
        assert "Permission denied" in why(data_of(tmp_path, "good.png", "in/locked.png"), tmp_path)
    finally:
        taken.chmod(0o700)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (["good.png"], ["good.png", None], "it is null"),
        (["good.png"], ["good.png", "gone.png"], "gone.png: No such file"),
        ({"bytes": None, "path": "good.png"}, {"bytes": None, "path": None}, "it is null"),
        ({"bytes": None, "path": "good.png"}, {"bytes": "iVBORw0KGgo=", "path": None}, "its bytes are text"),
    ],
    ids=str,
)
def test_a_list_or_mapping_without_an_image_is_named_with_its_row(
    first: object, second: object, says: str, tmp_path: Path
) -> None:
    (tmp_path / "good.png").write_bytes(png(square("red", random.Random(1))))

    assert says in why(data_of(tmp_path, first, second), tmp_path)


@pytest.mark.parametrize("picture", [7, 0.5, True, {"a": 1}, {}, [["good.png"]], [7], [{"a": None}]], ids=str)
def test_what_is_no_image_at_all_is_refused(picture: object, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        prepared(data_of(tmp_path, picture), tmp_path)

    (finding,) = refused.value.findings
    assert "row 1 " in finding.message and finding.because and finding.fix


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    return written(halves(), kind, exif=exif, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))


def see_through(kind: str = "PNG", mode: str = "RGBA", **how: Any) -> bytes:
    """Red on the left, and on the right a blue that nobody sees."""
    image = halves("RGBA")
    image.putalpha(255)
    image.paste((0, 0, 255, 0), (20, 0, 40, 20))
    return written(image if mode == "RGBA" else image.convert(mode), kind, **how)


def palette() -> bytes:
    """Red, and a blue of the palette that is transparent."""
    from PIL import Image

    image = Image.new("P", (40, 20), 0)
    image.putpalette([*RED, *BLUE])
    image.paste(1, (20, 0, 40, 20))
    return written(image, "PNG", transparency=1)


def of_grey(mode: str, left: int, right: int, kind: str = "PNG") -> bytes:
    from PIL import Image

    image = Image.new(mode, (40, 20), left)
    for x, y in ((x, y) for x in range(20, 40) for y in range(20)):
        image.putpixel((x, y), right)
    return written(image, kind)


def frames(kind: str) -> bytes:
    from PIL import Image

    later = [Image.new("RGB", (40, 20), "green"), Image.new("RGB", (40, 20), "white")]
    return written(halves(), kind, save_all=True, append_images=later, **({"lossless": True} if kind == "WEBP" else {}))


# The file, and the colours in the middle of its halves: the left and the right, or the upper and the lower.
GOOD: dict[str, tuple[Callable[[], bytes], tuple[Any, Any]]] = {
    "plain.png": (lambda: png(halves()), (RED, BLUE)),
    "a_jpeg.png": (lambda: turned(1), (RED, BLUE)),
    "no_extension": (lambda: png(halves()), (RED, BLUE)),
    "a b\u00e4\u540d.png": (lambda: png(halves()), (RED, BLUE)),
    "a.bmp": (lambda: written(halves(), "BMP"), (RED, BLUE)),
    "a.tiff": (lambda: written(halves(), "TIFF"), (RED, BLUE)),
    "a.webp": (lambda: written(halves(), "WEBP", lossless=True), (RED, BLUE)),
    "animated.gif": (lambda: frames("GIF"), (RED, BLUE)),
    "animated.webp": (lambda: frames("WEBP"), (RED, BLUE)),
    "animated.png": (lambda: frames("PNG"), (RED, BLUE)),
    "cmyk.jpg": (lambda: written(halves("CMYK"), "JPEG", quality=100), (RED, BLUE)),
    "palette.png": (lambda: written(halves("P"), "PNG"), (RED, BLUE)),
    "one_bit.png": (lambda: of_grey("1", 0, 1), ((0, 0, 0), WHITE)),
    "grey.png": (lambda: of_grey("L", 100, 200), ((100,) * 3, (200,) * 3)),
    "grey_16_bits.png": (lambda: of_grey("I;16", 100 * 256, 65535), ((100,) * 3, WHITE)),
    "dark_16_bits.tiff": (lambda: of_grey("I;16", 300, 200 * 256, "TIFF"), ((1,) * 3, (200,) * 3)),
    "alpha.png": (see_through, (RED, WHITE)),
    "alpha.webp": (lambda: see_through("WEBP", lossless=True), (RED, WHITE)),
    "grey_alpha.png": (lambda: see_through(mode="LA"), ((76,) * 3, WHITE)),
    "palette_alpha.png": (palette, (RED, WHITE)),
    **{f"turned_{number}.jpg": (lambda number=number: turned(number), (RED, BLUE)) for number in (1, 4, 5, 6)},
    **{f"turned_{number}.jpg": (lambda number=number: turned(number), (BLUE, RED)) for number in (2, 3, 7, 8)},
    "turned.png": (lambda: turned(8, "PNG"), (BLUE, RED)),
    "wrong_turn.jpg": (lambda: turned(99), (RED, BLUE)),
    "of_a_phone.jpg": (lambda: frames("MPO"), ((254, 0, 0), (0, 0, 254))),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_read_as_its_viewer_shows_it_whatever_max_pixels_is(name: str, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.image_files import image_as_in_rows

    make, colours = GOOD[name]
    (tmp_path / name).write_bytes(make())
    is_turned = name.startswith("turned") and name not in {f"turned_{number}.jpg" for number in (1, 2, 3, 4)}

    for most, (width, height) in ((None, (40, 20)), (800, (40, 20)), (200, (20, 10))):
        rows = prepared(data_of(tmp_path, name, max_pixels=most), tmp_path / str(most))
        (image,) = decode_images(rows[0])["images"]
        assert image_as_in_rows((tmp_path / name).read_bytes(), most) == image, "which a user shows the model"
        places = [(height // 2, width // 4), (height // 2, 3 * width // 4)]
        places = places if is_turned else [place[::-1] for place in places]

        assert (image.mode, image.size) == ("RGB", (height, width) if is_turned else (width, height))
        for place, colour in zip(places, colours, strict=True):
            found = image.getpixel(place)
            assert max(abs(one - other) for one, other in zip(found, colour, strict=True)) <= 3, (most, found, colour)


def test_paths_may_be_absolute_lead_out_of_the_folder_and_through_links(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "out.png").write_bytes(png(halves()))
    (folder / "link.png").symlink_to("../out.png")

    rows = prepared(data_of(folder, "../out.png", str(tmp_path / "out.png"), "link.png"), tmp_path)

    assert {decode_images(rows[place])["images"][0].tobytes() for place in range(3)} == {halves().tobytes()}


def test_a_prompt_is_not_shown_with_a_file_without_end(tmp_path: Path) -> None:
    with (tmp_path / "sparse.png").open("wb") as sparse:
        sparse.truncate(LARGEST_IMAGE + 1)
    with pytest.raises(Refusal, match="cannot be read") as refused:
        image_part(str(tmp_path / "sparse.png"))
    assert "it has 268,435,457 bytes, and the most is 268,435,456" in str(refused.value)
