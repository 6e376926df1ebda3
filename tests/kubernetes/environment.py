"""Makes environments of their own for the programs that judge files for clusters.

`python tests/kubernetes/environment.py` takes a minute and 160 MB, `... skypilot` as well some minutes and 460 MB more.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".environments-kubernetes"
STAMP = "made-from.txt"
PACKAGES = {
    "kubernetes": ["kubernetes-validate==1.37.0", "kubeflow-trainer-api==2.3.0"],
    "skypilot": ["skypilot==0.14.1"],
}


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
    stamp, wanted = FOLDER / name / STAMP, " ".join(PACKAGES[name])
    print(f"installing {wanted} into {FOLDER.name}/{name}", flush=True)
    stamp.unlink(missing_ok=True)
    venv.create(FOLDER / name, with_pip=True, clear=True)
    pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
    if subprocess.run(pip).returncode != 0:
        subprocess.run(pip, check=True)  # a download can break off
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    for wanted_name in ["kubernetes", *sys.argv[1:]]:
        make(wanted_name)
