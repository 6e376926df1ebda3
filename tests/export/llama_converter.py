"""`python tests/export/llama_converter.py`: llama.cpp's converter in .llama.cpp, some seconds and 77 MB the first time.

It has no package of its own; the source archive of llama-cpp-python has the llama.cpp that it was made with. What it
imports beside the training stack lies in a folder of its own, for PYTHONPATH: the stack of the other tests stays as it
is.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

RELEASE = "llama-cpp-python==0.3.36"
IMPORTED = ("gguf==0.19.0", "sentencepiece==0.2.3", "protobuf==7.36.2")
FOLDER = Path(__file__).parents[2] / ".llama.cpp"
CONVERTER = FOLDER / "convert_hf_to_gguf.py"
PACKAGES = FOLDER / "packages"
_STAMP = FOLDER / "made-from.txt"
_MADE_FROM = "\n".join((RELEASE, *IMPORTED))
_WITHIN = "/vendor/llama.cpp/"
_PARTS = ("convert_hf_to_gguf.py", "conversion/", "gguf-py/gguf/")


def make() -> None:
    """Downloads the converter, unless it is there. Raises CalledProcessError when pip fails twice."""
    if _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == _MADE_FROM:
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    _pip("install", "--target", str(PACKAGES), *IMPORTED)
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-binary", "llama-cpp-python", "--dest", folder, RELEASE)
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            for member in packed:
                name = member.name.partition(_WITHIN)[2]
                if member.isfile() and name.startswith(_PARTS):
                    member.name = name
                    packed.extract(member, FOLDER, filter="data")
    _STAMP.write_text(_MADE_FROM, encoding="utf-8")


def _pip(command: str, *more: str) -> None:
    words = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps", *more]
    if subprocess.run(words).returncode != 0:
        time.sleep(5)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    make()
