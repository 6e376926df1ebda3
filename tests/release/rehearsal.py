"""Makes a wheel of a TRL that was never released: `python tests/release/rehearsal.py FOLDER`.

It is the installed TRL with another version, a new field, another default and another name of a method, so that
`make release-of trl==VERSION RELEASE_ARGS=--rehearse` can show what it finds before TRL has a newer release.
"""

import importlib.metadata
import sys
import zipfile
from pathlib import Path

from packaging.version import Version

FIELD, DEFAULT, METHOD = "length_bonus", ("epsilon", 0.2, 0.25), ("_calculate_rewards", "_judge_completions")
CONFIG = "trl/trainer/grpo_config.py"
_BEFORE = "    epsilon: float = field(\n        default=0.2,"
_AFTER = (
    '    length_bonus: float = field(default=0.0, metadata={"help": "Bonus for each token."})\n'
    "    epsilon: float = field(\n        default=0.25,"
)


def next_minor(version: str) -> str:
    """The minor release after this one: "1.17.0" of "1.16.2"."""
    major, minor = Version(version).release[:2]
    return f"{major}.{minor + 1}.0"


def rehearsed_wheel(folder: Path, *, changes: bool = True) -> tuple[str, Path]:
    """The version and the file of the wheel. Raises ValueError if TRL's source has no place for a change.

    changes: beside the version.
    """
    installed = importlib.metadata.distribution("trl")
    version = next_minor(installed.version)
    old, new = f"trl-{installed.version}.dist-info", f"trl-{version}.dist-info"
    path = folder / f"trl-{version}-py3-none-any.whl"
    names = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in installed.files or ():
            name = str(file)
            if name.startswith("..") or "__pycache__" in name or name.endswith(("RECORD", "INSTALLER", "REQUESTED")):
                continue
            content = Path(str(installed.locate_file(file))).read_bytes()
            if name.endswith("METADATA"):
                numbers = (f"\nVersion: {number}\n".encode() for number in (installed.version, version))
                content = content.replace(*numbers, 1)
            if changes and name.endswith(".py"):
                content = _changed(name, content.decode()).encode()
            names.append(name.replace(old, new))
            wheel.writestr(names[-1], content)
        record = "".join(f"{name},,\n" for name in [*names, f"{new}/RECORD"])
        wheel.writestr(f"{new}/RECORD", record)
    return version, path


def _changed(name: str, text: str) -> str:
    if name == CONFIG:
        if _BEFORE not in text:
            raise ValueError(f"{CONFIG} has no epsilon of 0.2")
        text = text.replace(_BEFORE, _AFTER, 1)
    return text.replace(*METHOD)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*rehearsed_wheel(Path(sys.argv[1])), sep="\n")
