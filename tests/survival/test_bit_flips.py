"""Single bits of a run folder turned: each is noticed, or it changes nothing of what is trained."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from killed_runs import KINDS, LIMIT_S, begun
from resumed_runs import weights

from grpo_recipes.cli.verify import verify_folder

pytestmark = pytest.mark.survival
STEPS = 6


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of one file, relative to the run folder."""

    name: str
    bit: int

    def turn(self, folder: Path) -> None:
        """Turns it; a second time it is as before."""
        content = bytearray((folder / self.name).read_bytes())
        content[self.bit // 8] ^= 1 << self.bit % 8
        (folder / self.name).write_bytes(content)


def interrupted(kind: str, place: Path, python: str) -> Path:
    """A run that a signal interrupted after its first checkpoint or later, before its last step."""
    place.mkdir()
    process = begun(kind, STEPS, place, python=python)
    give_up = time.monotonic() + LIMIT_S
    while not any((place / "run" / "checkpoints").glob("checkpoint-*")) and time.monotonic() < give_up:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, output
    return place / "run"


def flips(folder: Path, count: int, seed: str) -> list[Flip]:
    """So many bits of all files of a run folder, small ones as often as large ones."""
    draw = random.Random(seed)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size > 0)
    # The code that trains is many small files: a quarter of the bits are of it, the rest of all else.
    parts = [[file for file in files if ("worker" in file.parts) is of_worker] for of_worker in (True, False)]
    found = []
    for number in range(count):
        file = draw.choice(parts[number % 4 != 0])
        found.append(Flip(file.relative_to(folder).as_posix(), draw.randrange(file.stat().st_size * 8)))
    return found


def resumed(kind: str, run_folder: Path, place: Path, flip: Flip, python: str) -> tuple[int, str, dict[str, str]]:
    """How a copy of the run ends that is resumed with that bit turned."""
    place.mkdir()
    shutil.copytree(run_folder, place / "run", symlinks=True)
    flip.turn(place / "run")
    process = begun(kind, STEPS, place, python=python)
    output, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, weights(place / "run")


@pytest.mark.parametrize("kind", KINDS)
def test_each_bit_is_noticed_or_changes_nothing(
    kind: str, is_full: bool, seed: int, tmp_path: Path, python: str, left_alone: Callable[[str, int], Path]
) -> None:
    if kind != "lora" and not is_full:
        pytest.skip("one kind of run is enough for a quick look")
    whole = weights(left_alone(kind, STEPS))
    folder = interrupted(kind, tmp_path / "interrupted", python)
    assert verify_folder(folder).faults == []
    unnoticed, noticed = [], []
    for flip in flips(folder, 200 if is_full else 40, f"{seed} {kind}"):
        flip.turn(folder)
        named = [fault.name for fault in verify_folder(folder).faults]
        flip.turn(folder)
        (noticed if any(flip.name.startswith(name) for name in named) else unnoticed).append(flip)
    print(
        f"{kind}: {len(noticed)} of {len(noticed) + len(unnoticed)} bits named by --verify; the others are of "
        f"{', '.join(sorted({flip.name for flip in unnoticed}))}"
    )
    assert len(noticed) > len(unnoticed)

    one_of_each = {flip.name: flip for flip in unnoticed}.values()
    for number, flip in enumerate(list(one_of_each)[: None if is_full else 2]):
        code, output, found = resumed(kind, folder, tmp_path / f"unnoticed-{number}", flip, python)
        assert code != 0 or found == whole, f"{flip} trained to other weights\n{output}"
        shutil.rmtree(tmp_path / f"unnoticed-{number}")
    of_checkpoints = [flip for flip in noticed if flip.name.startswith("checkpoints/")]
    for number, flip in enumerate(of_checkpoints[: 8 if is_full else 1]):
        code, output, found = resumed(kind, folder, tmp_path / f"noticed-{number}", flip, python)
        step = flip.name.split("/")[1]
        is_said = f"skipped {step}: " in output or "no checkpoint is complete" in output
        assert is_said or found == whole, f"{flip} was not said\n{output}"
        assert code != 0 or found == whole, f"{flip} trained to other weights\n{output}"
        shutil.rmtree(tmp_path / f"noticed-{number}")
