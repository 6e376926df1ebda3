"""Measures the report of a long run: how large it is, what it costs to make, and how soon a browser shows it.

    python benchmarks/report_cost.py [--steps 10000 | --run FOLDER]

The run is made up: 40 figures a step, and the 4,000 completions of 2 kB that the worker keeps of a run of any length.
--run: a run folder instead, such as one of `make real`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURED = """
import sys, time
from grpo_recipes.cli.main import main
try:
    main(["report", sys.argv[1], "-o", sys.argv[2]])
finally:
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(time.process_time(), int(peak) // 1000)
"""
ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "report")]

from report_runs import completions, made, row, step  # noqa: E402
from support import chromium  # noqa: E402


def made_up(folder: Path, count: int) -> Path:
    steps = [step(n, **{f"figure/{of}": n * 0.1 + of for of in range(22)}) for n in range(1, count + 1)]
    every = max(1, count // 1000)
    kept = [completions(n, *[row("x" * 2000, n % 7)] * 4) for n in range(1, count + 1, every)]
    return made(folder, steps=steps, kept=kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder, page = options.run or made_up(Path(work, "run"), options.steps), Path(work, "page.html")
        words = [sys.executable, "-c", MEASURED, str(folder), str(page)]
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT)
        cpu_s, memory_mb = done.stdout.splitlines()[-1].split()
        found = {
            "steps": (folder / "metrics.jsonl").read_text().count('"event": "step"'),
            "metrics_mb": round((folder / "metrics.jsonl").stat().st_size / 1e6, 1),
            "page_kb": round(page.stat().st_size / 1e3),
            "cpu_s": round(float(cpu_s), 2),
            "memory_mb": int(memory_mb),
        }
        if chromium.executable() is not None:
            with chromium.browser() as browser:
                found["shown_after_s"] = round(min(browser.open(page, 1440) for _ in range(3)), 2)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
