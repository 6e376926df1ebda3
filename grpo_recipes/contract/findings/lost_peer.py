"""What an exception, or NCCL's watchdog, says of the other processes: they are gone, or this one cannot reach them.

gloo and NCCL raise when a connection breaks, when a process at its other end has ended, and when no answer came for
ddp_timeout seconds; torch's store, over which processes first find each other, has words of its own. On GPUs the main
thread waits for none of that: a watchdog of torch's sees it, prints it and ends the process by SIGABRT. Nothing of it
is this process's own fault: with the checkpoint the run goes on when all are back.
"""

import re
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
    r"|Network is unreachable|Read error \[|writev? \[|NCCL communicator was aborted|ncclRemoteError|ncclSystemError"
    r"|remote process exited or there was a network error|failed to recv, got 0 bytes|recvValue failed|sendBytes failed"
)
_OF_TORCH = re.compile(r"gloo|NCCL|nccl|c10d|TCPStore|Dist(Backend|Network|Store)Error|monitoredBarrier")
_PEER = re.compile(r"peer (\[[^\]]+\]:\d+)|\[([0-9a-fA-F:.]+)\]:(\d+)")
# The last words of a watchdog, of its own thread or of the C++ runtime; of torch 2.2, then of 2.3 and newer.
_WATCHDOG = (
    r"(?:\[rank{rank}\]:.*|\bRank {rank}\] )(?:NCCL|Process group) watchdog thread terminated with exception: (.+)"
)
_LONGEST_BECAUSE = 300


def lost_peer(problem: BaseException) -> Mistake | None:
    """What happened and how to go on, where the processes of the run lost each other; None for any other exception."""
    for each in causes(problem):
        text = f"{type(each).__name__}: {each}"
        if isinstance(each, RuntimeError | ConnectionError) and _OF_TORCH.search(text):
            found = _understood(text, _where(each))
            if found is not None:
                return found
    return None


def lost_by_watchdog(log: str, rank: int) -> Mistake | None:
    """What ended a process that is gone, by what it printed; None where no watchdog did, or for another reason.

    A watchdog also ends a process whose own kernel failed, as one that reads where nothing is.
    """
    for words in re.findall(_WATCHDOG.format(rank=rank), log):
        found = _understood(words, "by the word of torch's watchdog")
        if found is not None:
            return found
    return None


def _understood(text: str, where: str) -> Mistake | None:
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
        because=" ".join(text.split())[:_LONGEST_BECAUSE],
        fix="start all machines again with --resume once they reach each other",
    )


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
