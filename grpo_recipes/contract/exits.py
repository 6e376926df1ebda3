"""The exit codes of grpo-run and of a run, however it was started, and the exception that ends a command with one."""

import errno

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import Mistake

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_DIFFERENT = 1
EXIT_NOT_STARTED = 2
EXIT_STOPPED = 3
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 75

SYSTEM_FIXES: dict[int | None, str] = {
    errno.EMFILE: "ulimit -n with a larger number",
    errno.ENFILE: "close programs: this machine cannot open another file",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "remove files, or raise the quota",
    errno.EFBIG: "ulimit -f with a larger number",
    errno.EROFS: "make it writable",
    errno.EACCES: "give this user access to it",
    errno.EPERM: "give this user access to it",
    errno.EIO: "check the disk with dmesg",
    errno.ENOMEM: "close programs, or ulimit -v with a larger number",
    errno.EAGAIN: "ulimit -u with a larger number, or close programs",
    errno.ESTALE: "mount the disk again",
    errno.ENAMETOOLONG: "a shorter name",
    errno.ELOOP: "links without a loop",
    errno.ENOENT: "check that path: it is gone",
    errno.ENOTDIR: "a path whose parents are folders",
    errno.EEXIST: "a path that does not exist yet",
}
"""The fix for an error of the system, by its number."""


class Refusal(Mistake):
    """Ends the command with a message instead of a traceback, printed to stderr after "error: ".

    exit_code: one of the above.
    """

    def __init__(self, *findings: Finding, exit_code: int = EXIT_NOT_STARTED) -> None:
        super().__init__(*findings)
        self.exit_code = exit_code
