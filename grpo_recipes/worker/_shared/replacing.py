"""Replaces members of other libraries' objects and modules; nothing else in the worker does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake


class Refused(Mistake):
    """A check stops the run. The message says what differs, why, and how to fix it. The worker exits with 3."""


def refuse_unknown_member(member: str, *because: str) -> Refused:
    """Returns the refusal of a library whose member is not what the worker relies on."""
    return Refused.of(
        f"grpo-run does not know this release: {member}",
        because=because,
        fix="install releases that `grpo-run doctor` knows, and report this line to grpo-run",
    )


def replace(owner: Any, name: str, new: Any) -> None:
    """Replaces a member. Raises Refused if there is none of that name, since the new one would have no effect."""
    if not hasattr(owner, name):
        kind = getattr(owner, "__name__", type(owner).__name__)
        raise refuse_unknown_member(name, f"{kind} has no such member, which a change of grpo-run replaces")
    setattr(owner, name, new)


@contextmanager
def replace_temporarily(owner: Any, name: str, new: Any, *, may_be_missing: bool = False) -> Iterator[None]:
    """Replaces a member inside a with block, then restores it unless it has been replaced again since.

    may_be_missing: for a value that the owner sets later itself.
    """
    missing = object()
    had = vars(owner).get(name, missing)
    if may_be_missing:
        setattr(owner, name, new)
    else:
        replace(owner, name, new)
    try:
        yield
    finally:
        if vars(owner).get(name) is new:
            if had is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, had)
