"""Writes resampled_groups.md: what redrawing groups without variance does to a training, and what it costs.

`python benchmarks/resampled_groups.py`, with the training stack: nine trainings of recipes/quickstart.yaml, which take
some minutes on one core.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "quickstart.yaml"
SEEDS, STEPS = (0, 1, 2), 40
LOOKED_AT = (4, 8, 40)
SETTINGS = {
    "as it is": {},
    "`resample_groups: 3`": {"grpo.resample_groups": 3},
    "as it is, 32 prompts a step": {"training.prompts_per_step": 32},
}
HEAD = f"""\
# Redrawn groups

`recipes/quickstart.yaml` with {STEPS} steps, on one core, as it is and with groups without variance redrawn; and with a
batch that answers about as many prompts. Means over the seeds {", ".join(map(str, SEEDS))}. "Groups that vary" and
"prompts answered" are of a step. Held-out results are the share of most likely answers that are right after some steps,
with the lowest and the highest of the seeds. CPU seconds include ten evaluations.
Made by `python benchmarks/resampled_groups.py`.

| | groups that vary | in the last 10 steps | prompts answered | CPU s | {" | ".join(f"after {n}" for n in LOOKED_AT)} |
|---|---|---|---|---|{"---|" * len(LOOKED_AT)}
"""


class Seen(NamedTuple):
    """One training. varying: groups that vary in each step; answered: prompts of each; right: held-out shares."""

    varying: list[float]
    answered: list[float]
    right: list[float]
    cpu_s: float


def trained(seed: int, settings: dict[str, int], folder: Path) -> Seen:
    """Trains in a folder that is not there yet."""
    own = {"seed": seed, "training.max_steps": STEPS, "training.save_steps": 0, "evaluation.at_start": "false"} | {
        "evaluation.every_steps": 4
    }
    options = [word for key, value in {**own, **settings}.items() for word in ("--set", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "grpo_recipes.cli.main",
        "run",
        str(RECIPE),
        *options,
        "--out",
        str(folder),
        "--quiet",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    prompts = settings.get("training.prompts_per_step", 16)
    told = {line["step"]: line["rewards"]["exact_match"] for line in lines if line["event"] == "evaluation"}
    record = json.loads((folder / "run.json").read_text())
    return Seen(
        [prompts * (1 - step["groups_without_variance"]) for step in steps],
        [step.get("resample/prompts", prompts) for step in steps],
        [told[step] for step in LOOKED_AT],
        record["train_cpu_s"],
    )


def row(name: str, runs: list[Seen]) -> str:
    """A line of the table."""

    def mean(values: list[float]) -> float:
        return statistics.mean(values)

    right = list(zip(*(run.right for run in runs), strict=True))
    cells = [
        name,
        f"{mean([mean(run.varying) for run in runs]):.1f}",
        f"{mean([mean(run.varying[-10:]) for run in runs]):.1f}",
        f"{mean([mean(run.answered) for run in runs]):.1f}",
        f"{mean([run.cpu_s for run in runs]):.0f}",
        *(f"{mean(list(one)):.3f} ({min(one):.3f} to {max(one):.3f})" for one in right),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Trains and writes the table."""
    with tempfile.TemporaryDirectory() as place:
        rows = []
        for count, (name, settings) in enumerate(SETTINGS.items()):
            rows.append(row(name, [trained(seed, settings, Path(place) / f"{count}-{seed}") for seed in SEEDS]))
            print(rows[-1], flush=True)
    Path(__file__).with_suffix(".md").write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
