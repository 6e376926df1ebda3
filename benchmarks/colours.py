"""Trains the recipe colours with several seeds, and writes benchmarks/colours.md: what held-out images gained.

    python benchmarks/colours.py [--seeds 1 2 3]

Each row is one whole `grpo-run`. Exits 1 when a run ends below 90 % or needs more than 60 CPU seconds of training.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOWEST_RIGHT = 0.9
MOST_CPU_S = 60.0
HEAD = """# Training the recipe colours

Written by `python benchmarks/colours.py`. Each row is one run of `grpo-run recipes/colours.yaml` with that seed, on a
CPU. *Right* is the share of samples that name colour and count, with one sample for each of 256 held-out images. With
grey images, the same model has to guess one of twelve answers.

| seed | right before | right after | with grey images | steps | CPU seconds of training |
|---|---|---|---|---|---|
"""


def trained(seed: int) -> dict[str, Any]:
    """Runs the recipe; its run.json."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes/colours.yaml")]
        subprocess.run([*command, "--set", f"seed={seed}", "--out", str(out)], check=True, capture_output=True)
        return json.loads((out / "run.json").read_text())  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    rows, has_held = [], True
    for seed in parser.parse_args().seeds:
        record = trained(seed)
        before, after, grey = (record["evaluation"][when]["pass_at"]["1"] for when in ("before", "after", "blanked"))
        shares = f"{before:.3f} | {after:.3f} | {grey:.3f}"
        rows.append(f"| {seed} | {shares} | {record['step']} | {record['train_cpu_s']:.0f} |\n")
        has_held &= after >= LOWEST_RIGHT and record["train_cpu_s"] <= MOST_CPU_S
    (ROOT / "benchmarks/colours.md").write_text(HEAD + "".join(rows), encoding="utf-8")
    print("".join(rows), end="")
    return 0 if has_held else 1


if __name__ == "__main__":
    sys.exit(main())
