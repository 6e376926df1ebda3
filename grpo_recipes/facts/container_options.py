"""The images and mounts that container runtimes accept.

Source: args.c and pyxis_slurmstepd.c of pyxis 0.24.0, docker.sh of enroot 4.1.2, Apptainer's manual of 1.4.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
_IMAGE = rf"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?{_PART}(/{_PART})*{_TAG}"
_OF_A_RUNTIME = {
    "pyxis": (
        rf"/.*\.(sqsh|squashfs)|(?!.*\.(sqsh|squashfs|sif)$)(dockerd?://)?([^@/#\s]+@)?([A-Za-z0-9.-]+(:[0-9]+)?#)?"
        rf"(?![^/]*[.:][^/]*/){_IMAGE}",
        "the absolute path of a .sqsh, or an image as enroot writes it, such as nvcr.io#team/grpo-run:1",
    ),
    "apptainer": (
        r"/.*|(docker|library|oras|shub|https)://\S+",
        "the absolute path of a .sif, a .sqsh or a folder, or an address such as docker://nvcr.io/team/grpo-run:1",
    ),
}
_PLACE = r"/[^:,]*"


def container_faults(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each key of a recipe's slurm.container whose value its runtime would refuse, and the values that it accepts."""
    form, words = _OF_A_RUNTIME[container["runtime"]]
    if not container["image"].isprintable() or not re.fullmatch(form, container["image"]):
        yield "image", words
    for index, mount in enumerate(container["mounts"]):
        if not mount.isprintable() or not re.fullmatch(rf"{_PLACE}(:{_PLACE}(:(ro|rw))?)?", mount):
            yield f"mounts.{index}", "/source, /source:/target or /source:/target:ro, absolute and without a comma"
