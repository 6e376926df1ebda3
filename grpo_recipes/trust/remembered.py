"""What this user has allowed, with messages for lists that cannot be read or written."""

from collections.abc import Callable, Iterable
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.integrity import allowed
from grpo_recipes.contract.integrity.allowed import CODE, NoHome, list_file

_WORDS = {CODE: "code"}


def read_list(name: str) -> list[Any]:
    """The entries of a list. Raises Refusal if it cannot be read."""
    try:
        return allowed.entries(name)
    except (OSError, ValueError) as problem:
        raise Refusal.of(
            f"{list_file(name)}: the list of allowed {_WORDS.get(name, name)} cannot be read",
            because=f"{type(problem).__name__}: {problem}",
            fix="correct that, or remove the file and allow again the code that you trust",
        ) from problem


def replace_list(name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Replaces the entries of a list atomically. Raises Refusal."""
    read_list(name)
    try:
        allowed.replace_entries(name, change)
    except NoHome as problem:
        raise Refusal.of("allowed code cannot be remembered", because=str(problem.strerror)) from problem
    except OSError as problem:
        raise Refusal.of(
            f"{list_file(name)}: the list of allowed {_WORDS.get(name, name)} cannot be written",
            because=str(problem.strerror or problem),
            fix="free some space and give this user write permission; set XDG_CONFIG_HOME to a different folder",
        ) from problem


def is_allowed(sha256: str) -> bool:
    """Whether this user has allowed the code with this digest. Raises Refusal if the list cannot be read."""
    return sha256 in read_list(CODE)


def allow(digests: Iterable[str]) -> None:
    """Remembers the digests of allowed code. Raises Refusal."""
    new = set(digests).difference(word for word in read_list(CODE) if isinstance(word, str))
    if new:
        replace_list(CODE, allowed.with_digests(new))
