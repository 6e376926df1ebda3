"""Makes environments of their own for the packages that TRL's own environments need.

`python tests/openreward/services.py` takes a minute and 200 MB; `... harbor` as well, with Python 3.12, 500 MB more.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".environments-openreward"
STAMP = "made-from.txt"
# Harbor has no trainer in its environment: trl alone, and what reads the rows.
PACKAGES = {"openreward": ["openreward==0.1.167"], "harbor": ["harbor==0.26.0", "datasets==5.2.0"]}
WITHOUT_THEIRS = {"openreward": [], "harbor": ["trl==1.16.0"]}
PYTHONS = {"openreward": sys.executable, "harbor": "python3.12"}


def python_of(name: str) -> Path:
    """The Python of an environment, whether it is there or not."""
    return FOLDER / name / "bin" / "python"


def is_made(name: str) -> bool:
    """Whether an environment is there with these packages."""
    stamp = FOLDER / name / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == " ".join(PACKAGES[name])


def make(name: str) -> None:
    """Makes an environment, unless it is there with these packages. Raises CalledProcessError when pip fails."""
    if is_made(name):
        return
    print(f"installing {' '.join(PACKAGES[name])} into {FOLDER.name}/{name}", flush=True)
    subprocess.run([PYTHONS[name], "-m", "venv", "--clear", str(FOLDER / name)], check=True)
    pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PACKAGES[name]], check=True)
    if WITHOUT_THEIRS[name]:
        subprocess.run([*pip, "--no-deps", *WITHOUT_THEIRS[name]], check=True)
    (FOLDER / name / STAMP).write_text(" ".join(PACKAGES[name]), encoding="utf-8")


if __name__ == "__main__":
    for wanted_name in ["openreward", *sys.argv[1:]]:
        make(wanted_name)
