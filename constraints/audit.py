"""What is known against the tested stack: every package of constraints/cpu.txt, looked up among published advisories.

    python constraints/audit.py [--strict]       run by the Python of .venv; the tools are in .venv-audit

Exits with 1 where something is installed that the file does not name, since that would be audited by nobody. A known
vulnerability is a warning, an error with --strict. An index without advisories is said, and counts as nothing found.
"""

import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "constraints" / "cpu.txt"
AUDIT = ROOT / ".venv-audit" / "bin" / "pip-audit"
# What a new environment has by itself, and the project.
NOT_LOCKED = {"pip", "setuptools", "wheel", "grpo-recipes"}
LONGEST_S = 240


def locked() -> dict[str, str]:
    """The exact release of each package of the lock, by its canonical name."""
    lines = [line.strip() for line in LOCK.read_text(encoding="utf-8").splitlines()]
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}


def not_locked(pins: dict[str, str]) -> list[str]:
    """What is installed beside the lock, or in another release: "name release"."""
    found = []
    for package in distributions():
        name = canonicalize_name(package.metadata["Name"])
        release = package.version.partition("+")[0]  # torch 2.13.0+cpu is the release 2.13.0
        if name not in NOT_LOCKED and pins.get(name) != release:
            found.append(f"{name} {package.version}")
    return sorted(found)


def audited() -> list[dict[str, object]]:
    """What pip-audit says of each package: its "vulns", or the "skip_reason" where it knows nothing of it."""
    command = [AUDIT, "-r", LOCK, "--no-deps", "--disable-pip", "--progress-spinner", "off", "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    try:
        found: list[dict[str, object]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"audit: pip-audit gave no answer: {done.stderr.strip()[-300:]}")
        return []
    return found


def main() -> int:
    """Prints what was found; the exit code."""
    pins = locked()
    missing = not_locked(pins)
    for name in missing:
        print(f"audit: {name} is installed and not in {LOCK.relative_to(ROOT)}")
    try:
        answers = audited()
    except (OSError, subprocess.TimeoutExpired) as problem:
        print(f"audit: pip-audit did not run: {type(problem).__name__}: {problem}")
        answers = []
    known = [answer for answer in answers if "skip_reason" not in answer]
    vulnerable = [answer for answer in known if answer["vulns"]]
    for answer in vulnerable:
        ids = ", ".join(str(one["id"]) for one in answer["vulns"])  # type: ignore[attr-defined]
        print(f"audit: warning: {answer['name']} {answer['version']} has known vulnerabilities: {ids}")
    rest = len(pins) - len(known)
    unknown = f"; of {rest} the index knows no advisories" if rest else ""
    print(
        f"audit: {len(known)} of {len(pins)} packages looked up, {len(vulnerable)} with known vulnerabilities{unknown}"
    )
    return 1 if missing or (vulnerable and "--strict" in sys.argv[1:]) else 0


if __name__ == "__main__":
    sys.exit(main())
