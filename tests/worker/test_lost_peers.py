"""A process that loses the others says so; one that failed itself stays the cause."""

from collections.abc import Callable

import pytest
from worker_runs import Changes, Trained, planned_reward

from grpo_recipes.contract.findings.lost_peer import WrongSetUp, find_lost_peer, find_watchdog_end

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
NCCL = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, Timeout(ms)=600000)"
# What torch 2.13 says; gloo's and the store's words were seen, NCCL's are from its source.
TEXTS = [
    (f"{GLOO}unbound_buffer.cc:78] Timed out waiting 20000ms for recv operation to complete", "for 20 s"),
    (f"{GLOO}pair.cc:553] Connection closed by peer [10.0.0.1]:917. This is typically", "broke, at [10.0.0.1]:917"),
    (f"{GLOO}pair.cc:537] Read error [10.0.0.1]:50860: Connection reset by peer", "broke, at [10.0.0.1]:50860"),
    (f"{GLOO}pair.cc:461] Application timeout caused pair closure", "no answer from the other processes"),
    (f"{NCCL} ran for 600055 milliseconds before timing out.", "for 600 s"),
    ("NCCL error in: ProcessGroupNCCL.cpp:94, remote process exited or there was a network error", "broke"),
    ("NCCL communicator was aborted on rank 0.", "broke"),
    ("[TCPStore] recvValue failed on SocketImpl(fd=4)", "broke"),
]


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("Connection closed by peer [127.0.0.1]:1"),
        RuntimeError("CUDA out of memory"),
        ConnectionError("HTTPConnectionPool: Connection refused"),
        RuntimeError("the judge timed out waiting 20000ms for an answer"),
    ],
    ids=str,
)
def test_a_failure_of_its_own_is_none_of_the_others(problem: Exception) -> None:
    assert find_lost_peer(problem) is None


@pytest.mark.parametrize(("text", "said"), TEXTS, ids=[text[-40:] for text, _ in TEXTS])
def test_what_torch_says_of_the_others_is_understood(text: str, said: str) -> None:
    words = find_lost_peer(RuntimeError(text))
    assert words is not None and said in str(words)
    wrapped = RuntimeError("the step failed")
    wrapped.__cause__ = RuntimeError(text)
    assert str(find_lost_peer(wrapped)) == str(words)


SYSTEM = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled system error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external "
    "library call failed or device error. \nLast error:\n"
)
SMALL = "Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)"


@pytest.mark.parametrize(
    ("last", "fix"),
    [
        (SMALL, "--shm-size"),
        (
            "Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)",
            "emptyDir",
        ),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "ulimit -l unlimited"),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "ulimit -l unlimited"),
    ],
    ids=["shm of Docker", "shm is full", "memlock", "memlock of a queue"],
)
def test_what_nccl_lacks_on_this_machine_is_no_lost_peer(last: str, fix: str) -> None:
    words = find_lost_peer(RuntimeError(SYSTEM + last))
    assert isinstance(words, WrongSetUp) and fix in str(words.findings[0].fix)
    assert words.findings[0].because == (last,)


def test_another_error_of_the_system_is_not_called_a_lost_peer() -> None:
    assert find_lost_peer(RuntimeError(f"{SYSTEM}Call to open failed: Permission denied")) is None
    lost = find_lost_peer(RuntimeError(f"{SYSTEM}Call to connect to 10.0.0.2<4711> failed: Connection refused"))
    assert lost is not None and not isinstance(lost, WrongSetUp)


@pytest.mark.parametrize(
    "last", ["", "socketStartConnect: Connect to 10.0.0.2 failed : Software caused connection abort"]
)
def test_an_error_of_the_system_without_a_reason_or_of_the_network_is_a_lost_peer(last: str) -> None:
    found = find_lost_peer(RuntimeError(f"{SYSTEM}{last}"))
    assert found is not None
    assert "the connection to another process broke" in str(found)


def test_a_call_that_never_returned_says_less_than_a_peer_that_was_late() -> None:
    late = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)"
    log = (
        "[rank0]:[E1] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog"
        " hang.\n"
        f"[rank0]:[E2] Process group watchdog thread terminated with exception: {late}\n"
    )
    assert "no answer from the other processes" in str(find_watchdog_end(log, 0))


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: uncorrectable NVLink error detected during the execution",
        "CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
    ],
)
def test_a_fault_of_the_hardware_continues_on_another_gpu(text: str) -> None:
    words = find_lost_peer(RuntimeError(text))
    assert words is not None and not isinstance(words, WrongSetUp)
    assert "a GPU has a hardware fault" in str(words) and "--resume on other GPUs" in str(words)


def test_a_failed_kernel_is_the_run_s_own() -> None:
    assert find_lost_peer(RuntimeError("CUDA error: an illegal memory access was encountered")) is None
    assert find_lost_peer(RuntimeError("CUDA error: unspecified launch failure")) is None


