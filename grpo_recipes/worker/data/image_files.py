"""Opens image files: only in formats that Pillow decodes itself, within limits, and as a viewer shows them."""

import io
import math
import re
from typing import Any

from grpo_recipes.worker._shared.inputs import IMAGES, decode_images

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Pillow decodes these itself; a file of any other format, whatever its name, is not opened."""
MOST_PIXELS = 89_478_485
"""Where Pillow 13 begins to warn of decompression bombs (Image.MAX_IMAGE_PIXELS)."""
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N")


def unreadable_image(content: bytes) -> str | None:
    """Returns why an image cannot be decoded, or None. A JPEG is decoded completely, at an eighth of its size."""
    from PIL import UnidentifiedImageError

    try:
        with open_image(content) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"it has {image.width:,} x {image.height:,} pixels, and the most is {MOST_PIXELS:,}"
            image.draft("RGB", (1, 1))
            _as_rgb(image)
    except UnidentifiedImageError:
        return f"it is not an image of a format that grpo-run opens: {', '.join(FORMATS)}"
    except Exception as problem:  # decoders raise all kinds of exceptions
        return re.sub(r"<_io\.BytesIO[^>]*>", "its bytes", f"{type(problem).__name__}: {problem}")[:200]
    return None


def open_image(content: bytes) -> Any:
    """Returns the Pillow image of a file, of which only the header was read. Raises Pillow's errors."""
    from PIL import Image as Pillow

    return Pillow.open(io.BytesIO(content), formats=FORMATS)


def image_as_in_rows(content: bytes, most: int | None) -> Any:
    """Returns the Pillow image of a file, converted like a row's. Raises ValueError if it cannot be decoded.

    most: maximum pixels, as dataset.max_pixels.
    """
    if (fault := unreadable_image(content)) is not None:
        raise ValueError(f"an image cannot be used: {fault}")
    return decode_images({IMAGES: [{"bytes": image_to_keep(content, most), "path": None}]})[IMAGES][0]


def _as_rgb(image: Any) -> Any:
    """Returns the image upright, with white instead of transparency, and the upper 8 of 16 bits.

    Pillow's own convert would turn every 16-bit value above 255 white. Raises Pillow's errors, and ValueError for
    pixels whose range is unknown.
    """
    from PIL import Image as Pillow
    from PIL import ImageOps

    whole = ImageOps.exif_transpose(image)
    if whole.mode in ("I", "F"):
        raise ValueError(f"its pixels are 32-bit numbers (mode {whole.mode}), whose range is unknown")
    if whole.mode in _DEEP:
        whole = whole.point(lambda value: value * (1 / 256)).convert("L")
    elif whole.has_transparency_data:
        whole = whole.convert("RGBA")
        whole = Pillow.alpha_composite(Pillow.new("RGBA", whole.size, "white"), whole)
    return whole.convert("RGB")


def image_to_keep(content: bytes, most: int | None) -> bytes:
    """Returns the bytes that a batch decodes: the unchanged file, or an RGB image scaled down to `most` pixels."""
    from PIL import Image as Pillow

    with open_image(content) as image:
        pixels = image.width * image.height
        is_larger = most is not None and pixels > most
        if not (is_larger or image.mode in _DEEP or image.has_transparency_data):
            return content
        whole = _as_rgb(image)
    if most is not None and is_larger:
        share = math.sqrt(most / pixels)
        size = (max(1, math.floor(whole.width * share)), max(1, math.floor(whole.height * share)))
        whole = whole.resize(size, Pillow.Resampling.BICUBIC)
    written = io.BytesIO()
    whole.save(written, "PNG")
    return written.getvalue()


def grey_image(size: tuple[int, int]) -> bytes:
    from PIL import Image as Pillow

    written = io.BytesIO()
    Pillow.new("RGB", size, (128, 128, 128)).save(written, "PNG")
    return written.getvalue()
