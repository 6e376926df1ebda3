"""Trains small runs, writes their reports and photographs them: the pictures of docs/report.md and docs/sweep.md.

    python benchmarks/report_screenshots.py [--runs FOLDER] [--all FOLDER]

Needs chromium. Two runs of the quickstart at two learning rates, three that fail (a reward that never varies, a length
that cuts every completion, a learning rate that gives NaN), and a sweep of nine runs; five CPU minutes. --runs keeps
them, and goes on with what is there. --all writes every page at 390 and 1440 pixels, light and dark, into a folder.
Exits with 1 if the browser's console says anything or a page asks for anything but itself.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import chromium  # noqa: E402

FAILING = ["training.max_steps=40", "evaluation.max_rows=100"]
RUNS = {
    "addition-1": ["evaluation.every_steps=20"],
    "addition-2": ["evaluation.every_steps=20", "training.learning_rate=2e-4"],
    "constant-reward": [*FAILING, "rewards=[{name: regex_match, options: {pattern: never}}]"],
    "all-truncated": [*FAILING, "generation.max_completion_length=2"],
    "not-a-number": [*FAILING, "training.learning_rate=1e30", "training.max_grad_norm=1e30"],
}
SHORT = ["--set", "training.max_steps=30", "--set", "evaluation.max_rows=200"]
SWEEP = ["--vary", "training.learning_rate=1e-4,5e-4,2e-3", "--seeds", "3", *SHORT]
PAGES = {**{name: [name] for name in RUNS}, "two-runs": ["addition-1", "addition-2"], "sweep": ["sweep"]}
WIDTHS = (390, 1440)
# Of docs/: page, width, height, dark.
PICTURES = {
    "report-run.webp": ("addition-1", 1440, 1000, False),
    "report-failing.webp": ("constant-reward", 390, 780, True),
    "report-runs.webp": ("two-runs", 1440, 900, True),
    "report-sweep.webp": ("sweep", 1440, 700, False),
}
LARGEST_BYTES = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--all", type=Path, dest="every")
    options = parser.parse_args()
    if chromium.executable() is None:
        sys.exit("there is no chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as work:
        runs = options.runs or Path(work)
        runs.mkdir(parents=True, exist_ok=True)
        for name, settings in RUNS.items():
            if not (runs / name / "run.json").exists():
                print(f"training {name}", flush=True)
                words = [word for setting in settings for word in ("--set", setting)]
                words += ["--accept", "TRN007"]  # a rate that destroys the adapter
                _grpo_run(str(ROOT / "recipes" / "quickstart.yaml"), *words, "--out", str(runs / name))
        if not (runs / "sweep" / "sweep.json").exists():
            print("training a sweep", flush=True)
            _grpo_run("sweep", str(ROOT / "recipes" / "quickstart.yaml"), *SWEEP, "--out", str(runs / "sweep"))
        for name, of in PAGES.items():
            _grpo_run("report", *(str(runs / one) for one in of), "-o", str(runs / f"{name}.html"), check=True)
        with chromium.browser() as browser:
            sizes = [_picture(browser, runs, ROOT / "docs" / file, *how) for file, how in PICTURES.items()]
            for name in PAGES if options.every else ():
                options.every.mkdir(parents=True, exist_ok=True)
                for width in WIDTHS:
                    for dark in (False, True):
                        file = options.every / f"{name}-{width}-{'dark' if dark else 'light'}.webp"
                        _picture(browser, runs, file, name, width, 900, dark)
            others = [one for one in browser.asked if not one.startswith("file://")]
    for said in (*browser.said, *others):
        print(f"not expected: {said}")
    return int(bool(browser.said or others) or max(sizes) > LARGEST_BYTES)


def _grpo_run(*words: str, check: bool = False) -> None:
    """Runs the command; a training may end as it likes."""
    subprocess.run([sys.executable, "-m", "grpo_recipes.cli.main", *words], capture_output=True, cwd=ROOT, check=check)


def _picture(browser: chromium.Browser, runs: Path, file: Path, page: str, width: int, height: int, dark: bool) -> int:
    seconds = browser.open(runs / f"{page}.html", width, dark=dark, height=height)
    file.write_bytes(browser.picture("webp", quality=80))
    print(f"{file.name}  {file.stat().st_size} bytes, shown after {seconds:.2f} s", flush=True)
    return file.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
