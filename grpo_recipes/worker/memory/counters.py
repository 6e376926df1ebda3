"""What counts the most memory that this process held: torch for its GPU, the kernel for what is resident."""

import os
import resource
from typing import NamedTuple, Protocol

import torch

_CLEAR_REFS, _STATUS = "/proc/self/clear_refs", "/proc/self/status"
_RESET_PEAK = b"5"


class Peak(NamedTuple):
    """The most bytes that were held, and that torch's allocator had taken of the GPU for them, None elsewhere."""

    held: int
    reserved: int | None = None

    def with_more(self, other: "Peak") -> "Peak":
        """The larger of each."""
        reserved = [one.reserved for one in (self, other) if one.reserved is not None]
        return Peak(max(self.held, other.held), max(reserved, default=None))


class Counter(Protocol):
    """A count that can begin anew. name: what is counted, for who compares it."""

    name: str

    def take(self) -> Peak:
        """The most since the last call, or since the process began; from here on it is counted anew."""


def counter_of(device: str) -> Counter:
    """What counts the memory that limits a training on "cuda" or "cpu"."""
    if device == "cuda" and torch.cuda.is_available():
        return GpuMemory()
    try:
        _write(_CLEAR_REFS, _RESET_PEAK)
    except OSError:
        return ResidentAtEnds()
    return ResidentMemory()


class GpuMemory:
    """What torch allocated on this process's GPU; neither the CUDA context nor what other programs hold."""

    name = "torch.cuda.max_memory_allocated"

    def take(self) -> Peak:
        """Nothing is waited for: torch counts when it allocates."""
        peak = Peak(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        return peak


class ResidentMemory:
    """Resident memory, the interpreter and the libraries with it, by the kernel's own high-water mark.

    What getrusage(2) says of this process begins anew too, and is asked for, since the account of the process takes
    nine times as long; but where it says no more than at the beginning, that may be of the program that this one began
    as. Source: proc_pid_clear_refs(5), 5 written; Linux 4.0.
    """

    name = "VmHWM"

    def __init__(self) -> None:
        self._before = resident_most()

    def take(self) -> Peak:
        """Costs some microseconds."""
        held = resident_most()
        if held <= self._before:
            held = _high_water()
        _write(_CLEAR_REFS, _RESET_PEAK)
        return Peak(held)


class ResidentAtEnds:
    """Resident memory where the high-water mark cannot be reset: what is held when a phase ends.

    That is too little where the phase gave memory back, unless it held more than any phase before it.
    """

    name = "VmRSS at the end, or a new VmHWM"

    def __init__(self) -> None:
        self._most = 0

    def take(self) -> Peak:
        """The mark itself where it rose, else what is resident now."""
        most = resident_most()
        rose, self._most = most > self._most, max(most, self._most)
        return Peak(most if rose else _kib("VmRSS") << 10)


def resident_most() -> int:
    """The most bytes that were resident since the process began, or since ResidentMemory was last taken.

    Never less than what the program had that this one began as.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _high_water() -> int:
    return _kib("VmHWM") << 10


def _kib(name: str) -> int:
    """A line of the kernel's account of this process."""
    descriptor = os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, 1 << 14)
    finally:
        os.close(descriptor)
    return int(text.partition(f"\n{name}:".encode())[2].split(None, 1)[0])


def _write(file: str, text: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
