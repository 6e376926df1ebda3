"""What counts the most memory that this process held: torch for its GPU, the kernel for what is resident."""

import resource
from pathlib import Path
from typing import NamedTuple

import torch

_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"


class Peak(NamedTuple):
    """The most bytes that were held, and that torch's allocator had taken of the GPU for them, None elsewhere."""

    held: int
    reserved: int | None = None

    def with_more(self, other: "Peak") -> "Peak":
        """The larger of each."""
        reserved = [one.reserved for one in (self, other) if one.reserved is not None]
        return Peak(max(self.held, other.held), max(reserved, default=None))


def counter_of(device: str) -> "GpuMemory | ResidentMemory":
    """What counts the memory that limits a training on "cuda" or "cpu"."""
    if device == "cuda" and torch.cuda.is_available():
        return GpuMemory()
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

    Where the mark cannot be reset, as in some containers, each phase has the most so far, and the name says so.
    Source: proc_pid_clear_refs(5), 5 written; Linux 4.0.
    """

    name = "VmHWM"

    def take(self) -> Peak:
        """Costs some microseconds."""
        mark = _STATUS.read_text().partition("\nVmHWM:")[2].split(None, 1)
        held = int(mark[0]) << 10 if mark else resident_most()  # some sandboxes for containers have no mark
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK)
        except OSError:
            self.name = "VmHWM so far"
        return Peak(held)


def resident_most() -> int:
    """The most bytes that were resident since the process began, or since ResidentMemory was last taken.

    Never less than what the program had that this one began as.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


Counter = GpuMemory | ResidentMemory
"""What counts anew after each take(), the most since the call before. name: what is counted, for who compares it."""