# What was printed on GPUs, by torch 2.7 and by 2.2, the second by the C++ runtime too.
ENDED_BY_NCCL = """
[rank1]:[E606 09:10:08.364365475 ProcessGroupNCCL.cpp:818] [Rank 1] Some NCCL operations have failed or timed out.
[rank1]:[E606 09:10:08.364376295 ProcessGroupNCCL.cpp:832] [Rank 1] To avoid data inconsistency, we are taking the \
entire process down.
[rank1]:[E606 09:10:08.365393482 ProcessGroupNCCL.cpp:2197] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group \
watchdog thread terminated with exception: """.replace("\\\n", "")
TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLGATHER, Timeout(ms)=600000) ran"
BEFORE = (
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  [Rank 1] NCCL watchdog thread \
terminated with exception: "
)
STUCK = (
    "[rank1]:[F725 02:47:41.268394894 ProcessGroupNCCL.cpp:1653] [PG ID 0 PG GUID 0(default_pg) Rank 1] [PG ID 0 PG "
    "GUID 0(default_pg) Rank 1] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
    "watchdog hang."
)
REMOTE = "NCCL error: remote process exited or there was a network error, NCCL version 2.27.3"


@pytest.mark.parametrize(
    ("log", "rank", "said"),
    [
        ("ValueError: no", 1, None),
        (f"{ENDED_BY_NCCL}CUDA error: an illegal memory access was encountered", 1, None),
        (f"{ENDED_BY_NCCL}[Rank 1] {TIMEOUT}", 0, None),
        (
            f"{ENDED_BY_NCCL}[Rank 1] {TIMEOUT}",
            1,
            "no answer from the other processes for 600 s, reported by torch's",
        ),
        (f"{ENDED_BY_NCCL}{REMOTE}", 1, "the connection to another process broke"),
        (f"{BEFORE}[Rank 1] {TIMEOUT}", 1, "no answer from the other processes for 600 s"),
        (f"{ENDED_BY_NCCL}CUDA error: uncorrectable ECC error encountered", 1, "a GPU has a hardware fault"),
        (f"{ENDED_BY_NCCL}{SYSTEM.replace(' in: /pytorch', ':')}{SMALL}", 1, "NCCL got no shared memory"),
        (STUCK, 1, "a call of NCCL or CUDA never returned"),
    ],
    ids=[
        "another failure",
        "its own kernel",
        "another process",
        "too late",
        "broken",
        "torch 2.2",
        "ECC",
        "no shared memory",
        "the watchdog hangs",
    ],
)
def test_what_a_watchdog_printed_before_it_ended_a_process_is_understood(log: str, rank: int, said: str | None) -> None:
    lost = find_watchdog_end(f"step 7\n{log}\nException raised from checkTimeout at ProcessGroupNCCL.cpp:760", rank)
    assert (lost is not None) == (said is not None) and (said or "") in str(lost)


FAILING = [
    pytest.param("raise LookupError('no such unit')", 1, "reward mine raised LookupError: no such unit", id="raises"),
    pytest.param(
        "os.kill(os.getpid(), 9)", -9, "process 1 ended without an error message: it was killed", id="is killed"
    ),
    pytest.param(f"raise RuntimeError({SYSTEM + SMALL!r})", 1, "NCCL got no shared memory", id="lacks shared memory"),
    pytest.param(
        "os.abort()",
        -6,
        "process 1 ended without an error message: it was killed",
        id="crashes in a library",
        marks=pytest.mark.long,
    ),
]


@pytest.mark.stack
@pytest.mark.parametrize(("does", "exit_code", "message"), FAILING)
def test_the_process_that_failed_is_the_cause(
    does: str,
    exit_code: int,
    message: str,
    make_plan: Callable[..., Changes],
    trained: Callable[..., Trained],
    sha256_of_text: Callable[[str], str],
) -> None:
    text = f"""
import os

calls = 0

def mine(completions, **kwargs):
    global calls
    calls += 1
    if calls == 3 and os.environ["RANK"] == "1":
        {does}
    return [float(len(completion[0]["content"])) for completion in completions]
"""
    mine = planned_reward("mine.py:mine", kind="python", name="mine", sha256=sha256_of_text(text))
    plan = make_plan("lora", rewards=[mine], arguments={"per_device_train_batch_size": 8, "ddp_timeout": 60})
    plan["expect"]["arguments"] = {}
    plan["expect"]["world_size"] = plan["world"]["num_processes"] = 2

    failed = trained(plan, user={"mine.py": text}, ranks=2)

    assert failed.exit_codes == [75, exit_code], failed.output
    assert (failed.record["status"], failed.record["exit_code"]) == ("failed", 1), failed.output
    assert failed.record["message"].startswith(message)
    assert "error: the connection to another process broke, at [127.0.0.1]:" in failed.output
