"""Compares the memory formulas with traces, with trainings on the CPU and with published figures.

    python benchmarks/memory.py [--older FOLDER] [--seeing] [--write]

Writes benchmarks/memory.md with --write, prints it otherwise. Traces take some CPU seconds each; those that were made
are kept in build/memory_traces.jsonl. FOLDER has the packages of an older stack of tests/stacks/environments.py.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "memory"
sys.path[:0] = [str(TESTS), str(ROOT)]

from bench_cases import CPU_RUNS, Case, cases, limited_cases  # noqa: E402
from published import FIGURES, Figure, computed_gib  # noqa: E402
from seeing_cases import computed_update, measured_updates, seeing_cases  # noqa: E402
from traces import pairs, traces, update_of  # noqa: E402

from grpo_recipes.memory.estimate import estimate  # noqa: E402
from grpo_recipes.memory.layout import Layout  # noqa: E402
from grpo_recipes.memory.moments import moments  # noqa: E402
from grpo_recipes.user_files.architecture import read_architecture  # noqa: E402

KEPT = ROOT / "build" / "memory_traces.jsonl"
PAGE = ROOT / "benchmarks" / "memory.md"
GIB = 2**30
# A freed block is given back, so that the peak is that of what is alive.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "1000000",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One update: each term and moment by the formulas and by its trace."""

    case: Case
    terms: dict[str, tuple[int, int]]

    def off(self, term: str) -> float:
        """How far the formula is off, in parts of what was traced."""
        have, there = self.terms[term]
        return have / there - 1


def compared(chosen: Sequence[Case], output: Any, packages: str) -> list[Compared]:
    """Each update with its trace, taken from the file of those that were made where it is there."""
    KEPT.parent.mkdir(exist_ok=True)
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    known = {json.dumps(json.loads(line)["asked"]): json.loads(line)["trace"] for line in lines}
    keys = {number: json.dumps([case.asked, output]) for number, case in enumerate(chosen)}
    missing = [case.asked for number, case in enumerate(chosen) if keys[number] not in known]
    with KEPT.open("a") as file:
        for asked, trace in zip(missing, traces(missing, packages), strict=True):
            key = [asked, output]
            known[json.dumps(key)] = trace
            file.write(json.dumps({"asked": key, "trace": trace}) + "\n")
            file.flush()
    return [_compared(case, output, known[keys[number]]) for number, case in enumerate(chosen)]


def _compared(case: Case, output: Any, trace: dict[str, Any]) -> Compared:
    architecture = read_architecture(case.asked["config"])
    assert architecture is not None
    computed = moments(architecture, update_of(case.asked, output))
    assert computed is not None
    return Compared(case, pairs(computed, trace))


ENVIRONMENT = ALLOCATOR | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
BELOW, ABOVE = 0.85, 1.15
"""Shares of the estimate that are a limit too small and one that is enough: what is claimed of measured totals."""


def measured(asked: dict[str, Any]) -> int:
    """The bytes that a training on the CPU had at most beside the libraries."""
    environment = os.environ | ENVIRONMENT
    command = [sys.executable, str(TESTS / "cpu_run.py")]
    ran = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, env=environment, check=True)
    line = next(line for line in ran.stdout.splitlines() if line.startswith('{"peak"'))
    return int(json.loads(line)["peak"])


def estimated(asked: dict[str, Any]) -> int:
    """The bytes of the largest phase, without the context and the allocator of a GPU."""
    layout = Layout("single", 1, "transformers", asked["batch"] * asked["accumulation"])
    found = estimate(asked["config"], update_of(asked), layout)
    return max(
        sum(term.size for term in phase.terms if term.name not in ("context", "libraries", "slack"))
        for phase in found.phases
    )


def summary(found: Sequence[Compared]) -> list[str]:
    """A row for each term: the median of how far it is off, and both ends."""
    rows = ["| term or moment | median | lowest | highest | off by more than 10 % |", "|---|---|---|---|---|"]
    for term in found[0].terms:
        off = [one.off(term) for one in found]
        median = statistics.median(abs(share) for share in off)
        wrong = sum(abs(share) > 0.1 for share in off)
        rows.append(f"| {term} | {median:.2%} | {min(off):+.2%} | {max(off):+.2%} | {wrong} of {len(off)} |")
    return rows


