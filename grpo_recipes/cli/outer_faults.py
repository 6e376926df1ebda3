"""Messages for failures caused by the machine, not by a recipe."""

import errno
import os
import re

from grpo_recipes.errors import Refusal

_FIXES = {
    errno.EMFILE: "ulimit -n with a larger number",
    errno.ENFILE: "close programs: this machine cannot open another file",
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "remove files, or raise the quota",
    errno.EFBIG: "ulimit -f with a larger number",
    errno.EROFS: "a writable path",
    errno.EACCES: "give this user access to it",
    errno.EPERM: "give this user access to it",
    errno.EIO: "check the disk with dmesg",
    errno.ENOMEM: "close programs, or ulimit -v with a larger number",
    errno.EAGAIN: "ulimit -u with a larger number, or close programs",
    errno.ESTALE: "mount the disk again",
    errno.ENAMETOOLONG: "a shorter name",
    errno.ELOOP: "links without a loop",
}
_NOT_UTF8 = re.compile(r'[^"\n]*[\ud800-\udfff][^"\n]*')


def refusal_of(problem: Exception) -> Refusal | None:
    """The message for an exception caused by the machine, None for any other."""
    if isinstance(problem, UnicodeEncodeError) and (found := _NOT_UTF8.search(problem.object)) is not None:
        name = found[0].strip().encode("utf-8", "backslashreplace").decode()
        return Refusal.of(
            f"{name}: this name is not UTF-8",
            because="plans only support names in UTF-8",
            fix="rename it",
        )
    if isinstance(problem, MemoryError):
        problem = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(problem, OSError):
        return None
    if isinstance(problem, FileNotFoundError) and _is_without_folder():
        return Refusal.of(
            "the current folder no longer exists",
            because="it was removed while this shell was in it",
            fix="cd to an existing folder",
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
