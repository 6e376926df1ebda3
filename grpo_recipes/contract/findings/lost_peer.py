"""Explains exceptions and NCCL watchdog messages that mean a lost process, a faulty GPU or a missing setting.

gloo and NCCL raise when a connection breaks, when the process at its other end has ended, and after ddp_timeout seconds
without an answer; torch's store, through which processes first find each other, has different messages. On GPUs the
main thread waits for none of this: torch's watchdog notices, prints a message and ends the process with SIGABRT. None
of these is this process's own fault, so the run can be resumed from its checkpoint when all are back, or, after a GPU
fault, on a different GPU. If NCCL lacks something on a machine, every start there fails.
"""

import re
import socket
import traceback
from collections.abc import Iterator

from grpo_recipes.contract.findings.findings_text import Mistake

# Messages of torch 2.13: gloo's tcp transport, ProcessGroupGloo, ProcessGroupNCCL, TCPStore.
_LATE = re.compile(
    r"Timed out waiting (?P<gloo_ms>\d+)\s?ms for|Application timeout caused pair closure"
    r"|Watchdog caught collective operation timeout(.*Timeout\(ms\)=(?P<nccl_ms>\d+))?"
    r"|wait timeout after (?P<store_ms>\d+)ms|timed out in monitoredBarrier after (?P<barrier_ms>\d+)ms"
    r"|socket (has )?timed out after|timed out connecting|failed to connect/validate to host"
)
_BROKEN = re.compile(
    r"Connection (closed by peer|reset by peer|refused|was likely closed)|Broken pipe|No route to host"
    r"|Connection timed out|Network is unreachable|Read error \[|writev? \[|NCCL communicator was aborted"
    r"|ncclRemoteError|remote process exited or there was a network error"
    r"|connection abort|Got completion from peer|ncclSystemError[^\n]*(\nLast error:)?\s*$"
    r"|failed to recv, got 0 bytes|recvValue failed|sendBytes failed"
)
# Messages of NCCL 2.7 to 2.30, which torch appends to ncclSystemError; they recur until the machine is changed.
_SET_UP = (
    (
        re.compile(
            r"creating shared memory segment|failed to (extend|create shared memory file) /dev/shm|posix_fallocate"
        ),
        "NCCL got no shared memory: /dev/shm is full or too small",
        "a larger /dev/shm: docker run --shm-size=16g; in Kubernetes mount an emptyDir with medium: Memory there",
    ),
    (
        re.compile(r"ibv_reg_mr\w* failed|(ibv_create_|Unable to register memory).* Cannot allocate memory"),
        "NCCL cannot lock memory for InfiniBand: the limit is too low",
        "ulimit -l unlimited, as docker run --ulimit memlock=-1, or in limits.conf and for the scheduler",
    ),
)
# Hardware faults as CUDA reports them; the kernel log has their Xid. A launch failure may be the kernel's own.
_OF_GPU = re.compile(
    r"uncorrectable (ECC|NVLink) error|hardware stack error|peer GPU memory over nvlink or a hardware error"
    r"|GPU is lost|GPU has fallen off the bus"
)
_STUCK = re.compile(r"watchdog hang")
_OF_TORCH = re.compile(r"gloo|NCCL|nccl|c10d|TCPStore|Dist(Backend|Network|Store)Error|monitoredBarrier")
_PEER = re.compile(r"peer (\[[^\]]+\]:\d+)|\[([0-9a-fA-F:.]+)\]:(\d+)")
# The last message of a watchdog, from its own thread or the C++ runtime; torch 2.2, then 2.3 and newer. A second thread
# monitors the watchdog, and ends a process in which a call of NCCL or CUDA never returned.
_WATCHDOG = (
    r"(?:\[rank{rank}\]:.*|\bRank {rank}\] )(?:(?:NCCL|Process group) watchdog thread terminated with exception: "
    r"|Terminating the process after attempting to dump debug info, due to )(.+(?:\nnccl.*)?(?:\nLast error:.*\n.*)?)"
)
_LONGEST_BECAUSE = 300


class WrongSetUp(Mistake):
    """NCCL lacks something on this machine. The run exits with 1, since every start would fail in the same way."""


def find_lost_peer(problem: BaseException) -> Mistake | None:
    """The error, with how to continue, if the run's processes lost each other or a GPU is faulty.

    A WrongSetUp if NCCL lacks something on this machine; None for any other exception.
    """
    for each in causes(problem):
        text = f"{type(each).__name__}: {each}"
        if isinstance(each, RuntimeError | ConnectionError) and (_OF_TORCH.search(text) or _OF_GPU.search(text)):
            error = _explain(text, _where(each))
            if error is not None:
                return error
    return None


def find_watchdog_end(log: str, rank: int) -> Mistake | None:
    """The error for a process that a watchdog ended, from its output; None for any other end.

    A watchdog also ends a process whose own kernel failed, for example after an illegal memory access.
    """
    # A call that never returned may be a consequence of the lost peer, and says less.
    for words in sorted(re.findall(_WATCHDOG.format(rank=rank), log), key=lambda text: bool(_STUCK.search(text))):
        error = _explain(words, "reported by torch's watchdog")
        if error is not None:
            return error
    return None


def _explain(text: str, where: str) -> Mistake | None:
    if (of_machine := _of_machine(text)) is not None:
        return of_machine
    late = _LATE.search(text)
    if late:
        waited_ms = next((int(count) for count in late.groupdict().values() if count), None)
        how_long = "" if waited_ms is None else f" for {waited_ms / 1000:g} s"
        return _message(f"no answer from the other processes{how_long}", where, text)
    return _message("the connection to another process broke", where, text) if _BROKEN.search(text) else None


def _message(summary: str, where: str, text: str) -> Mistake:
    peer = _PEER.search(text)
    at = "" if peer is None else f", at {peer[1] or f'[{peer[2]}]:{peer[3]}'}"
    return Mistake.of(
        f"{summary}{at}, {where}",
        because=_last_nccl_message(text),
        fix="start all machines again with --resume once they reach each other",
    )


def _of_machine(text: str) -> Mistake | None:
    """The error for this machine, from a message of NCCL or CUDA; None if it is about something else."""
    for words, message, fix in _SET_UP:
        if words.search(text):
            return WrongSetUp.of(message, because=_last_nccl_message(text), fix=fix)
    is_stuck = _STUCK.search(text) is not None
    if not is_stuck and not _OF_GPU.search(text):
        return None
    what = "a call of NCCL or CUDA never returned" if is_stuck else "a GPU has a hardware fault"
    return Mistake.of(
        f"{what}, on {socket.gethostname()}",
        because=_last_nccl_message(text),
        fix="continue with --resume on other GPUs; the kernel's log has the Xid: dmesg | grep Xid",
    )


def _last_nccl_message(text: str) -> str:
    """The last message of NCCL itself, or else the whole text."""
    return " ".join((text.partition("Last error:")[2] or text).split())[:_LONGEST_BECAUSE]


def _where(problem: BaseException) -> str:
    """The collective that did not end, as torch.distributed calls it, if Python called it."""
    frames = traceback.extract_tb(problem.__traceback__)
    for frame in frames:
        if frame.filename.endswith("distributed_c10d.py") and not frame.name.startswith("_"):
            return f"in {frame.name}"
    return "in the backward pass" if any("autograd" in frame.filename for frame in frames) else "between two steps"


def causes(problem: BaseException) -> Iterator[BaseException]:
    """An exception and its causes, the first cause last."""
    ids: set[int] = set()
    cause: BaseException | None = problem
    while cause is not None and id(cause) not in ids:
        ids.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
