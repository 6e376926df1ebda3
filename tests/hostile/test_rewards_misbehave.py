"""What a reward does to its process is put right or named, and the run ends when it has ended."""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harms import made_place
from hostile_recipes import Attempt
from test_hostile_recipes import placed
from test_hostile_runs import TRAINS, run

from grpo_recipes.contract.host.processes import all_processes
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code import isolation as containing
from grpo_recipes.worker.user_code.isolation import RewardLeft, contain
from grpo_recipes.worker.user_code.reward_functions import FEWEST_CALLS, Answered

ROOT = Path(__file__).parents[2]
NAN = float("nan")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containing, "_said", set())


def handle(number: signal.Signals) -> Callable[[], object]:
    return lambda: signal.signal(number, lambda *_: None)


def set_soft_limit(limit: int, value: int) -> None:
    resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))


CHANGES: dict[str, tuple[Callable[[], object], str]] = {
    "the folder": (lambda: os.chdir("/"), "changed the working folder"),
    "SIGTERM": (handle(signal.SIGTERM), "took over SIGTERM"),
    "SIGINT": (handle(signal.SIGINT), "took over SIGINT"),
    "SIGHUP": (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), "took over SIGHUP"),
    "SIGUSR1": (handle(signal.SIGUSR1), "took over SIGUSR1"),
    "SIGCHLD": (lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), "took over SIGCHLD"),
    "the mask": (lambda: os.umask(0o777), "set the mask of new files to 777"),
    "RANK": (lambda: os.environ.update(RANK="3"), "set RANK"),
    "WORLD_SIZE": (lambda: os.environ.update(WORLD_SIZE="8"), "set WORLD_SIZE"),
    "sys.stdout": (lambda: setattr(sys, "stdout", None), "replaced sys.stdout or sys.stderr"),
    "garbage collection": (
        lambda: gc.disable() if gc.isenabled() else gc.enable(),
        "switched garbage collection on or off",
    ),
    "a timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 500), "left a timer running"),
    "the recursion limit": (lambda: sys.setrecursionlimit(900), "lowered the recursion limit"),
    "warnings": (lambda: warnings.simplefilter("error"), "made warnings errors"),
    "a function of os": (lambda: setattr(os, "rename", None), "replaced os.rename"),
    "a class": (lambda: setattr(subprocess, "Popen", None), "replaced subprocess.Popen"),
    "the size of files": (lambda: set_soft_limit(resource.RLIMIT_FSIZE, 1000), "lowered the limit RLIMIT_FSIZE"),
    "open files": (lambda: set_soft_limit(resource.RLIMIT_NOFILE, 9), "lowered the limit RLIMIT_NOFILE"),
}


OF_TORCH = {
    "default dtype": ("torch.set_default_dtype(torch.float64)", "set torch's default dtype"),
    "default device": ("torch.set_default_device('meta')", "set torch's default device"),
    "seed": ("torch.manual_seed(0); torch.rand(3)", "seeded torch's random numbers"),
    "threads": ("torch.set_num_threads(torch.get_num_threads() + 1)", "set torch's number of threads"),
    "gradients": ("torch.set_grad_enabled(False)", "switched gradients on or off"),
    "precision": (
        "torch.set_float32_matmul_precision('medium')",
        "set the precision of torch's float32 products",
    ),
    "precision by the newer interface": (
        "torch.backends.fp32_precision = 'tf32'",
        "set the precision of torch's float32 products",
    ),
    "precision on a GPU": (
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "set the precision of torch's float32 products",
    ),
    "deterministic algorithms": (
        "torch.use_deterministic_algorithms(True)",
        "switched torch's deterministic algorithms",
    ),
    "autocast": ("torch.autocast('cpu', torch.bfloat16).__enter__()", "switched autocast on cpu on or off"),
    "cudnn": ("torch.backends.cudnn.benchmark = True", "set torch.backends.cudnn.benchmark"),
}
SETTINGS_OF_TORCH = """
import torch
from grpo_recipes.worker.user_code.isolation import contain
def settings():
    backends = torch.backends
    return (torch.get_default_dtype(), torch.get_default_device(), torch.initial_seed(), torch.get_num_threads(),
            torch.is_grad_enabled(), torch.get_float32_matmul_precision(), backends.cuda.matmul.allow_tf32,
            torch.is_autocast_enabled("cpu"), torch.get_deterministic_debug_mode(),
            backends.cudnn.benchmark, torch.get_rng_state().tolist())
for change in {changes!r}:
    before = settings()
    with contain("mine"):
        exec(change)
    assert settings() == before, change
with contain("draws"):
    torch.rand(3)
"""