def listed(found: Sequence[Compared]) -> list[str]:
    """A row for each update."""
    rows = ["| shapes of | trained | completions | formula, GiB | trace, GiB | off |", "|---|---|---|---|---|---|"]
    for one in found:
        have, there = one.terms["peak"]
        rows.append(f"| {one.case.words()} | {have / GIB:.3f} | {there / GIB:.3f} | {one.off('peak'):+.2%} |")
    return rows


def on_the_cpu() -> list[str]:
    """A row for each training."""
    rows = ["| model | trained | completions | estimate, MiB | measured, MiB | off |", "|---|---|---|---|---|---|"]
    for case in CPU_RUNS:
        have, there = estimated(case.asked), measured(case.asked)
        rows.append(f"| {case.words()} | {have / 2**20:.0f} | {there / 2**20:.0f} | {have / there - 1:+.1%} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def seen() -> list[str]:
    """A row for each update of a model that sees: what the formulas have beside what its tensors held."""
    terms = ("parameters", "activations", "peak", "generation")
    rows = ["| family | trained | images | parameters | activations, MiB | peak, MiB | generation, MiB |"]
    rows.append("|---|---|---|---|---|---|---|")
    chosen = seeing_cases()
    for (words, asked), measured in zip(chosen, measured_updates([one for _, one in chosen]), strict=True):
        computed = computed_update(asked)
        off = {term: computed[term] / measured[term] - 1 for term in terms}
        told = [f"{off[term]:+.1%} of {measured[term] / 2**20:.1f}" for term in terms[1:]]
        rows.append(f"| {words} | {off['parameters']:+.1%} | {' | '.join(told)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def limited() -> list[str]:
    """A row for each training, which ran under a limit below its estimate and under one above it."""
    rows = ["| parameters | trained | completions | estimate, MiB | limit 15 % below | limit 15 % above |"]
    rows.append("|---|---|---|---|---|---|")
    chosen = limited_cases()
    asked = [{**one.asked, "more": int(share * estimated(one.asked))} for one in chosen for share in (BELOW, ABOVE)]
    command = [sys.executable, str(TESTS / "limited_runs.py")]
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    ended = [json.loads(line)["ended"] for line in ran.stdout.splitlines() if line.startswith('{"ended"')]
    for case, below, above in zip(chosen, ended[::2], ended[1::2], strict=True):
        rows.append(f"| {case.words()} | {estimated(case.asked) / 2**20:.0f} | {below} | {above} |")
    right = ended[::2].count("out of memory") + ended[1::2].count("trained")
    return [*rows, "", f"{right} of {len(ended)} ended as the estimate has it."]


def published() -> list[str]:
    """A row for each figure that others have published."""
    rows = ["| what | published, GiB | estimate, GiB | off | source |", "|---|---|---|---|---|"]
    return rows + [_figure(figure, computed_gib(figure)) for figure in FIGURES]


def _figure(figure: Figure, have: float | None) -> str:
    said = "unknown | " if have is None else f"{have:.1f} | {have / figure.gib - 1:+.0%}"
    return f"| {figure.what} | {figure.gib} | {said} | {figure.source} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", default="", help="packages of a stack with TRL 0.20 to 0.29, traced as well")
    parser.add_argument("--seeing", action="store_true", help="print the table of models that see alone")
    parser.add_argument("--write", action="store_true", help="write the page instead of printing it")
    options = parser.parse_args()
    if options.seeing:
        print("\n".join(seen()))
        return
    template = (ROOT / "benchmarks" / "memory_template.md").read_text()
    newest = compared(cases(), "fused", "")
    # The experts of transformers 4 choose by values, which a fake tensor has none of.
    dense = [case for case in cases()[::4] if "num_experts" not in case.asked["config"]]
    older = compared(dense, "logits", options.older) if options.older else []
    page = template.format(
        count=len(newest),
        summary="\n".join(summary(newest)),
        older_count=len(older),
        older="\n".join(summary(older)) if older else "Not traced.",
        cpu="\n".join(on_the_cpu()),
        seen="\n".join(seen()),
        limited="\n".join(limited()),
        published="\n".join(published()),
        listed="\n".join(listed(newest)),
    )
    if options.write:
        PAGE.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
