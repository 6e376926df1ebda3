"""What SkyPilot accepts as names in a task.

Source of the names of variables: sky/utils/schemas.py of 0.14.1.
"""

import re
from collections.abc import Iterator, Mapping

from grpo_recipes.facts.kubernetes_words import IMAGE

GPUS = ("L4", "A10G", "L40S", "A100", "A100-80GB", "H100", "H200", "B200")
"""Those that compute in bfloat16, by SkyPilot's names."""
_IMAGE_WORDS = "a reference to an image, such as registry.example.com/team/grpo-run:1"
_BUCKET = r"[a-z][a-z0-9]*://[A-Za-z0-9][A-Za-z0-9._/-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def faults(section: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each value of a recipe's skypilot section that is no such name: its key, and what it has to be."""
    image, storage, secrets = (section.get(key) for key in ("image", "storage", "secrets"))
    if image is not None and not re.fullmatch(IMAGE, str(image)):
        yield "image", _IMAGE_WORDS
    if storage is not None and not re.fullmatch(_BUCKET, str(storage)):
        yield "storage", "the address of a bucket, such as s3://my-runs"
    if isinstance(secrets, list | tuple) and not all(re.fullmatch(_VARIABLE, str(name)) for name in secrets):
        yield "secrets", "names of environment variables, such as HF_TOKEN, without their values"