@pytest.mark.stack
def test_settings_of_torch_are_restored_and_printed(warm_python: Path) -> None:
    program = SETTINGS_OF_TORCH.format(changes=[change for change, _ in OF_TORCH.values()])
    done = apart(program, python=[str(warm_python / "python"), "-Xwarm"])
    assert done.returncode == 0, done.stderr
    words = dict.fromkeys(f"reward mine {words}; that was undone" for _, words in OF_TORCH.values())
    assert done.stdout.splitlines() == list(words)


@dataclass
class State:
    """Has the fields of transformers' TrainerState that a reward may change by accident."""

    max_steps: int = 6
    best_metric: float = NAN
    log_history: list[object] = field(default_factory=lambda: [{"loss": 1.0}])


def test_the_state_of_the_trainer_is_restored(capsys: pytest.CaptureFixture[str]) -> None:
    of_run = State()
    with contain("mine", state=of_run):
        of_run.max_steps = 1
        of_run.log_history.clear()
        of_run.stage = 2  # type: ignore[attr-defined]
    assert (of_run.max_steps, of_run.log_history) == (6, [{"loss": 1.0}])
    assert capsys.readouterr().out.splitlines() == [
        "reward mine changed trainer_state.max_steps; that was undone",
        "reward mine changed trainer_state.log_history; that was undone",
    ]


def test_changes_that_a_reward_may_need_are_printed_and_stay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PATH", "/usr/bin")
    with contain("mine"):
        os.environ["MY_PATH"] = "/usr/bin:/usr/share/lean"
    assert os.environ["MY_PATH"] == "/usr/bin:/usr/share/lean"
    assert capsys.readouterr().out == "reward mine changed or removed the variable MY_PATH; that was not undone\n"


