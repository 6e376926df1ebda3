"""A stack as text, for `doctor`."""

from grpo_recipes.stack.stack import Stack


def stack_text(stack: Stack) -> str:
    """Python, packages and GPUs, one a line; what is not known says so."""
    lines = [f"{'python':<14}{stack.python or 'not known'}"]
    for package, version in stack.packages.items():
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
