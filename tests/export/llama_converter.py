"""`python tests/export/llama_converter.py`: llama.cpp's converter in .llama.cpp, some seconds and 77 MB the first time.

It has no package of its own; the source archive of llama-cpp-python has the llama.cpp that it was made with.
"""

import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

RELEASE = "llama-cpp-python==0.3.36"
FOLDER = Path(__file__).parents[2] / ".llama.cpp"
CONVERTER = FOLDER / "convert_hf_to_gguf.py"
_STAMP = FOLDER / "made-from.txt"
_WITHIN = "/vendor/llama.cpp/"
_PARTS = ("convert_hf_to_gguf.py", "conversion/", "gguf-py/gguf/")


def make() -> None:
    """Downloads the converter, unless it is there. Raises CalledProcessError when pip fails twice."""
    if _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == RELEASE:
        return
    with tempfile.TemporaryDirectory() as folder:
        _download(folder)
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            for member in packed:
                name = member.name.partition(_WITHIN)[2]
                if member.isfile() and name.startswith(_PARTS):
                    member.name = name
                    packed.extract(member, FOLDER, filter="data")
    _STAMP.write_text(RELEASE, encoding="utf-8")


def _download(folder: str) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = [*pip, "--no-binary", "llama-cpp-python", "--dest", folder, RELEASE]
    if subprocess.run(words).returncode != 0:
        time.sleep(5)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    make()
