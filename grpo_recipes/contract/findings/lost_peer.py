"""What an exception, or NCCL's watchdog, says of the other processes and the GPU: where a run goes on, and where not.

gloo and NCCL raise when a connection breaks, when a process at its other end has ended, and when no answer came for
ddp_timeout seconds; torch's store, over which processes first find each other, has words of its own. On GPUs the main
thread waits for none of that: a watchdog of torch's sees it, prints it and ends the process by SIGABRT. Nothing of it
is this process's own fault: with the checkpoint the run goes on when all are back. So it does after a fault of a GPU,
on another one. What NCCL lacks on a machine, it lacks at the next start too.
"""

import re
import socket
import traceback
from collections.abc import Iterator

from grpo_recipes.contract.findings.findings_text import Mistake

# Words of torch 2.13: gloo's tcp transport, ProcessGroupGloo, ProcessGroupNCCL, TCPStore.
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
# Words of NCCL 2.7 to 2.30, which torch appends to ncclSystemError: each stays until somebody changes the machine.
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
# What CUDA calls a fault of the hardware; the kernel's log has its Xid. A launch failure may as well be a kernel's own.
_OF_GPU = re.compile(
    r"uncorrectable (ECC|NVLink) error|hardware stack error|peer GPU memory over nvlink or a hardware error"
    r"|GPU is lost|GPU has fallen off the bus"
)
_STUCK = re.compile(r"watchdog hang")
_OF_TORCH = re.compile(r"gloo|NCCL|nccl|c10d|TCPStore|Dist(Backend|Network|Store)Error|monitoredBarrier")
_PEER = re.compile(r"peer (\[[^\]]+\]:\d+)|\[([0-9a-fA-F:.]+)\]:(\d+)")
# What a watchdog prints last, from its own thread or from the C++ runtime; torch 2.2, then 2.3 and newer. A second
# thread watches the watchdog, and ends a process in which a call of NCCL or CUDA never returned.
_WATCHDOG = (
    r"(?:\[rank{rank}\]:.*|\bRank {rank}\] )(?:(?:NCCL|Process group) watchdog thread terminated with exception: "
    r"|Terminating the process after attempting to dump debug info, due to )(.+(?:\nnccl.*)?(?:\nLast error:.*\n.*)?)"
)
_LONGEST_BECAUSE = 300


class WrongSetUp(Mistake):
    """NCCL lacks something on this machine. The run exits with 1: it would fail again at each start."""


def lost_peer(problem: BaseException) -> Mistake | None:
    """What happened and how to go on, where the processes of the run lost each other or a GPU is faulty.

    A WrongSetUp where NCCL lacks something on this machine; None for any other exception.
    """
    for each in causes(problem):
        text = f"{type(each).__name__}: {each}"
        if isinstance(each, RuntimeError | ConnectionError) and (_OF_TORCH.search(text) or _OF_GPU.search(text)):
            found = _understood(text, _where(each))
            if found is not None:
                return found
    return None


def lost_by_watchdog(log: str, rank: int) -> Mistake | None:
    """What ended a process that is gone, by what it printed; None where no watchdog did, or for another reason.

    A watchdog also ends a process whose own kernel failed, as one that reads where nothing is.
    """
    # That a call never returned may be what a lost peer left behind, and says less.
    for words in sorted(re.findall(_WATCHDOG.format(rank=rank), log), key=lambda one: bool(_STUCK.search(one))):
        found = _understood(words, "by the word of torch's watchdog")
        if found is not None:
            return found
    return None


def _understood(text: str, where: str) -> Mistake | None:
    if (of_machine := _of_machine(text)) is not None:
        return of_machine
    late = _LATE.search(text)
    if late:
        waited_ms = next((int(count) for count in late.groupdict().values() if count), None)
        how_long = "" if waited_ms is None else f" for {waited_ms / 1000:g} s"
        return _message(f"no answer from the other processes{how_long}", where, text)
    return _message("the connection to another process broke", where, text) if _BROKEN.search(text) else None


def _message(found: str, where: str, text: str) -> Mistake:
    peer = _PEER.search(text)
    at = "" if peer is None else f", at {peer[1] or f'[{peer[2]}]:{peer[3]}'}"
    return Mistake.of(
        f"{found}{at}, {where}",
        because=_shortened(text),
        fix="start all machines again with --resume once they reach each other",
    )


def _of_machine(text: str) -> Mistake | None:
    """What is wrong with this machine, by what NCCL or CUDA said; None where that is not said."""
    for words, message, fix in _SET_UP:
        if words.search(text):
            return WrongSetUp.of(message, because=_shortened(text), fix=fix)
    is_stuck = _STUCK.search(text) is not None
    if not is_stuck and not _OF_GPU.search(text):
        return None
    what = "a call of NCCL or CUDA never returned" if is_stuck else "a GPU has a hardware fault"
    return Mistake.of(
        f"{what}, on {socket.gethostname()}",
        because=_shortened(text),
        fix="continue with --resume on other GPUs; the kernel's log has the Xid: dmesg | grep Xid",
    )


def _shortened(text: str) -> str:
    """What NCCL itself said last, or else all of it."""
    return " ".join((text.partition("Last error:")[2] or text).split())[:_LONGEST_BECAUSE]


def _where(problem: BaseException) -> str:
    """The collective that did not end, by its name in torch.distributed where Python called it."""
    frames = traceback.extract_tb(problem.__traceback__)
    for frame in frames:
        if frame.filename.endswith("distributed_c10d.py") and not frame.name.startswith("_"):
            return f"in {frame.name}"
    return "in the backward pass" if any("autograd" in frame.filename for frame in frames) else "between two steps"


def causes(problem: BaseException) -> Iterator[BaseException]:
    """A problem and what it came from, the first cause last."""
    seen: set[int] = set()
    one: BaseException | None = problem
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__
