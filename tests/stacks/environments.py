"""The environments of stacks.json: folders of packages that stand before those of .venv on PYTHONPATH.

`python tests/stacks/environments.py [NAME ...]` builds the ones that are named, or all, where they are not there with
these pins. A stack takes from .venv what it does not pin (torch, bitsandbytes, pyarrow). NEWEST is .venv itself.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.stack.tested import read_tested_stack

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".stacks"
STAMP = "pins.json"


@dataclass(frozen=True, slots=True)
class Environment:
    """A stack. name: "<trl>/<transformers>". pins: package to version, empty for .venv itself.

    over: the stack whose packages stand behind these, or None. refused: grpo-run refuses this combination, so that it
    has a place in what TRL alone does, and nowhere else.
    """

    name: str
    pins: dict[str, str]
    over: "Environment | None" = None
    refused: bool = False

    @property
    def folder(self) -> Path:
        """Where its packages are."""
        return FOLDER / self.name.replace("/", "-").replace(" ", "-")

    def folders(self) -> list[Path]:
        """What goes before .venv on PYTHONPATH, first things first."""
        behind = self.over.folders() if self.over is not None else []
        return [self.folder, *behind] if self.pins else behind

    def is_built(self) -> bool:
        """Whether it and what stands behind it are there with these pins."""
        if self.over is not None and not self.over.is_built():
            return False
        stamp = self.folder / STAMP
        return not self.pins or (stamp.exists() and json.loads(stamp.read_text()) == self.pins)


NEWEST = "/".join(read_tested_stack().packages[name] for name in ("trl", "transformers"))


def _environments() -> dict[str, Environment]:
    """The stacks of stacks.json, and .venv itself behind the older ones."""
    read = json.loads(Path(__file__).with_name("stacks.json").read_text())
    found = {name: Environment(name, read["shared"] | pins) for name, pins in read["stacks"].items()}
    found[NEWEST] = Environment(NEWEST, {})
    for name, pins in read["refused"].items():
        found[name] = Environment(name, pins, over=found[pins.pop("over")], refused=True)
    return found


ENVIRONMENTS = _environments()
STACKS = tuple(name for name, environment in ENVIRONMENTS.items() if not environment.refused)
REFUSED = tuple(name for name, environment in ENVIRONMENTS.items() if environment.refused)
QUICK = (STACKS[0], "0.19.1/4.52.4", STACKS[-1])


def _install(environment: Environment, folder: Path) -> None:
    """Installs the pins into a folder, without what they depend on; tries again once, for downloads that broke off."""
    shutil.rmtree(folder, ignore_errors=True)
    pins = [f"{package}=={version}" for package, version in environment.pins.items()]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command = [*pip, "--target", str(folder), *pins]
    variables = {**os.environ, "DS_BUILD_OPS": "0"}
    if subprocess.run(command, env=variables).returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(5)
        subprocess.run(command, env=variables, check=True)


def build(environment: Environment) -> None:
    """Makes the folder anew, unless it is there with these pins. Raises CalledProcessError when pip fails twice."""
    if environment.over is not None:
        build(environment.over)
    if environment.is_built():
        return
    unfinished = environment.folder.with_name(f"{environment.folder.name}.unfinished")
    _install(environment, unfinished)
    (unfinished / STAMP).write_text(json.dumps(environment.pins, indent=1) + "\n")
    shutil.rmtree(environment.folder, ignore_errors=True)
    unfinished.rename(environment.folder)
    print(f"{environment.name}: {environment.folder}", flush=True)


def chosen(names: str) -> list[str]:
    """Names of stacks, from names with commas; "quick" is the oldest, a middle one and the newest, "newest" that of
    .venv, "all" every one.

    Raises KeyError with a name that is not in stacks.json.
    """
    groups = {"all": (*STACKS, *REFUSED), "quick": QUICK, "newest": (NEWEST,)}
    found = dict.fromkeys(name for word in names.split(",") for name in groups.get(word, (word,)))
    return [ENVIRONMENTS[name].name for name in found]


if __name__ == "__main__":
    for name in chosen(",".join(sys.argv[1:]) or "all"):
        build(ENVIRONMENTS[name])
