"""Runs the stages on this machine's GPU and records their results: `make test-gpu`, or `python -m gpu_kit.run`.

Results go to OUT/results.json and OUT/report.md after each stage. A stage that passed is not run again: the same
command continues where the last one stopped, with --earlier FILE also on a different machine of the same kind.
"""

import argparse
import signal
import sys
from pathlib import Path

from gpu_kit.machine import machine
from gpu_kit.report import report
from gpu_kit.result import Results, read_results
from gpu_kit.session import Session, run_stages
from gpu_kit.stages.catalog import STAGES
from gpu_kit.trained import ROOT

MINUTES = 25.0
OLDER = ROOT / ".stacks" / "0.23.1-4.57.6"


def chosen(words: str) -> list[str]:
    """Returns stages in their order, from names with commas, or "all". Raises ValueError for an unknown name."""
    wanted = set(filter(None, words.split(",")))
    unknown = sorted(wanted - {"all", *STAGES})
    if unknown or not wanted:
        problem = f"no stage {unknown[0]!r}" if unknown else "no stage was named"
        raise ValueError(f"{problem}; the stages are {', '.join(STAGES)}, or all")
    return [name for name in STAGES if wanted & {name, "all"}]


def still_to_run(names: list[str], results: Results, *, again: bool) -> list[str]:
    """Returns the stages that have not passed yet; all of them with `again`. Those that were cut off come last.

    So a stage that hangs does not take the time of the next call, too.
    """
    left = [name for name in names if again or name not in results.passed()]
    cut_off = {name for name, one in results.stages.items() if one.status == "cut off"}
    return sorted(left, key=cut_off.__contains__)


def begun(out: Path, earlier: Path | None, device: str) -> Results:
    """Returns the results so far, with the current machine. Raises ValueError for a different kind of device."""
    live = machine()
    for place in filter(None, (out / "results.json", earlier)):
        if place.exists() or place == earlier:
            found = read_results(place)
            before, now = found.machines[-1].get("gpu"), live.get("gpu")
            if found.device != device or before != now:
                raise ValueError(
                    f"{place} is from {found.device} {before or ''}, this is {device} {now or ''}; use another --out"
                )
            found.move_to(live)
            return found
    return Results(device, [live])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: small versions of the stages")
    parser.add_argument("--stages", default="all", help="names with commas, or all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"for all stages (default: {MINUTES:g})")
    parser.add_argument("--beside", type=int, default=1, help="stages to run at the same time (default: 1)")
    parser.add_argument("--out", type=Path, help="folder of the results (default: build/gpu-DEVICE)")
    parser.add_argument("--work", type=Path, help="folder for models and runs (default: build/gpu-work-DEVICE)")
    parser.add_argument("--earlier", type=Path, help="results.json of an earlier machine to continue from")
    parser.add_argument("--older", type=Path, help="older packages for the stage releases (default: from .stacks)")
    parser.add_argument("--again", action="store_true", help="run stages that passed again")
    parser.add_argument("--keep", action="store_true", help="keep the weights of the runs")
    parser.add_argument("--list", action="store_true", help="print the stages and stop")
    options = parser.parse_args()
    if options.list:
        for name, stage in STAGES.items():
            print(f"{name:14} at most {stage.limit_s:3} s  {stage.tells}")
        return 0
    out = (options.out or ROOT / "build" / f"gpu-{options.device}").resolve()
    work = (options.work or ROOT / "build" / f"gpu-work-{options.device}").resolve()
    older = options.older or (OLDER if OLDER.is_dir() else None)
    try:
        names = chosen(options.stages)
        out.mkdir(parents=True, exist_ok=True)
        results = begun(out, options.earlier, options.device)
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    session = Session(work, out, older and older.resolve(), options.keep)
    live = results.machines[-1]
    print(f"{live.get('gpu', 'no GPU')}, torch {live.get('torch')}; results in {out}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the running stage, too

    def print_line(line: str) -> None:
        (out / "report.md").write_text(report(results), encoding="utf-8")
        print(line, flush=True)

    to_run = still_to_run(names, results, again=options.again)
    run_stages(session, results, to_run, options.minutes * 60, print_line, options.beside)
    bad = [name for name in names if results.is_bad([name])]
    out_of_it = [name for name in names if results.stages[name].status == "left out"]
    print(f"{len(names) - len(bad) - len(out_of_it)} of {len(names)} passed, {len(out_of_it)} left out")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
