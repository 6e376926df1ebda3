"""Makes benchmarks/gpu.md from results: `python -m gpu_kit.report [RESULTS] --write`.

RESULTS is the results.json of a run on a GPU. --write merges it into benchmarks/gpu.json, which has each stage's newest
result, and is the default for later calls. Without results the page says that there was no run.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_kit.result import Result, Results, merged, read_results
from gpu_kit.stages.catalog import STAGES
from gpu_kit.trained import ROOT

KEPT = ROOT / "benchmarks" / "gpu.json"
PAGE = ROOT / "benchmarks" / "gpu.md"
NOT_YET = "Not yet run on a GPU: every figure of this project about GPUs is computed or taken from sources.\n"


def page(results: Results | None) -> str:
    """Returns the text of benchmarks/gpu.md. Raises ValueError for results from a CPU."""
    head = "# On a GPU\n\n<!-- made by gpu_kit/report.py -->\n\n"
    if results is None:
        return head + NOT_YET + "`make test-gpu` runs these stages; docs/gpu.md has the rest.\n\n" + _planned(STAGES)
    if results.device != "cuda":
        raise ValueError("these results are from a CPU; benchmarks/gpu.md needs results from a GPU")
    return head + _body(results)


def report(results: Results) -> str:
    """Returns the page that is written beside a run's results."""
    small = "" if results.device == "cuda" else "Small versions on the CPU: ignore speed and memory.\n\n"
    return f"# Stages on {results.device}\n\n{small}{_body(results)}"


def _planned(names: Iterable[str]) -> str:
    rows = [f"| {name} | {STAGES[name].limit_s} | {STAGES[name].tells} |" for name in names]
    return "\n".join(["| stage | limit in seconds | what it checks |", "|---|---|---|", *rows]) + "\n"


def _body(results: Results) -> str:
    known = [(name, results.stages[name]) for name in STAGES if name in results.stages]
    missing = [name for name in STAGES if name not in results.stages]
    rows = [
        f"| {name} | {STAGES[name].tells} | {one.status} | {one.seconds:.0f} | {one.beside} | {one.machine + 1} |"
        f" {one.date[:10]} | {_why(one)} |"
        for name, one in known
    ]
    keys = dict.fromkeys(key for machine in results.machines for key in machine)
    machines = [
        f"| {key} | {' | '.join(_cell(one[key]) if key in one else '' for one in results.machines)} |" for key in keys
    ]
    numbers = range(1, len(results.machines) + 1)
    parts = [
        "\n".join([f"| machine | {' | '.join(map(str, numbers))} |", "|---" * (1 + len(numbers)) + "|", *machines]),
        "\n".join(
            [
                "| stage | what it checks | | seconds | at the same time | machine | date | |",
                "|---|---|---|---|---|---|---|---|",
                *rows,
            ]
        ),
    ]
    parts += [f"Not run:\n\n{_planned(missing).rstrip()}"] if missing else []
    parts += [_details(name, one) for name, one in known if one.figures or one.wrong or one.said]
    return "\n\n".join(parts) + "\n"


def _why(one: Result) -> str:
    words = [one.reason.strip().splitlines()[-1]] if one.reason.strip() else []
    return _cell("; ".join([*words, *one.wrong]))


def _details(name: str, one: Result) -> str:
    lines = [f"- {key}: {_words(value)}" for key, value in one.figures.items()]
    lines += [f"- **wrong**: {_words(text)}" for text in one.wrong]
    said = [line for line in one.said.splitlines() if line.strip()][-20:]
    end = ["", "```text", *said, "```"] if said else []
    return "\n".join([f"## {name}", "", *lines, *end])


def _words(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else f"`{json.dumps(value)}`"


def _cell(value: Any) -> str:
    return _words(value).replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=KEPT, help="results.json of a run on a GPU")
    parser.add_argument("--write", action="store_true", help="write benchmarks/gpu.md instead of printing it")
    options = parser.parse_args()
    results = read_results(KEPT) if KEPT.exists() else None
    if options.results != KEPT:
        new = read_results(options.results)
        results = merged(results or Results(new.device, []), new)
    text = page(results)
    if not options.write:
        print(text, end="")
        return
    if results is not None:
        results.write(KEPT)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
