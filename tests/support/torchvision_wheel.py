"""Fetches torchvision and num2words, which some processors need, into a folder outside .venv.

    python tests/support/torchvision_wheel.py build/torchvision

If torch is a CPU build and the index has only torchvision's CUDA build, the compiled operators cannot be loaded. Image
processors do not call them; torchvision only checks that two of them are registered.
"""

import subprocess
import sys
from pathlib import Path

PACKAGES = ("torchvision==0.28.0", "num2words==0.5.14")
"""torchvision 0.28 matches torch 2.13, which constraints/cpu.txt pins."""
_REGISTERED = """
if not _has_ops():
    _named = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _named.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def main(folder: Path) -> None:
    """Fetches the packages into the folder, unless it is complete."""
    done = folder / "done"
    if done.exists():
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*pip, "--no-deps", "--target", str(folder), *PACKAGES], check=True)
    with (folder / "torchvision" / "extension.py").open("a", encoding="utf-8") as file:
        file.write(_REGISTERED)
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
