"""Trains the quickstart at rising learning rates, of all weights and with LoRA, and prints what is left of the model.

    python benchmarks/learning_rates.py [--optimizers adamw_torch,adafactor] [--rates 1e-3 1e-2]
        [--only 'lora;full;r 1, alpha 32']

Each line is one whole `grpo-run` of 40 steps: an optimizer, and for each rate the share of 200 held-out sums that the
most likely answer has right in the end. The model begins at about 0.56, and answers nothing where it is 0.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {"full": ["lora=null"], "lora": []}
SHAPES = {  # of adapters, for --only
    f"r {rank}, alpha {alpha}": [f"lora.r={rank}", f"lora.lora_alpha={alpha}"]
    for rank, alpha in ((1, 2), (1, 32), (4, 32), (64, 32), (64, 128))
}
SUPERVISED = {  # steps of a warm start at the rate, with one step of GRPO that moves nothing
    f"warm start, {kind}": [
        *settings,
        *(
            "warm_start.steps=40",
            "warm_start.answer={{ answer }}",
            "training.max_steps=1",
            "training.learning_rate=1e-9",
        ),
    ]
    for kind, settings in KINDS.items()
}
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
OPTIMIZERS = ("adamw_torch", "adafactor", "rmsprop", "adagrad", "sgd")
SETTINGS = ("training.max_steps=40", "training.save_steps=0", "evaluation.max_rows=200", "evaluation.at_start=false")


def accuracy(kind: str, optimizer: str, rate: float) -> float | None:
    """The share of right answers after training; None for a run that failed."""
    section = "warm_start" if kind in SUPERVISED else "training"
    settings = [*SETTINGS, f"training.optim={optimizer}", f"{section}.learning_rate={rate:g}"]
    settings += (KINDS | SHAPES | SUPERVISED)[kind]
    options = [word for setting in settings for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / "quickstart.yaml"), *options]
        if subprocess.run([*command, "--out", str(out)], capture_output=True).returncode != 0:
            return None
        return float(json.loads((out / "run.json").read_text())["evaluation"]["after"]["reward"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizers", default=",".join(OPTIMIZERS), help="words of `optim`, separated by commas")
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument(
        "--only", default=";".join(KINDS), help="kinds, shapes, or 'warm start, full', separated by semicolons"
    )
    arguments = parser.parse_args()
    print(f"{'kind':<18}{'optimizer':<14}{''.join(f'{rate:>8g}' for rate in arguments.rates)}", flush=True)
    for kind in arguments.only.split(";"):
        for optimizer in arguments.optimizers.split(","):
            print(f"{kind:<18}{optimizer:<14}", end="", flush=True)
            for rate in arguments.rates:
                right = accuracy(kind, optimizer, rate)
                print("  failed" if right is None else f"{right:>8.2f}", end="", flush=True)
            print()


if __name__ == "__main__":
    main()
