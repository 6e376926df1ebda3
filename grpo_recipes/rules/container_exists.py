"""The image of a Slurm job's container exists, and its mounts have absolute paths.

A wrong image or mount ends the job when its machines start, after it has waited in the queue. pyxis then prints
enroot's message, and Apptainer treats a path that does not exist as a name in the current folder. pyxis reads squashfs
files and separates a registry from the rest of a name with `#`: it looks up `nvcr.io/team/image` on Docker Hub. In both
runtimes a comma ends a mount. The job itself checks that each of its machines has the image, so use `--accept WLD012`
for an image that exists only there.
"""

import os
import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import flow, nearest_words
from grpo_recipes.facts.container_options import container_faults
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm

ID = "WLD012"
KEY = "slurm.container"


def check(context: Context) -> Iterator[Finding]:
    container = context.settings.under(KEY) if is_slurm(context) else {}
    if not {"image", "runtime", "mounts"} <= container.keys():
        return  # WLD005 reports that the section has no effect, and the schema what is missing
    if any(path[:2] == ("slurm", "container") for path in context.refused):
        return
    faulty = set()
    for key, expected in container_faults(container):
        name, _, number = key.partition(".")
        value = container[name][int(number)] if number else container[name]  # type: ignore[index]
        faulty.add(name)
        message, because = f"{container['runtime']} does not take {flow(value)}", f"it has to be {expected}"
        better = _better(str(value), context.source.directory(("slurm", "container", "image"))) if not number else None
        if better is not None and not [*container_faults(container | {"image": better, "mounts": []})]:
            yield context.wrong(message, f"{KEY}.{name}", because, better)
        else:
            yield context.finding(message, f"{KEY}.{name}", because, fix=f"{name}: {expected}")
    image = str(container["image"])
    if "image" not in faulty and image.startswith("/") and not os.path.exists(image):
        yield _missing(context, image)


def _better(image: str, folder: str) -> str | None:
    """The image as it can be written: a path that is there as an absolute one, a registry with enroot's sign."""
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(image)))
    if os.path.exists(path):
        return path
    parts = re.fullmatch(r"(?:docker://)?([A-Za-z0-9-]+[.:][A-Za-z0-9.:-]*)/(.+)", image)
    return f"{parts[1]}#{parts[2]}" if parts else None


def _missing(context: Context, image: str) -> Finding:
    parent, name = os.path.split(image)
    try:
        near = nearest_words(name, sorted(os.listdir(parent))[:1000], cutoff=0.75)
        because = f"{parent} has no {name}"
    except OSError:
        near, because = [], f"there is no folder {parent}"
    fix = f"image: {os.path.join(parent, near[0])}, if you meant that" if near else "the path of an image that exists"
    return context.finding(f"image {image} does not exist", f"{KEY}.image", because, fix=fix)
