"""Measures which share of a training is grpo-run's own: `python benchmarks/step_share.py [--size short] [--check]`.

py-spy, which is installed for this into a folder of its own, looks at a training from outside, each 5 ms by the clock,
through the steps alone. A look counts as grpo-run's own where its code is nearer to what is executed or waited for than
that of the training stack or of a reward; what it calls elsewhere counts too. So this is the least that it takes: work
that it asks of the model or of the other processes is the stack's here, and so is what a call of the stack frees. Two
processes that train the same differ by a tenth in time, so that comparing whole processes, as step_cost.py does, does
not show a hundredth; a share of one does.

--size   short  the quickstart, 150 steps of a fifth of a second
         long   512 completions of 1,024 tokens with two stop texts, one step of six minutes
         real   SmolLM2-135M-Instruct, 49,152 tokens, with a stop text: 32 completions of 12 tokens, four steps; needs
                build/real, which `make real` writes
--top    prints so many of the functions of grpo-run that the looks were at
--check  ends with 1 where the share is above 1 %
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from step_cost import SETTINGS, planned, recipe_of

PY_SPY = "py-spy==0.4.3"
RATE = 200
STEPS = {"short": 150, "long": 1, "real": 4}
MORE_SETTINGS = {"real": ("generation.stop=['.']",)}
MOST = 0.01
NEARLY_ALL = 0.9
OWN = "/worker/grpo_recipes.zip/"  # of the run folder
STACK = re.compile(
    r"/site-packages/(trl|peft|accelerate|transformers/(trainer|generation|models|trainer_callback)\b|torch/(nn/modules"
    r"|autograd|optim)/)|/worker/grpo_recipes\.zip/grpo_recipes/rewards/"
)
STEPPING = re.compile(r"_run_epoch \(\S*/transformers/trainer\.py")


class Share(NamedTuple):
    """looks: at the steps; own: those at grpo-run's code; functions: how many of them were in which function."""

    looks: int
    own: int
    functions: Counter[str]

    @property
    def of_all(self) -> float:
        return self.own / self.looks

    @property
    def uncertainty(self) -> float:
        """Half of the 95 % interval of the share, as if the looks did not depend on each other."""
        return 1.96 * math.sqrt(self.of_all * (1 - self.of_all) / self.looks)


def callers(looks: Iterable[tuple[Sequence[str], int]]) -> set[str]:
    """The frames, a line each, of grpo-run that call the training stack and do next to nothing else.

    A look at one of them with nothing below is at the end of that call: Python frees what a function held when its
    frame is gone already, and py-spy then sees the caller.
    """
    all_looks, at_stack = Counter[str](), Counter[str]()
    for frames, count in looks:
        for frame, below in zip(frames, (*frames[1:], ""), strict=True):
            if OWN in frame and not STACK.search(frame):
                all_looks[frame] += count
                at_stack[frame] += count if STACK.search(below) else 0
    return {frame for frame, count in at_stack.items() if count > NEARLY_ALL * all_looks[frame]}


def own_frame(frames: Sequence[str], callers: Collection[str] = ()) -> str | None:
    """The function of grpo-run that a look is at; None where the training stack is nearer to what is executed."""
    if frames[-1] in callers:
        return None
    for frame in reversed(frames):
        if STACK.search(frame):
            return None
        if OWN in frame:
            return re.sub(r":\d+\)$", ")", frame.replace(frame[frame.index("(") + 1 : frame.rindex(OWN)], ""))
    return None


def share(lines: Iterable[str]) -> Share:
    """What py-spy's raw lines, `frame;frame count`, say of the steps. Ends the benchmark where none was at a step."""
    parted = ((stack.split(";"), int(count)) for stack, _, count in (line.rpartition(" ") for line in lines))
    looks = [(frames, count) for frames, count in parted if any(STEPPING.search(frame) for frame in frames)]
    if not looks:
        sys.exit("no look was at a step: nothing was measured")
    functions, known = Counter[str](), callers(looks)
    for frames, count in looks:
        if (own := own_frame(frames, known)) is not None:
            functions[own] += count
    return Share(sum(count for _, count in looks), functions.total(), functions)


def looked_at(work: Path, size: str, steps: int) -> Path:
    """Trains, and returns the file of what py-spy saw. Ends the benchmark where it cannot."""
    tool = work / "tool"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tool), PY_SPY], check=True)
    run, seen, python = work / "run", work / "seen", work / "python"
    settings = [
        *SETTINGS[size],
        *MORE_SETTINGS.get(size, ()),
        f"training.max_steps={steps}",
        "training.save_steps=0",
        "evaluation=null",
    ]
    planned(recipe_of(size, work), run, settings)
    looking = f"{tool / 'bin' / 'py-spy'} record -f raw -o {seen} -r {RATE} -d unlimited --full-filenames --idle"
    python.write_text(f'#!/bin/sh\nexec {looking} -- {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    environment = os.environ | {"PYTHON": str(python), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["bash", str(run / "launch.sh")], env=environment, capture_output=True, text=True, check=False
    )
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))  # py-spy ends with 0 whatever the program did
    if (record["status"], record["step"]) != ("completed", steps) or not seen.exists():
        sys.exit(f"the training ended as {record['status']!r} at step {record['step']}:\n{done.stdout}{done.stderr}")
    return seen


def main() -> int:
    """Measures and prints; with --check, 1 when the bound does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=tuple(STEPS), default="short")
    parser.add_argument("--steps", type=int, help="instead of those of the size")
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = looked_at(Path(folder), options.size, options.steps or STEPS[options.size])
        found = share(seen.read_text(encoding="utf-8").splitlines())
    for name, count in found.functions.most_common(options.top):
        print(f"{count / found.looks:7.2%}  {name}")
    print(
        f"grpo-run's own: {found.of_all:.2%} of the steps by the clock, within {found.uncertainty:.2%} "
        f"({found.own} of {found.looks} looks)"
    )
    return int(options.check and found.of_all > MOST)


if __name__ == "__main__":
    sys.exit(main())
