"""The program of a sandboxed process: it drops its privileges, then runs the code that it was given.

    python -I -c TEXT        the text of this file; the request of run.py on the standard input, as JSON

It imports only the standard library, and prints MARK when all limits are in force. Any earlier
failure ends it, so no code ever runs with more rights than intended.
"""

import ctypes
import json
import os
import resource
import signal
import stat
import struct
import sys
import types
from typing import Any

MARK = "\0confined\0"

# Rights of Landlock's ABI 1 to 5; linux/landlock.h.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
DEVICES = 1 << 6 | 1 << 11
"""The rights to make character and block devices."""
TRUNCATE = 1 << 14
OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
LATEST = (1 << 16) - 1
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NETWORK, SCOPES = 3, 3
"""TCP bind and connect, from ABI 4; abstract sockets and signals, from ABI 6."""

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 8, 22, 38, 47
AMBIENT_RAISE, FILTER = 2, 2
VARIABLES = {"LOGNAME": "program", "USER": "program", "OMP_NUM_THREADS": "1"}
"""Environment variables. OpenBLAS starts a thread per core, more than allowed, unless this is set."""
CAPSET = {"x86_64": 126, "aarch64": 91}
CAPABILITIES_3 = 0x20080522
READ_SEARCH = 1 << 2
"""CAP_DAC_READ_SEARCH: Python may be in a folder that only root can enter. Landlock limits what can be read."""

_system = ctypes.CDLL(None, use_errno=True)


def _check_result(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _call(number: int, *arguments: int | bytes | None) -> int:
    given = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    return _check_result(_system.syscall(ctypes.c_long(number), *given), f"system call {number}")


def _control(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    _check_result(_system.prctl(option, *padded), f"prctl {option}")


def _become(user: int | None) -> None:
    """Switches to the user, if one is given, without any of root's rights except reading."""
    rights = 0
    if user is not None:
        _control(PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        rights = READ_SEARCH
    header = struct.pack("II", CAPABILITIES_3, 0)
    _call(CAPSET[os.uname().machine], header, struct.pack("6I", rights, rights, rights, 0, 0, 0))
    if rights:
        _control(PR_CAP_AMBIENT, AMBIENT_RAISE, READ_SEARCH.bit_length() - 1)


def _restrict_files(abi: int, readable: list[str], writable: list[str], own: str) -> None:
    """Restricts files with Landlock: which may be read and executed, written, and, in the own folder, created and
    removed.
    """
    rights = OF_ABI.get(abi, LATEST)
    handled = struct.pack("3Q", rights, NETWORK if abi >= 4 else 0, SCOPES if abi >= 6 else 0)
    handled = handled[: 8 * (1 + (abi >= 4) + (abi >= 6))]
    ruleset = _call(CREATE_RULESET, handled, len(handled), 0)
    granted = {
        **dict.fromkeys(readable, EXECUTE | READ_FILE | READ_DIR),
        **dict.fromkeys(writable, READ_FILE | WRITE_FILE),
        own: rights & ~EXECUTE & ~DEVICES,
    }
    for path, right in granted.items():
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = right & rights & (-1 if stat.S_ISDIR(os.fstat(descriptor).st_mode) else OF_A_FILE)
        _call(ADD_RULE, ruleset, 1, struct.pack("=QI", allowed, descriptor), 0)
        os.close(descriptor)
    _call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _filter(program: bytes) -> None:
    held = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(held)))
    _control(PR_SET_SECCOMP, FILTER, ctypes.addressof(header))


def _limit(limits: dict[str, int]) -> None:
    for name, most in limits.items():
        limit = getattr(resource, name)
        ceiling = resource.getrlimit(limit)[1]
        lowest = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        # Exceeding the CPU limit ends with SIGXCPU, which identifies the cause, and a second later with SIGKILL.
        highest = lowest + 1 if limit == resource.RLIMIT_CPU and lowest != ceiling else lowest
        resource.setrlimit(limit, (lowest, highest))


def _confine(asked: dict[str, Any]) -> None:
    _become(asked["user"])
    _control(PR_SET_NO_NEW_PRIVS, 1)
    if asked["landlock"]:
        _restrict_files(asked["landlock"], asked["readable"], asked["writable"], os.getcwd())
    _filter(bytes.fromhex(asked["filter"]))


def _main() -> None:
    asked = json.load(sys.stdin)
    _limit(asked["limits"])
    if asked["filter"]:
        _confine(asked)
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user resets it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    print(MARK, end="", flush=True)
    os.environ.update(VARIABLES, HOME=os.getcwd())
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main)["given"] = asked["given"]
    exec(compile(asked["program"], "program", "exec"), vars(main))


if __name__ == "__main__":
    _main()
