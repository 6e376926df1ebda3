"""Packs what a CUDA machine with torch and nothing of this project lacks: `make lease HAS=packages.txt`.

Writes OUT/wheels, OUT/tree.tar.gz and OUT/run.sh, and prints what travels. HAS is what `python3 -m pip list
--format=freeze` prints on that machine; a package that it has in a fitting release stays out. The others come in the
releases of constraints/cpu.txt. This needs a package index and no GPU. There, `sh OUT/run.sh RESULTS` installs the
wheels into OUT, without a network, and runs the stages that have no result yet, the most informative first.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpu_kit.report import KEPT
from gpu_kit.result import Results, read_results
from gpu_kit.run import chosen
from gpu_kit.stages.catalog import STAGES
from gpu_kit.trained import ROOT

PROJECT = "grpo-recipes"
EXTRAS = "train,deepspeed"
"""Without vLLM and bitsandbytes, which do not fit. Their stages run if the machine has them."""
BUILT = ("deepspeed",)
"""Packages without a wheel on the index."""
TREE = ("benchmarks", "gpu_kit", "grpo_recipes", "recipes")
CHANGED = {"padding": "2026-11-29"}
"""Stages whose older results measured something else."""
MOST_MB = 60
MINUTES = 8
ENDING_S = 15
LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
}
MARK = "# Made by gpu_kit/pack.py"
RUN = """\
#!/bin/sh
# Made by gpu_kit/pack.py: sh run.sh RESULTS [OPTIONS of gpu_kit.run]. Ends by itself after {minutes} minutes.
set -e
start=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${{1:?the folder of the results}}"
results=$(cd "$1" && pwd)
shift
python=${{PYTHON:-python3}}
if [ ! -e "$here/site" ]; then
  rm -rf "$here/unfinished"
  mkdir "$here/unfinished"
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \\
    --target "$here/unfinished" "$here"/wheels/*.whl
  tar -xzf "$here/tree.tar.gz" -C "$here"
  mv "$here/unfinished" "$here/site"
fi
if [ -e "$here/earlier.json" ]; then set -- --earlier "$here/earlier.json" "$@"; fi
cd "$here/tree"
export PYTHONPATH="$here/site:$here/tree${{PYTHONPATH:+:$PYTHONPATH}}" PYTHONUNBUFFERED=1
spent=$(($(date +%s) - start))
echo "installed after $spent s"
exec "$python" -m gpu_kit.run --stages {stages} --minutes "$((({seconds} - spent) / 6))e-1" \\
  --out "$results" --work "$here/work" "$@"
"""


def releases(path: Path) -> dict[str, str]:
    """Returns the release of each package that a file pins, by canonical name. Raises ValueError for other lines."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.partition("==") for line in lines if line and not line.startswith("#")]
    if wrong := [name for name, _, version in pairs if not version]:
        raise ValueError(f"{path}: {wrong[0]!r} is not NAME==VERSION, as `pip list --format=freeze` prints")
    return {str(canonicalize_name(name)): version for name, _, version in pairs}


def lacking(has: Mapping[str, str], pins: Mapping[str, str], python: str) -> dict[str, str]:
    """Returns the packages to carry, with their pinned releases.

    has: package to release on the machine. Raises ValueError if it has no fitting torch, or if the packages here, whose
    requirements are read, are not the pinned ones.
    """
    environment = {**LINUX, "python_version": python, "python_full_version": f"{python}.0"}
    carried: dict[str, str] = {}
    walked = set()
    waiting = [*_needs(Requirement(f"{PROJECT}[{EXTRAS}]"), environment)]
    while waiting:
        one = waiting.pop()
        name = str(canonicalize_name(one.name))
        fits = name in has and one.specifier.contains(has[name], prereleases=True)
        if name == "torch" and not fits:
            raise ValueError(f"{one} is needed, and the machine has torch {has.get('torch', 'not at all')}")
        if not fits:
            carried[name] = pins[name]
        needs = (name, frozenset(one.extras))
        if needs in walked or (fits and not one.extras):
            continue
        walked.add(needs)
        if (here := importlib.metadata.version(name)) != pins[name]:
            raise ValueError(f"{name} {here} is installed here, and constraints/cpu.txt has {pins[name]}: make setup")
        waiting += _needs(one, environment)
    return dict(sorted(carried.items()))


def _needs(one: Requirement, environment: Mapping[str, str]) -> Iterator[Requirement]:
    """Yields what a package and its extras need on the machine."""
    for need in map(Requirement, importlib.metadata.requires(one.name) or ()):
        of = [{**environment, "extra": extra} for extra in one.extras or ("",)]
        if need.marker is None or any(map(need.marker.evaluate, of)):
            yield need


def fetch(carried: Mapping[str, str], python: str, folder: Path) -> None:
    """Downloads the wheels. Raises ValueError with pip's words if the index lacks one for this Python."""
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(5, 29)]
    words = ["download", "--only-binary=:all:", f"--python-version={python}", *platforms, "--implementation=cp"]
    wanted = {name: f"{name}=={version}" for name, version in carried.items()}
    _pip([*words, f"--dest={folder}", *(spec for name, spec in wanted.items() if name not in BUILT)])
    for name in wanted.keys() & {*BUILT}:
        _pip(["wheel", "--no-build-isolation", f"--wheel-dir={folder}", wanted[name]])
    if wrong := [path.name for path in folder.glob("*.whl") if "-linux_" in path.name]:
        raise ValueError(f"{wrong[0]} was compiled, for this machine only")


def _pip(words: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words, "--no-deps"]
    ran = subprocess.run(command, env={**os.environ, "DS_BUILD_OPS": "0"}, capture_output=True, text=True)
    if ran.returncode:
        raise ValueError(ran.stderr.strip()[-2000:])


def pack_tree(path: Path) -> None:
    """Writes an archive of the tracked files that the stages use, in a folder tree/."""
    listed = subprocess.run(["git", "ls-files", "-z", *TREE], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(path, "w:gz") as archive:
        for name in filter(None, listed.stdout.split("\0")):
            archive.add(ROOT / name, f"tree/{name}")


def without_result(results: Results) -> list[str]:
    """Returns the stages that have not passed on a GPU as they are now, the most informative first."""
    passed = {name for name in results.passed() if results.stages[name].date >= CHANGED.get(name, "")}
    return [name for name in STAGES if name not in passed]


def write_script(path: Path, stages: list[str]) -> None:
    """Writes the command to run on the machine, in a folder without an earlier lease.

    Raises ValueError for a folder with anything else.
    """
    folder = path.parent
    if folder.exists() and any(folder.iterdir()):
        if not path.exists() or MARK not in path.read_text(encoding="utf-8"):
            raise ValueError(f"{folder} has files that are not of a lease; use another --out")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = RUN.format(stages=",".join(stages), minutes=MINUTES, seconds=MINUTES * 60 - ENDING_S)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("has", type=Path, metavar="HAS", help="what `pip list --format=freeze` prints on the machine")
    parser.add_argument("--python", default="3.12", help="version of the machine's Python (default: 3.12)")
    parser.add_argument("--stages", help="names with commas (default: those without a result in benchmarks/gpu.json)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "lease", help="default: build/lease")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    try:
        stages = chosen(options.stages) if options.stages else without_result(read_results(KEPT))
        carried = lacking(releases(options.has), releases(ROOT / "constraints" / "cpu.txt"), options.python)
        if not carried:
            raise ValueError("the machine lacks nothing: copy the checkout and run `make test-gpu` there")
        write_script(out / "run.sh", stages)
        fetch(carried, options.python, out / "wheels")
    except (ValueError, OSError, importlib.metadata.PackageNotFoundError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    pack_tree(out / "tree.tar.gz")
    sizes = {path.relative_to(out): path.stat().st_size for path in out.rglob("*") if path.is_file()}
    for path, size in sorted(sizes.items(), key=lambda one: -one[1]):
        print(f"{size / 1e6:6.1f} MB  {path}")
    total = sum(sizes.values()) / 1e6
    print(f"{total:6.1f} MB in {out}; there: sh {out.name}/run.sh RESULTS")
    if total > MOST_MB:
        print(f"error: more than {MOST_MB} MB; is {options.has} the whole list of the machine?", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
