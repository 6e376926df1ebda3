"""Writes constraints/cuda.txt and cuda12.txt: the stack for GPUs, in the releases that were run without one.

    python constraints/cuda_locks.py       run by the Python of .venv-resolve; `make cuda-locks` does both

One set for every extra and for Python 3.11 to 3.13: what vLLM needs is in it, in the releases of vllm-cpu.txt, and
binds nobody who does not install it. The head of a file names what could not be had in the release of cpu.txt.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from extras import EXTRAS, PYTHONS, requirements_of
from resolving import PLATFORM, PLATFORM_OF_VLLM, TOOLS, pins

FOLDER = Path(__file__).parent
CPU = FOLDER / "cpu.txt"
CPU_WITH_VLLM = FOLDER / "vllm-cpu.txt"
LONGEST_S = 600
# What a file is for, its extras, and what it wants beside them.
FILES = {
    "cuda.txt": (
        "The stack for GPUs with a driver of 580 or newer: torch for CUDA 13, every extra.",
        EXTRAS,
        (),
    ),
    "cuda12.txt": (
        "The stack for GPUs with an older driver, 525 or newer: torch for CUDA 12.8. Every extra but vllm,\n"
        "# which has no release for it within TRL's window.",
        tuple(extra for extra in EXTRAS if extra != "vllm"),
        ("torch>=2.10,<2.11",),
    ),
}
HOW = (
    "Python 3.11 to 3.13, x86-64 Linux: pip install -c constraints/{name} '.[{extras}]'\n# Made by `make cuda-locks`;"
    " `make resolve` shows that pip and uv find all of it.\n"
    "# It has not been run on a GPU yet; docs/gpu.md has what was."
)


def main() -> int:
    """Writes the files; 1 with the resolver's words where it finds no set."""
    cpu = pins(CPU.read_text(encoding="utf-8"))
    run = {**pins(CPU_WITH_VLLM.read_text(encoding="utf-8")), **cpu}
    for name, (what, extras, beside) in FILES.items():
        locked: dict[str, str] = {}
        for python in PYTHONS:  # what only a newer Python needs comes to what the oldest one has
            answer = _resolved(python, [*requirements_of(extras), *beside], {**run, **locked})
            if answer.returncode:
                print(f"{name}: {answer.stderr.strip()}", file=sys.stderr)
                return 1
            locked = {**pins(answer.stdout), **locked}
        others = [
            f"{one} {version} ({cpu[one]})" for one, version in locked.items() if cpu.get(one, version) != version
        ]
        head = [f"# {what}", "# " + HOW.format(name=name, extras=",".join(extras))]
        head.append(f"# In another release than in cpu.txt: {', '.join(others) or 'nothing'}.")
        lines = [f"{one}=={version}" for one, version in sorted(locked.items())]
        (FOLDER / name).write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines)} packages")
    return 0


def _resolved(python: str, wanted: list[str], run: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """uv's answer as stdout, which keeps to the releases that were run wherever it can."""
    platform = PLATFORM_OF_VLLM if any(line.startswith("vllm") for line in wanted) else PLATFORM
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.txt")  # an output file that is there already says what is preferred
        answer.write_text("".join(f"{name}=={version}\n" for name, version in run.items()), encoding="utf-8")
        command = [str(TOOLS / "uv"), "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", "--no-config"]
        command += ["--python-platform", platform, "--python-version", python, "--output-file", str(answer)]
        done = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, timeout=LONGEST_S)
        return subprocess.CompletedProcess(command, done.returncode, answer.read_text(encoding="utf-8"), done.stderr)


if __name__ == "__main__":
    sys.exit(main())
