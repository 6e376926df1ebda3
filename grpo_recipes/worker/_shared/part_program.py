"""The program that starts a part of the worker: a file of the package, or the archive of a run folder."""

from pathlib import Path

_PLACE = Path(__file__).resolve().parents[3]
PART_PROGRAM = str(_PLACE if _PLACE.suffix == ".zip" else Path(__file__).resolve().parents[1] / "part.py")
