"""What ends a command that is the fault of the place where it runs, and of no recipe: said in one message."""

import errno
import os
import re

from grpo_recipes.errors import Refusal

_FIXES = {
    errno.EMFILE: "ulimit -n with a larger number",
    errno.ENFILE: "close programs: this machine has no room for one more open file",
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "remove files, or raise the quota",
    errno.EFBIG: "ulimit -f with a larger number",
    errno.EROFS: "a place that can be written",
    errno.EACCES: "make it accessible for this user",
    errno.EPERM: "make it accessible for this user",
    errno.EIO: "look at the disk: dmesg",
    errno.ENOMEM: "close programs, or ulimit -v with a larger number",
    errno.EAGAIN: "ulimit -u with a larger number, or close programs",
    errno.ESTALE: "mount the disk again",
    errno.ENAMETOOLONG: "a shorter name",
    errno.ELOOP: "links that do not lead back to themselves",
}
_NOT_UTF8 = re.compile(r'[^"\n]*[\ud800-\udfff][^"\n]*')


def refusal_of(problem: Exception) -> Refusal | None:
    """The message for an exception that the surroundings are to blame for, None for every other."""
    if isinstance(problem, UnicodeEncodeError) and (found := _NOT_UTF8.search(problem.object)) is not None:
        name = found[0].strip().encode("utf-8", "backslashreplace").decode()
        return Refusal.of(
            f"{name}: this name is not UTF-8",
            because="a plan, and whatever reads it, knows names in UTF-8 alone",
            fix="rename it",
        )
    if isinstance(problem, MemoryError):
        problem = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(problem, OSError):
        return None
    if isinstance(problem, FileNotFoundError) and _is_without_folder():
        return Refusal.of(
            "the folder in which this was started is gone",
            because="it was removed while this shell was in it",
            fix="cd to a folder that is there",
        )
    if problem.errno not in _FIXES:
        return None
    where = "" if problem.filename is None else f"{os.fsdecode(problem.filename)}: "
    return Refusal.of(f"{where}{os.strerror(problem.errno)}", fix=_FIXES[problem.errno])


def _is_without_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
