"""Stands for the trainer of a run folder: no model, but each event, file and exit that a sweep looks at.

The outcome is the learning rate and a little that depends on the seed; a rate of 0.5 fails, one of 0.25 is stopped by a
guard. Each start adds a line to `starts`: the GPUs that it may see, and how it was started. STAND_IN_TOGETHER: so many
runs beside this one have to be there before it goes on. STAND_IN_PAUSE: seconds before each step.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1]).parents[1]
sys.path.insert(0, str(FOLDER / "worker"))

from grpo_recipes.contract.run_record import RunRecord, write_record  # noqa: E402


def main() -> int:
    """Trains, so to say; returns the exit code."""
    config = json.loads((FOLDER / "plan.json").read_text())["arguments"]["GRPOConfig"]
    rate, steps = config["learning_rate"], config["max_steps"]
    with (FOLDER / "starts").open("a") as file:
        file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {' '.join(sys.argv[2:])}\n")
    record = RunRecord(max_steps=steps, step=0)
    write_record(str(FOLDER), record)

    def save_and_stop(*_: object) -> None:
        write_record(str(FOLDER), RunRecord(status="interrupted", exit_code=75, step=1, max_steps=steps))
        os._exit(75)

    signal.signal(signal.SIGTERM, save_and_stop)
    together = int(os.environ.get("STAND_IN_TOGETHER", "1"))
    give_up = time.monotonic() + 60
    while len([*FOLDER.parent.glob("*/starts")]) < together and time.monotonic() < give_up:
        time.sleep(0.05)
    if rate == 0.5:
        write_record(str(FOLDER), RunRecord(status="failed", exit_code=1, step=1, max_steps=steps, message="no memory"))
        return 1
    outcome = rate + config["seed"] % 3 / 1000 * (1 + rate)
    with (FOLDER / "metrics.jsonl").open("a") as file:
        for step in range(1, steps + 1):
            time.sleep(float(os.environ.get("STAND_IN_PAUSE", "0")))
            event = {"event": "step", "step": step, "time": time.time(), "reward": outcome if step == steps else 0.0}
            file.write(json.dumps(event) + "\n")
            file.flush()
    if rate == 0.25:
        finding = {"id": "GRD003", "severity": "error", "message": "the reward stays the same"}
        write_record(str(FOLDER), RunRecord(status="stopped", exit_code=3, step=steps, findings=[finding]))
        return 3
    write_record(str(FOLDER), RunRecord(status="completed", exit_code=0, step=steps, max_steps=steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
