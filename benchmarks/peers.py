"""Measures what a check costs in programs like this one: `python benchmarks/peers.py [--rounds 7] [--write]`.

Each reads a recipe for GRPO in its own format, once a right one and once one with a mistyped key, which all of them
refuse. soup-cli is installed into an environment made for it, alone, as its users have it before they train;
`trl` is the command of the installed TRL, which has no check: a right file would train. Whole processes take turns,
with their children; medians of the rounds after one that warms the caches. --write: peers.md.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

from validate_time import COMMAND, FLOOR, MISTYPED, ROOT, TRL, Cost, run

TABLE = Path(__file__).with_name("peers.md")
SOUP = "soup-cli==0.77.0"
SOUP_RECIPE = """\
base: ./model
task: grpo
data: {train: ./train.jsonl, format: chatml}
training:
  epochs: 1
  lr: 2e-5
  batch_size: 8
  num_generations: 8
  lora: {r: 16, alpha: 32}
output: ./out
"""
RECIPE = ROOT / "recipes" / "quickstart.yaml"
HEAD = "| program | recipe | CPU s | s | MB | floors |\n|---|---|---|---|---|---|"


def soup_of(folder: Path) -> str:
    """soup-cli's command, in an environment of its own. Raises CalledProcessError where it cannot be installed."""
    venv.create(folder, with_pip=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", SOUP], check=True)
    return str(folder / "bin" / "soup")


def commands_in(folder: Path) -> dict[tuple[str, str], tuple[tuple[str, ...], int]]:
    """The command and its expected exit code, by program and recipe."""
    files = {
        "right.yaml": SOUP_RECIPE,
        "mistyped.yaml": SOUP_RECIPE.replace("num_generations", "num_generation"),
        "trl.yaml": MISTYPED,
        "ours.yaml": RECIPE.read_text(encoding="utf-8").replace("num_generations:", "num_generation:"),
        "train.jsonl": '{"messages": [{"role": "user", "content": "17+25="}]}\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text.replace("./quickstart/", f"{RECIPE.with_suffix('')}/"), encoding="utf-8")
    # It takes files in the folder that it is started in alone.
    soup = ("env", "-C", str(folder), soup_of(folder / "soup"), "--no-audit-log", "--no-telemetry", "plan", "-c")
    ours, theirs = (*COMMAND, "validate"), f"soup-cli {SOUP.partition('==')[2]}, `plan`"
    return {
        ("the floor: yaml, click, one Pydantic model", ""): (FLOOR, 0),
        ("`grpo-run validate`", "right"): ((*ours, str(RECIPE)), 0),
        (theirs, "right"): ((*soup, "right.yaml"), 0),
        ("`grpo-run validate`", "a mistyped key"): ((*ours, str(folder / "ours.yaml")), 2),
        (theirs, "a mistyped key"): ((*soup, "mistyped.yaml"), 1),
        (f"trl {version('trl')}, `trl grpo`", "a mistyped key"): ((*TRL, str(folder / "trl.yaml")), 2),
    }


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="write peers.md")
    options = parser.parse_args()
    costs: dict[tuple[str, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = commands_in(Path(folder))
        for _ in range(options.rounds + 1):
            for name, (command, exit_code) in commands.items():
                cost = run(command)
                if cost.exit_code != exit_code:
                    sys.exit(f"{name} ended with {cost.exit_code}, expected {exit_code}: nothing was measured")
                costs.setdefault(name, []).append(cost)
    floors = [cost.cpu_s for cost in next(iter(costs.values()))[1:]]
    rows = []
    for (program, recipe), (_, *counted) in costs.items():
        cpu_s, wall_s = (statistics.median(getattr(cost, of) for cost in counted) for of in ("cpu_s", "wall_s"))
        ratio = statistics.median(cost.cpu_s / floor for cost, floor in zip(counted, floors, strict=True))
        memory_mb = max(cost.memory_mb for cost in counted)
        rows.append(f"| {program} | {recipe} | {cpu_s:.2f} | {wall_s:.2f} | {memory_mb:.0f} | {ratio:.2f} |")
    text = f"""# Cost of a check in similar programs

Written by `python benchmarks/peers.py --write` with python {platform.python_version()}: medians of
{options.rounds} rounds in turn, and the highest memory of any round. Each program reads a recipe in its own format;
`trl grpo` has no check, so its row has no valid file. The table does not compare the mistakes that each
program finds; `docs/` lists those of `validate`.

{HEAD}
{chr(10).join(rows)}
"""
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
