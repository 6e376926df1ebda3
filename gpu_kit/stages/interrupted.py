"""Interrupts and resumes runs, and kills one process of a run."""

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from gpu_kit.bench import DETERMINISTIC, Bench, Broken
from gpu_kit.stages.sharded import need_two_gpus
from gpu_kit.trained import Trained, command, environment, run_of, train
from grpo_recipes.contract.host.processes import descendants, ranks

EXIT_INTERRUPTED = 75
_WAIT_S = 240
_SOON_S = 120


def run_resume(bench: Bench) -> None:
    file = bench.recipe("whole", "0.5B", tokens=128)
    settings = ("training.max_steps=6", "training.save_steps=2", DETERMINISTIC)
    whole = bench.completed(bench.train(file, *settings))
    cut = _interrupted(bench, file, settings, lambda run: len(run.steps) >= 2)
    bench.figure("interrupted at step", cut.record.get("step"))
    bench.holds(cut.code == EXIT_INTERRUPTED, f"the interrupted run ended with {cut.code}: {cut.said}")
    resumed = train(cut.folder, "run", str(cut.folder), "--resume")
    if resumed.code:
        raise Broken(f"--resume: exit {resumed.code}: {resumed.said}")
    same = _digest(whole.folder) == _digest(cut.folder)
    bench.figure("bit for bit", same)
    bench.holds(same, f"the resumed run has other weights; losses {resumed.losses}, uninterrupted {whole.losses}")


def run_sigterm(bench: Bench) -> None:
    tokens = bench.scale.times(512, 128)
    file = bench.recipe("sigterm", "0.5B", tokens=512)
    settings = (
        "training.max_steps=50",
        f"generation.max_completion_length={tokens}",
        f"generation.min_tokens={tokens}",
    )
    cut = _interrupted(bench, file, settings, lambda run: len(run.steps) >= 1)
    bench.figure("status", cut.record.get("status"))
    bench.figure("checkpoint", cut.record.get("checkpoint"))
    bench.holds(cut.code == EXIT_INTERRUPTED, f"ended with {cut.code}: {cut.said}")
    bench.holds(cut.record.get("status") == "interrupted", f"run.json says {cut.record.get('status')}")
    bench.holds(bool(cut.record.get("checkpoint")), "nothing was saved")


def run_lost(bench: Bench) -> None:
    """Kills one of two processes: the other waits for it in a collective, and must end too."""
    need_two_gpus(bench)
    file = bench.recipe("lost", "0.5B", tokens=128)

    def kill_one(run: "subprocess.Popen[bytes]") -> None:
        *_, second = ranks(descendants(run.pid))
        os.kill(second, signal.SIGKILL)

    settings = ("training.max_steps=50", "launch.num_processes=2")
    cut = _interrupted(bench, file, settings, lambda run: len(run.steps) >= 1, kill_one)
    bench.figure("said", cut.messages or cut.record.get("message"))
    bench.holds(cut.record.get("status") in ("failed", "interrupted"), f"run.json says {cut.record.get('status')}")
    bench.holds(cut.code != 0, "a run that lost a process ended with 0")


def _tell_to_stop(run: "subprocess.Popen[bytes]") -> None:
    run.send_signal(signal.SIGTERM)


def _interrupted(
    bench: Bench,
    file: Path,
    settings: tuple[str, ...],
    is_time: Callable[[Trained], bool],
    end: "Callable[[subprocess.Popen[bytes]], None]" = _tell_to_stop,
) -> Trained:
    """Runs a training and interrupts or harms it as soon as `is_time` returns true."""
    out = bench.run_folder(f"{file.stem}-cut")
    words = [word for setting in settings for word in ("--set", setting)]
    began = time.time()
    log = bench.folder / f"{file.stem}-cut.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command("run", str(file), "--out", str(out), *words),
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        while process.poll() is None and not is_time(run_of(out, 0, "", began)):
            if time.time() - began > _WAIT_S:
                process.kill()
                raise Broken(f"no step after {_WAIT_S} s: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        told = time.monotonic()
        end(process)
        try:
            code = process.wait(_SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Broken(f"still there {_SOON_S} s later: {log.read_text()[-2000:]}") from None
    bench.figure("seconds from the signal to the end", round(time.monotonic() - told, 1))
    return run_of(out, code, log.read_text(), began)


def _digest(folder: Path) -> dict[str, str]:
    """Returns the digest of each file of the saved adapter's weights."""
    files = sorted((folder / "final").glob("*.safetensors"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
