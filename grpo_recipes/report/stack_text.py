"""A stack, and what is known to be wrong with it, as text for `doctor`."""

from collections.abc import Sequence

from grpo_recipes.resolve.known_defects import KnownDefect
from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, Stack


def stack_text(stack: Stack) -> str:
    """Python, packages and GPUs, one a line; what is not known says so. Optional packages only where installed."""
    lines = [f"{'python':<14}{stack.python or 'not known'}"]
    for package, version in stack.packages.items():
        if version is None and package in OPTIONAL_PACKAGES:
            continue
        lines.append(f"{package:<14}{version or 'not installed'}")
    if stack.gpus is None:
        lines.append(f"{'gpus':<14}not known")
    elif not stack.gpus:
        lines.append(f"{'gpus':<14}none")
    for gpu in stack.gpus or ():
        memory = f", {gpu.memory_gib:.0f} GiB" if gpu.memory_gib is not None else ""
        capability = f", capability {gpu.capability[0]}.{gpu.capability[1]}" if gpu.capability else ""
        lines.append(f"{'gpu':<14}{gpu.name}{memory}{capability}")
    return "\n".join(lines)


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
