"""Measures for how long a training waits for run.json: `python benchmarks/record_cost.py [--rounds 200]`.

Figures of a step are put into the sealed run.json of a run folder: by a call that returns when they are on the disk,
and by one that leaves them to a thread. Medians of milliseconds by the clock and of the calling thread's processor
time.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from grpo_recipes.contract.integrity.run_folder import new_run_id, write_integrity
from grpo_recipes.worker._shared.record import Record

FIGURES = {f"completions/figure_{number}": number / 7 for number in range(30)}


def spent(rounds: int, act: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds by the clock, and of this thread's processor time."""
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.thread_time()
        act()
        walls.append((time.perf_counter() - wall) * 1e3)
        cpus.append((time.thread_time() - cpu) * 1e3)
        time.sleep(0.02)  # the thread writes meanwhile, as beside a step
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "plan.json").write_text("{}\n")
        (folder / "worker").mkdir()
        write_integrity(folder, new_run_id())
        record = Record(folder, 0)
        record.start(resumed=False)
        print("| call | ms by the clock | CPU ms |\n|---|---|---|")
        for name, call in (("update", record.update), ("note", record.note)):
            wall_ms, cpu_ms = spent(options.rounds, lambda put=call: put(step=1, metrics=FIGURES))
            print(f"| {name} | {wall_ms:.3f} | {cpu_ms:.3f} |")
        record.end("completed", 0)


if __name__ == "__main__":
    main()
