"""What an exception says of memory that could not be had, as a message: where, how much, what was held, what to change.

torch has a class for a GPU and a text for the CPU, numpy and Python raise MemoryError, what the kernel refuses comes as
an OSError or within another text. A process that the kernel kills says nothing of it.
"""

import errno
import gc
import re
import resource
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.findings.mistake import Mistake
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_memory import Phase
from grpo_recipes.worker.memory.less_memory import half_at_once, other_experiments, same_experiment
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.user_code.reward_faults import explained_reward

_OF_MEMORY = re.compile(
    r"DefaultCPUAllocator: (can't allocate|not enough) memory|(CUDA|HIP) (error: )?out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc|Cannot allocate memory|\(os error 12\)"
)
_ASKED = re.compile(r"(?:[Tt]ried to allocate|Unable to allocate) (\d+(?:\.\d+)? (?:bytes|[KMGT]i?B))")
_WHERE: dict[Phase, str] = {
    "load": "while the model was loaded",
    "generate": "while completions were made",
    "score": "while completions were scored",
    "update": "while the policy was updated",
    "sync": "while weights were handed to vLLM",
    "save": "while the model was saved",
    "evaluation": "while held-out rows were answered",
}
_OF_A_STEP = ("generate", "score", "update", "sync")
_LONGEST_CAUSE = 200


class OutOfMemory(Mistake):
    """The training needed more memory than there was. The worker exits with 1, as for every failure of the trainer."""


def out_of_memory(problem: BaseException, plan: Plan, peaks: PhasePeaks, user: Path) -> OutOfMemory | None:
    """What to say of a training that ended for want of memory, None for a problem of another kind.

    user: the folder of the user's reward files, of which one may have asked for it. What the frames of the exception
    held is given back first, so that there is room to say it.
    """
    cause = next((one for one in _chain(problem) if is_of_memory(one)), None)
    if cause is None:
        return None
    for one in _chain(problem):
        traceback.clear_frames(one.__traceback__)
    gc.collect()
    reward = explained_reward(problem, user)
    asked_by = [] if reward is None else [reward[0].findings[0].message, *reward[0].findings[0].because]
    text = f"{type(cause).__name__}: {' '.join(str(cause).split())}".rstrip(": ")
    asked = _ASKED.search(text)
    step = f" in step {peaks.step}" if peaks.phase in _OF_A_STEP else ""
    finding = mistake(
        f"out of memory{step} {_WHERE[peaks.phase]}" + (f": {_size(asked[1])} more could not be had" if asked else ""),
        because=[text[:_LONGEST_CAUSE], *asked_by, *_room(plan), _held(plan, peaks)],
        fix=same_experiment(plan, peaks.phase),
    )
    patch, notes = half_at_once(plan, peaks.phase, peaks.step), (other_experiments(plan, peaks.phase),)
    return OutOfMemory(finding._replace(patch=patch, notes=notes))


def _size(asked: str) -> str:
    """How much was asked for; torch says it in bytes on the CPU."""
    count, unit = asked.split()
    return f"{float(count) / 2**20:.1f} MiB" if unit == "bytes" else asked


def is_of_memory(problem: BaseException) -> bool:
    """Whether an exception by itself says that memory could not be had, of a GPU or of the machine."""
    if isinstance(problem, OSError) and problem.errno == errno.ENOMEM:
        return True
    return isinstance(problem, MemoryError | torch.OutOfMemoryError) or bool(_OF_MEMORY.search(str(problem)))


def _held(plan: Plan, peaks: PhasePeaks) -> str:
    """Each phase with the most that it held, and what the plan expected."""
    told = []
    peaks.goes_on_with(peaks.phase)
    for phase, peak in peaks.peaks.items():
        terms = {} if plan.memory is None else plan.memory.phases.get(phase, {})
        estimated = f" (estimated {gib(sum(terms.values()))})" if terms else ""
        told.append(f"{phase} {gib(peak.held)}{estimated}")
    estimate = "" if plan.memory is not None else "; the plan has no estimate"
    return f"most held by this process, phase by phase: {', '.join(told)}{estimate}"


def _room(plan: Plan) -> list[str]:
    """What there is of the memory that the training runs in, where that is known."""
    if plan.world.device == "cuda" and torch.cuda.is_available():
        free, all_of_it = torch.cuda.mem_get_info()
        return [f"the GPU has {gib(all_of_it)}, of which {gib(free)} are free now"]
    limits = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}
    found = {words: resource.getrlimit(limit)[0] for words, limit in limits.items()}
    return [f"{words} allows {gib(most)}" for words, most in found.items() if most != resource.RLIM_INFINITY]


def gib(count: int) -> str:
    """Bytes as "1.25 GiB"."""
    return f"{count / 2**30:.2f} GiB"


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """A problem and what it came from."""
    seen: list[BaseException] = []
    one: BaseException | None = problem
    while one is not None and one not in seen:
        seen.append(one)
        one = one.__cause__ or one.__context__
    return iter(seen)
