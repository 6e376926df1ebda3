"""Each phase of a training has the peak of its own, and measuring it leaves the training as it is."""

import json
import mmap
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.work import calls
from worker_runs import Changes, Trained, events

from grpo_recipes.contract.metric_names import PHASE_SECONDS
from grpo_recipes.memory.estimate import LIBRARIES

pytestmark = pytest.mark.stack
MIB = 1 << 20
PHASES = {"load", "generate", "score", "update", "save"}
SLEEPS_S = 0.5
HOLDS = f"""
def digits(completions, **kwargs):
    import time
    time.sleep({SLEEPS_S})
    held = bytearray(b"x") * (400 << 20)
    return [float(len(completion[0]["content"]) % 2) for completion in completions]
"""


def estimates(**phases: int) -> Changes:
    """What a plan says of memory: one term of so many MiB in each phase."""
    terms = {phase: {"all": mebibytes * MIB} for phase, mebibytes in phases.items()}
    return {"verdict": "unknown", "phases": terms, "gpu_bytes": None, "assumed": [], "unknown": ""}


def holding_reward(sha256_of_text: Callable[[str], str]) -> Changes:
    """A user's reward that holds 400 MiB while it is called."""
    sha256 = sha256_of_text(HOLDS)
    file = {"kind": "python", "target": "rewards.py:digits", "path": "/rewards.py", "sha256": sha256}
    return {"name": "digits", "weight": 1.0, "kwargs": {}, "imports": {}, "package": None, "not_of": [], **file}


