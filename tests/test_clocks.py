"""A test that compares times fails by chance on a busy machine, so each file that reads a clock gives its reason.

What can be counted is counted instead: `support.work.calls`. How time grows is asked of `support.work.growth`. CPU
seconds are bounded with `support.work.takes_at_most`, for the reason BOUNDED.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}

WAITS = "waits for a process or a file, and gives up after a minute or more, which only a hang reaches"
BOUNDED = "allows at least 20 times the CPU seconds it takes; without the defence it takes minutes or never ends"
ENDED = "a call is ended at a limit of wall time; the upper bound is a tenth of what the call takes without it"
FIGURE = "writes or prints what was used, or puts a time into made data; compares nothing"

REASONS = {
    "cli/test_bash_completion.py": WAITS,
    "cli/test_run.py": WAITS,
    "cli/test_watch.py": FIGURE,
    "contract/files/test_folder_files.py": BOUNDED,
    "contract/sandbox/test_sandbox.py": WAITS,
    "distributed/distributed_runs.py": FIGURE,
    "export/test_refused_exports.py": WAITS,
    "fuzz/test_robustness.py": BOUNDED,
    "gpu_kit/test_pack.py": WAITS,
    "hostile/harms.py": WAITS,
    "hostile/strange_places.py": WAITS,
    "hostile/test_redaction.py": BOUNDED,
    "hostile/test_rewards_misbehave.py": "what a reward leaves running sleeps for 300 s; the run ends within 90",
    "hostile/test_strange_checkpoints.py": WAITS,
    "launch/test_machines_meet.py": WAITS,
    "launch/test_never_silent.py": "frames come each half second, two are allowed; waiting for a processor is left out",
    "preflight/test_preflight.py": WAITS,
    "shipped_recipes/test_python_tool.py": ENDED,
    "slurm/slurm_runs.py": WAITS,
    "slurm/stub_jobs.py": WAITS,
    "slurm/test_sweep_jobs.py": WAITS,
    "slurm/throw_away_cluster.py": WAITS,
    "stacks/in_stack.py": WAITS,
    "stacks/test_failures_are_answered.py": FIGURE,
    "support/chromium.py": WAITS,
    "support/processes.py": WAITS,
    "support/work.py": "takes the least of several rounds, for ratios that differ by the square root of 32; or BOUNDED",
    "survival/killed_runs.py": WAITS,
    "survival/signalled_runs.py": WAITS,
    "survival/test_bit_flips.py": WAITS,
    "survival/test_lost_link.py": WAITS,
    "survival/two_machines.py": WAITS,
    "release/release_of.py": FIGURE,
    "sweep/stand_in_trainer.py": WAITS,
    "sweep/swept_runs.py": WAITS,
    "trust/test_recipe_environment.py": BOUNDED,
    "with_vllm/test_server_faults.py": WAITS,
    "with_vllm/test_server_on_another_machine.py": WAITS,
    "with_vllm/vllm_servers.py": WAITS,
    "worker/test_environment_limits.py": ENDED,
    "worker/test_phase_peaks.py": "asks for memory, not for time",
    "worker/test_received_models.py": BOUNDED,
    "worker/test_stall_monitor.py": WAITS,
    "worker/test_step_times.py": "compares times of one run with each other: parts are less than the whole",
    "worker/test_templates.py": BOUNDED,
    "worker/test_tool_process.py": ENDED,
}


def reads_a_clock(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name("time"), attr=name) if name in CLOCKS:
                return True
            case ast.Attribute(value=ast.Name("resource"), attr="getrusage"):
                return True
            case ast.ImportFrom(module="time"):
                return True
    return False


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time\ntime.sleep(1)", False),
        ("import time\nstart = time.monotonic()", True),
        ("from time import time", True),
        ("resource.getrusage(0)", True),
    ],
)
def test_a_clock_is_recognized(source: str, expected: bool) -> None:
    assert reads_a_clock(source) is expected


def test_each_file_that_reads_a_clock_gives_its_reason() -> None:
    files = {str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if reads_a_clock(path.read_text())}
    assert files == set(REASONS)
