"""A stack, and what is known to be wrong with it, as text for `doctor`."""

from collections.abc import Sequence

from grpo_recipes.facts.released.requirements import cuda_of, newest_cuda_of
from grpo_recipes.resolve.known_defects import KnownDefect
from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, Stack


def stack_text(stack: Stack) -> str:
    """Python, packages, GPUs and what they need, one a line. Optional packages only where installed."""
    lines = [f"{'python':<14}{stack.python or 'not known'}"]
    for package, version in stack.packages.items():
        if version is None and package in OPTIONAL_PACKAGES:
            continue
        built_for = _built_for(cuda_of(stack)) if package == "torch" and version else ""
        lines.append(f"{package:<14}{version or 'not installed'}{built_for}")
    if stack.gpus is None:
        why = "" if stack.declared else ": nvidia-smi is missing, fails or takes too long; call it to see why"
        lines.append(f"{'gpus':<14}not known{why}")
    elif not stack.gpus:
        lines.append(f"{'gpus':<14}none")
        if stack.avx512_bf16 is False:
            lines.append(f"{'cpu':<14}no AVX512-BF16: bfloat16 is slower than float32")
    for gpu in stack.gpus or ():
        memory = f", {gpu.memory_gib:.0f} GiB" if gpu.memory_gib is not None else ""
        capability = f", capability {gpu.capability[0]}.{gpu.capability[1]}" if gpu.capability else ""
        lines.append(f"{'gpu':<14}{gpu.name}{memory}{capability}")
    if stack.driver is not None:
        newest = newest_cuda_of(stack.driver)
        lines.append(f"{'driver':<14}{stack.driver}{f', runs CUDA up to {newest}.x' if newest else ''}")
    if stack.gpus:
        lines += _compiling(stack)
    return "\n".join(lines)


def _built_for(cuda: str | None) -> str:
    return "" if cuda is None else f", built for CUDA {cuda}" if cuda else ", built without CUDA"


def _compiling(stack: Stack) -> list[str]:
    """What Triton compiles with, a line for each that is known."""
    there = {"c compiler": stack.c_compiler, "python.h": stack.python_headers}
    return [f"{name:<14}{'found' if found else 'not found'}" for name, found in there.items() if found is not None]


def known_text(known: Sequence[KnownDefect]) -> str:
    """Known defects, each with what grpo-run does about it and the nearest releases without it."""
    if not known:
        return "no defect of these releases is known"
    lines = ["known defects of these releases; a rule is named by what it keeps true"]
    for defect in known:
        end = end_text(defect)
        lines += [f"  {defect.rule or '':<6}  {defect.what}", f"          {defect.answer}{'; ' if end else ''}{end}"]
    return "\n".join(lines)


def end_text(defect: KnownDefect) -> str:
    """With which releases a defect ends, "" where that is not known."""
    if defect.without:
        return f"not with {' or '.join(defect.without)}"
    return f"until {defect.until}" if defect.until else ""