def test_what_is_held_in_a_phase_is_the_peak_of_that_phase_alone(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    memory = estimates(update=300, score=200)
    plan = make_plan(rewards=[holding_reward(sha256_of_text)], memory=memory, arguments={"max_steps": 2})
    run = trained(plan, user={"rewards.py": HOLDS})
    assert run.exit_code == 0, run.output
    memory = run.record["memory"]
    assert set(memory) == PHASES
    assert {one["counter"] for one in memory.values()} == {"VmHWM"}
    assert {phase: one["estimated"] for phase, one in memory.items() if one["estimated"]} == {
        "update": 300 * MIB,
        "score": 200 * MIB,
    }
    held = {phase: one["measured"] / MIB for phase, one in memory.items()}
    assert held["generate"] == pytest.approx(LIBRARIES / MIB, rel=0.35)  # a fork maps fewer pages of files
    assert all(390 < held["score"] - held[phase] < 600 for phase in PHASES - {"score"}), held
    assert all(line["memory_bytes"] == pytest.approx(memory["score"]["measured"], rel=0.05) for line in steps(run))
    for line in steps(run):
        spent = {phase: line[name] for phase, name in PHASE_SECONDS.items() if name in line}
        assert set(spent) == {"generate", "reward", "update"} and all(spent.values()), spent
        assert spent["reward"] >= SLEEPS_S and sum(spent.values()) >= line["step_time"] > SLEEPS_S, line
    shown = float(run.proofs()["PRF009"]["shown"].split()[3])
    assert shown == pytest.approx(memory["score"]["measured"] / 2**30, abs=0.11)


def steps(run: Trained) -> list[Changes]:
    """The lines of the steps."""
    return events(run.folder, "step")


def test_an_evaluation_is_a_phase_of_its_own_without_an_estimate(
    make_plan: Callable[..., Changes], held_out: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan(evaluation=held_out(), memory=estimates(generate=1), smoke=True, arguments={"max_steps": 1})
    run = trained(plan)
    assert run.exit_code == 0, run.output
    assert set(run.record["memory"]) == PHASES - {"save"} | {"evaluation"}
    assert run.record["memory"]["evaluation"]["estimated"] is None


def test_of_several_processes_the_largest_peak_is_told(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    text = HOLDS.replace("held =", "import os\n    held = os.environ['RANK'] == '1' and")
    reward = {**holding_reward(lambda _: sha256_of_text(text))}
    world = {"engine": "local", "num_nodes": 1, "num_processes": 2, "device": "cpu", "strategy": "ddp"}
    world |= {"main_process_ip": None, "main_process_port": 29500}
    plan = make_plan(rewards=[reward], world=world, arguments={"max_steps": 2})
    plan["arguments"]["GRPOConfig"]["per_device_train_batch_size"] = 8
    plan["expect"] = {**plan["expect"], "world_size": 2, "arguments": {"beta": 0.0}}
    run = trained(plan, user={"rewards.py": text}, ranks=2)
    assert run.exit_codes == [0, 0], run.output
    held = {phase: one["measured"] / MIB for phase, one in run.record["memory"].items()}
    assert held["score"] - held["update"] > 350, held


def hold(size: int) -> None:
    """Pages of the kernel's own, given back: malloc would take a free block that is resident already."""
    with mmap.mmap(-1, size) as block:
        for page in range(0, size, mmap.PAGESIZE):
            block[page] = 1


def test_a_counter_begins_anew_and_costs_little() -> None:
    from grpo_recipes.worker.memory.phase_peaks import ResidentMemory, counter_of

    counter = counter_of("cpu")
    assert isinstance(counter, ResidentMemory)
    counter.take()  # what the import held for a moment, and gave back
    before = counter.take().held
    hold(200 * MIB)
    assert 190 < (counter.take().held - before) / MIB < 260
    assert abs(counter.take().held - before) < 60 * MIB
    made = calls(counter.take)
    assert made < 60, made


# Without torch, which is not what is measured and takes five seconds.
TAKES = """
import mmap, sys, types
sys.modules["torch"] = types.ModuleType("torch")
sys.modules["grpo_recipes.worker._shared.library"] = types.SimpleNamespace(gather_from_all=None)
from grpo_recipes.worker.memory.phase_peaks import ResidentMemory, counter_of
for mebibytes in (1, 300):
    held = [mmap.mmap(-1, mebibytes << 20)]
    held[0].write(b"x" * len(held[0]))
    counter = counter_of("cpu")
    assert isinstance(counter, ResidentMemory), counter.name
    held.clear()
    counter.take()
    print(counter.take().held)
"""


def test_the_program_that_a_process_began_as_is_not_counted() -> None:
    """Neither one that was larger than this process is, nor one that was smaller than this process is at first."""
    begins = f"import os, sys; held = b'x' * (400 << 20); os.execv(sys.executable, [sys.executable, '-c', {TAKES!r}])"
    done = subprocess.run([sys.executable, "-c", begins], capture_output=True, text=True, check=True)
    larger, smaller = map(int, done.stdout.split())
    assert 5 * MIB < larger < 200 * MIB
    assert 5 * MIB < smaller < 200 * MIB


def test_where_the_mark_cannot_be_reset_the_most_so_far_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.worker.memory import phase_peaks

    monkeypatch.setattr(phase_peaks, "_CLEAR_REFS", Path("/proc/self/no such file"))
    counter = phase_peaks.ResidentMemory()
    hold(300 * MIB)
    most = counter.take().held
    assert most == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    assert (counter.take().held, counter.name) == (most, "VmHWM so far")


def test_measuring_changes_no_weight(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan("lora", arguments={"max_steps": 3})
    measured, bare = trained(plan), trained(plan, "phases_that_nobody_watches")
    assert (measured.exit_code, bare.exit_code) == (0, 0), bare.output
    assert set(bare.record["memory"]) < set(measured.record["memory"])
    assert weights(measured.folder) == weights(bare.folder)


def weights(folder: Path) -> bytes:
    """The adapter that was trained."""
    return (folder / "final" / "adapter_model.safetensors").read_bytes()


def test_run_json_declares_what_is_measured() -> None:
    schema = json.loads((Path(__file__).parents[2] / "schemas" / "run.schema.json").read_text())
    assert "memory" in schema["properties"]
