"""What pip and uv would install, asked of both without installing: a resolver's answer, or why there is none.

Both read the metadata of a wheel from the index in parts, so none of the large ones is downloaded. They are in
.venv-resolve, an environment of their own, which `make resolve` makes.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

TOOLS = Path(__file__).parents[1] / ".venv-resolve" / "bin"
# The oldest C library that has wheels of everything: that of Debian 10, RHEL 8 and Ubuntu 20.04, and for what vLLM
# needs (llguidance) that of Debian 11, RHEL 9 and Ubuntu 20.04.
PLATFORM, PLATFORM_OF_VLLM = "x86_64-manylinux_2_28", "x86_64-manylinux_2_31"
NO_ANSWER = re.compile(
    r"Failed to fetch|Request failed|error sending request|operation timed out|Network connectivity is disabled"
    r"|connection broken|Max retries exceeded|Read timed out|NewConnectionError|\b50[0-9] (Server Error|Bad Gateway)"
)
# These have no wheel, so their metadata is made from their source.
ONLY_SOURCE = ("deepspeed",)
_LONGEST_S = 600
_SHOWN = 2_000


class Answer(NamedTuple):
    """The version of each package that would be installed, None where there is no such set, with the resolver's words.

    unreachable: there is no answer since the package index did not give one.
    """

    versions: dict[str, str] | None
    said: str = ""
    unreachable: bool = False


def asked_of_uv(requirements: Sequence[str], python: str, constraints: Path | None = None) -> Answer:
    """What uv would install for this Python on x86-64 Linux, whatever machine this is."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = _written(Path(folder, "requirements.in"), requirements)
        command = [str(TOOLS / "uv"), "pip", "compile", str(wanted), "--quiet", "--no-header", "--no-annotate"]
        platform = PLATFORM_OF_VLLM if any(line.startswith("vllm") for line in requirements) else PLATFORM
        command += ["--python-platform", platform, "--python-version", python, "--no-config"]
        command += _only_wheels(requirements) + (["--constraints", str(constraints)] if constraints else [])
        done = _run(command, dict(os.environ))
    if done.returncode:
        return refused(done.stderr)
    return Answer(pins(done.stdout))


def interpreter_of(python: str) -> str | None:
    """An interpreter of this Python on this machine, None without one."""
    done = _run([str(TOOLS / "uv"), "python", "find", python, "--no-python-downloads", "--system"], dict(os.environ))
    return done.stdout.strip() or None


def asked_of_pip(requirements: Sequence[str], interpreter: str, constraints: Path | None = None) -> Answer:
    """What pip would install into a new environment of this interpreter, from the index alone."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = _written(Path(folder, "requirements.in"), requirements), Path(folder, "report.json")
        command = [str(TOOLS / "pip"), "--python", interpreter, "install", "--dry-run", "--ignore-installed", "--quiet"]
        # Only when it tries again does pip say that the index is down; else it finds no version of anything.
        command += [
            "--retries",
            "3",
            "--use-feature",
            "fast-deps",
            "--report",
            str(report),
            "--requirement",
            str(wanted),
        ]
        command += _only_wheels(requirements) + (["--constraint", str(constraints)] if constraints else [])
        others = {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"}  # builds for this machine alone, such as torch's for the CPU
        done = _run(
            command, {**{k: v for k, v in os.environ.items() if k not in others}, "PIP_CONFIG_FILE": os.devnull}
        )
        if done.returncode:
            return refused(done.stderr)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return Answer({canonicalize_name(one["metadata"]["name"]): one["metadata"]["version"] for one in found})


def pins(text: str) -> dict[str, str]:
    """Package -> version from lines "name==version", by canonical name; other lines are left out."""
    found = re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", text)
    return {canonicalize_name(name): version for name, version in found}


def _written(file: Path, lines: Sequence[str]) -> Path:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def _only_wheels(requirements: Sequence[str]) -> list[str]:
    """So that a package without a wheel for this Python is found out, where nothing needs its source anyway."""
    return [] if any(line.startswith(ONLY_SOURCE) for line in requirements) else ["--only-binary", ":all:"]


def _run(command: Sequence[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"Read timed out: no answer in {_LONGEST_S} s")


def refused(said: str) -> Answer:
    """The answer of a resolver that ended with an error, by its words."""
    return Answer(None, said.strip()[-_SHOWN:], NO_ANSWER.search(said) is not None)
