"""benchmarks/resolved.md: what pip and uv answer, as tables."""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from resolving import Answer

SHOWN = ("torch", "transformers", "trl", "peft", "bitsandbytes", "deepspeed", "vllm")
HEAD = """\
# Packages that pip and uv install

Written by `make resolve RESOLVE=full`. The tables show the releases that pip and uv selected on {day} for x86-64 Linux,
without installing them. Nobody has run all of them: `constraints/cpu.txt` was run, without a GPU; the CUDA builds were
not. CUDA 13 needs driver 580 or newer, CUDA 12 needs driver 525 or newer.
"""
BOUNDLESS = """\
## Without the bounds of grpo-recipes

Without bounds, pip and uv select a torch, and with vLLM also a transformers, that nobody tested with the other
packages. The extras therefore have bounds.
"""


class Row(Protocol):
    """One installation with its answer."""

    extras: tuple[str, ...]
    python: str
    resolver: str
    constraints: Path | None
    answer: Answer


def page(rows: Sequence[Row], boundless: Sequence[Row]) -> str:
    """The page: first the extras alone, then with each file of constraints, then the names without bounds."""
    parts = [HEAD.format(day=datetime.datetime.now(datetime.UTC).date().isoformat())]
    for file in dict.fromkeys(row.constraints for row in rows):
        title = "The extras alone" if file is None else f"With `-c constraints/{file.name}`"
        parts += [f"## {title}\n", *_table([row for row in rows if row.constraints == file]), ""]
    parts += [BOUNDLESS, *_table(boundless), ""]
    return "\n".join(parts)


def cuda_of(versions: Mapping[str, str]) -> str:
    """The CUDA of an answer's torch, by the runtime that it brings along."""
    for name in ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        if name in versions:
            return ".".join(versions[name].split(".")[:2])
    return "none"


def _table(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each set of extras and answer, with the Pythons and resolvers that gave it."""
    by_line: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_line.setdefault(_cells(row), []).append(row)
    yield f"| extras | {' | '.join(SHOWN)} | CUDA | packages | answered by |"
    yield "|---" * (len(SHOWN) + 4) + "|"
    for cells, equal in by_line.items():
        counts = " or ".join(str(count) for count in sorted({len(row.answer.versions or {}) for row in equal}))
        yield f"| {' | '.join(cells)} | {counts} | {'; '.join(_who(equal))} |"


def _cells(row: Row) -> tuple[str, ...]:
    versions = row.answer.versions or {}
    cuda = cuda_of(versions) if versions else "cannot be installed"
    return (",".join(row.extras), *(versions.get(name, "-") for name in SHOWN), cuda)


def _who(rows: Sequence[Row]) -> Iterator[str]:
    """Each resolver with the Pythons that it answered for."""
    for resolver in dict.fromkeys(row.resolver for row in rows):
        yield f"{resolver} on {', '.join(row.python for row in rows if row.resolver == resolver)}"