def state() -> tuple[object, ...]:
    umask = os.umask(0o077)
    os.umask(umask)
    handlers = [signal.getsignal(each) for each in (*containing._WATCHED,)]
    variables = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    timer = signal.getitimer(signal.ITIMER_REAL)[0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_NOFILE)
    functions = os.rename, subprocess.Popen, [each[0] for each in warnings.filters].count("error")
    return os.getcwd(), umask, handlers, variables, sys.getrecursionlimit(), gc.isenabled(), timer, limits, functions


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_reward_changes_is_put_right_and_said_once(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    does, words = CHANGES[change]
    before = state()
    for _ in range(3):
        with contain("mine"):
            does()
    assert state() == before
    assert capsys.readouterr().out == f"reward mine {words}; that was undone\n"


def test_a_reward_that_changes_nothing_is_not_named(capsys: pytest.CaptureFixture[str]) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with contain("mine"):
            os.environ["MINE"] = "1"
    assert capsys.readouterr().out == ""
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("leaving", [SystemExit(0), SystemExit("bye"), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_a_reward_that_leaves_is_an_error_with_its_name(leaving: BaseException) -> None:
    with pytest.raises(RewardLeft, match=f"reward mine raised {type(leaving).__name__}"), contain("mine"):
        raise leaving


def test_an_error_names_the_reward() -> None:
    with pytest.raises(ValueError, match="no") as raised, contain("mine"):
        raise ValueError("no")
    assert raised.value.__notes__ == ["raised in reward mine"]


def apart(
    program: str, seconds: float = 60, python: Sequence[str] = (sys.executable,)
) -> "subprocess.CompletedProcess[str]":
    """A program of its own."""
    command = [*python, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)


FORKS = {
    "returns": "os.fork()",
    "raises": "if os.fork() == 0: raise ValueError('in the child')",
    "exits": "if os.fork() == 0: sys.exit(0)",
    "forks again": "os.fork(); os.fork()",
    "goes elsewhere": "if os.fork() == 0: os.chdir('/'); os.setsid()",
}
FORKING = """
import os, sys
from grpo_recipes.worker.user_code.isolation import contain
with contain("mine"):
    {fork}
os.write(1, b"trained\\n")
"""


@pytest.mark.parametrize("fork", FORKS)
def test_a_fork_does_not_train(fork: str) -> None:
    done = apart(FORKING.format(fork=FORKS[fork]))
    assert (done.returncode, done.stdout.count("trained")) == (0, 1), done.stderr
    assert "a process that it forked returned, and was ended" in done.stderr


def test_a_fork_that_is_not_contained_trains_twice() -> None:
    done = apart(FORKING.format(fork=FORKS["returns"]).replace('with contain("mine")', "if True"))
    assert done.stdout.count("trained") == 2


def test_a_fork_that_comes_back_in_another_way_is_ended_at_the_next_step() -> None:
    done = apart(
        "import os, signal, time\nfrom grpo_recipes.worker.user_code.isolation import contain, end_if_fork\n"
        "import threading\n"
        "with contain('mine'):\n    signal.signal(signal.SIGUSR2, lambda *_: os.fork())\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR2)).start()\n"
        "time.sleep(1)\ntime.sleep(0.5)\nend_if_fork()\nos.write(1, b'trained')\n"
    )
    assert done.stdout == "trained"


@pytest.mark.parametrize(
    "closing",
    [
        "os.close(1); os.close(2)",
        "os.dup2(os.open('/dev/null', 1), 1)",
        "os.closerange(0, 3)",
        "sys.stdout.close()",
        "sys.stderr.close(); sys.stdout.buffer.close()",
        "sys.stdout.detach()",
    ],
)
def test_the_output_of_a_process_is_given_back(closing: str) -> None:
    done = apart(
        "import os, sys\nfrom grpo_recipes.worker.user_code.isolation import contain\n"
        f"with contain('mine'): {closing}\nprint('seen', flush=True)\nos.write(2, b'seen')\n"
    )
    assert "seen" in done.stdout and "seen" in done.stderr
    assert "reward mine closed or replaced the output of its process" in done.stdout


LEAVING = """
import atexit, multiprocessing, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from grpo_recipes.worker.survival.interruption import leave_soon
atexit.register(lambda: print("at exit", flush=True))
{left}
{leave}
sys.exit(7)
"""
LEFT = {
    "a thread": ("threading.Thread(target=time.sleep, args=(300,), name='spins').start()", "thread spins"),
    "a busy thread": (
        "def spin():\n    while True: pass\nthreading.Thread(target=spin, name='spins').start()",
        "thread spins",
    ),
    "a pool that works": ("ThreadPoolExecutor(1, 'pool').submit(time.sleep, 300)", "thread pool_0"),
    "a process": ("multiprocessing.Process(target=time.sleep, args=(300,)).start()", "processes of multiprocessing"),
}


@pytest.mark.parametrize("left", LEFT)
def test_what_a_reward_leaves_keeps_no_run(left: str) -> None:
    program, words = LEFT[left]
    began = time.monotonic()
    done = apart(LEAVING.format(left=program, leave="leave_soon(7, 0.5)"), 100)
    assert done.returncode == 7
    assert f"note: ended without {words}" in done.stderr
    assert time.monotonic() - began < 90
    assert done.stdout == "at exit\n"


@pytest.mark.parametrize(
    "left",
    ["", "ThreadPoolExecutor(4).submit(int)", "threading.Thread(target=time.sleep, args=(0.2,)).start()"],
    ids=["nothing", "an idle pool", "a thread that ends"],
)
def test_what_ends_by_itself_is_waited_for(left: str) -> None:
    done = apart(LEAVING.format(left=left, leave="leave_soon(7, 30)"))
    assert (done.returncode, done.stdout, done.stderr) == (7, "at exit\n", "")


def test_without_it_a_thread_keeps_the_run() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        apart(LEAVING.format(left=LEFT["a thread"][0], leave=""), 3)


def test_a_reward_in_a_thread_is_contained_too() -> None:
    found = []

    def call() -> None:
        with contain("mine"):
            os.chdir("/")
        found.append(os.getcwd())

    before = os.getcwd()
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found == [before]


ANSWERS: dict[str, tuple[list[object], bool]] = {
    "numbers": ([1.0, 0.0], False),
    "a number among NaN": ([NAN, 0.0], False),
    "a number among None": ([None, 1], False),
    "infinity": ([NAN, float("inf")], False),
    "NaN alone": ([NAN, NAN], True),
    "None alone": ([None, None], True),
    "NaN and None": ([NAN, None], True),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_rewards_that_never_give_a_number_stop_the_run(case: str) -> None:
    found, is_stopped = ANSWERS[case]
    answered = Answered(["mine"])
    for _ in range(FEWEST_CALLS - 1):
        answered.look("mine", found)
    if is_stopped:
        with pytest.raises(Refused, match="no reward has returned a number: mine"):
            answered.look("mine", found)
        with pytest.raises(Refused):
            answered.refuse_no_answer()
    else:
        answered.look("mine", found)
        answered.refuse_no_answer()


def test_one_reward_that_answers_is_enough() -> None:
    answered = Answered(["silent", "speaks"])
    for _ in range(20):
        answered.look("silent", [NAN])
        answered.look("speaks", [1.0])
    answered.refuse_no_answer()
    Answered([]).look("beside a model", [NAN])


EVERYTHING = """
import os, signal, sys, threading, time, torch
def f(completions, trainer_state, **kwargs):
    trainer_state.max_steps = 7
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.environ["WORLD_SIZE"] = "7"
    sys.stdout.close()
    os.fork()
    threading.Thread(target=time.sleep, args=(500,), name="left").start()
    os.system("sleep 500 &")
    return [float(len(str(each)) % 3) for each in completions]
"""
NEVER = "def f(completions, **kwargs):\n    return [float('nan') for _ in completions]\n"
LEAVES = "import sys\ndef f(completions, **kwargs):\n    sys.exit(0)\n    return [0.0 for _ in completions]\n"
DIES = "import os\ndef f(completions, **kwargs):\n    os._exit(0)\n    return [0.0 for _ in completions]\n"
ENDS = {
    "everything at once": (EVERYTHING, 0, "completed"),
    "NaN alone": (NEVER, 3, "no reward has returned a number: f"),
    "sys.exit": (LEAVES, 1, "reward f raised SystemExit: 0"),
    "os._exit": (DIES, 1, "ended without a message: it ended with exit code 0"),
}


@pytest.mark.stack
@pytest.mark.parametrize(
    ("case", "python"),
    [(case, "") for case in ENDS] + [pytest.param("everything at once", sys.executable, marks=pytest.mark.long)],
    ids=[*ENDS, "everything at once, by the Python of a user"],
)
def test_a_run_ends_when_it_has_ended(case: str, python: str, tmp_path: Path, warm_python: Path) -> None:
    source, code, words = ENDS[case]
    place = placed(made_place(tmp_path), Attempt("misbehaves", TRAINS, {"r.py": source}))
    asked = run(place, "run", "recipe.yaml")
    sha256 = asked.printed.rsplit("--allow-code ", 1)[1][:64]
    allowed = ("--out", "runs/one", "--allow-code", sha256)
    ended = run(place, "run", "recipe.yaml", *allowed, seconds=400, python=python or str(warm_python / "python"))
    folder = place.team / "runs" / "one"
    record, log = json.loads((folder / "run.json").read_text()), (folder / "train.log").read_text()
    assert (ended.codes, record["exit_code"]) == ([code], code), ended.printed + log
    assert words in f"{record['status']} {record['message']}"
    assert [each for each in all_processes() if str(tmp_path) in " ".join(each.argv)] == []
    if code == 0:
        steps = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"event": "step"' in line]
        assert len(steps) == 1
        for said in (
            "changed the working folder",
            "took over SIGTERM",
            "set WORLD_SIZE",
            "left running",
            "it forked",
            "closed or",
            "changed trainer_state.max_steps",
            "set torch's default dtype",
            "seeded torch's",
        ):
            assert said in log
