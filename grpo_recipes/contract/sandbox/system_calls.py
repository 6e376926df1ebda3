"""The sandbox's seccomp filter: refuses system calls that Landlock, namespaces and limits do not cover."""

import struct
from collections.abc import Iterator, Mapping

EPERM, ENOSYS, ENOTTY, ENOTSUP = 1, 38, 25, 95
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH of linux/audit.h by platform.machine(); the tables below have their numbers in this order."""
LAST_KNOWN = 451
"""Calls with higher numbers are newer than this list, and unknown."""

REFUSED: Mapping[str, tuple[int, int | None]] = {
    # The network, and Unix sockets of other programs.
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    # io_uring makes other calls without consulting the filter.
    "io_uring_setup": (425, 425),
    # Landlock does not cover owners and attributes of files, and truncate only from ABI 3.
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "truncate": (76, 45),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    # Access to a file by its handle, in whatever folder it is.
    "open_by_handle_at": (304, 265),
    "unshare": (272, 97),
    "setns": (308, 268),
    # Other processes of the same user.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # A process that leaves the process group would not be ended with it.
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # Memory, queues and keys that all processes of a user share.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Parts of the kernel that Python code does not need.
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "syslog": (103, 116),
}
# Landlock does not cover modes and times either. These return 0 and do nothing, so shutil.copy works.
WITHOUT_EFFECT: Mapping[str, tuple[int, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
# Extended attributes hold text, and Landlock does not restrict them. Programs see a file without any.
WITHOUT_ATTRIBUTES: Mapping[str, tuple[int, int]] = {
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "fgetxattr": (193, 10),
}
# ENOSYS makes the C library use the older call, whose arguments can be checked.
ABSENT: Mapping[str, tuple[int, int]] = {"clone3": (435, 435), "openat2": (437, 437)}
# The first argument is a process, and 0 is the caller.
ITS_OWN: Mapping[str, tuple[int, int]] = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
KILL: tuple[int, int] = (62, 129)
TGKILL: tuple[int, int] = (234, 131)
CLONE: tuple[int, int] = (56, 220)
OPEN: tuple[int, None] = (2, None)
OPENAT: tuple[int, int] = (257, 56)
IOCTL: tuple[int, int] = (16, 29)
FCNTL: tuple[int, int] = (72, 25)
SOCKETPAIR: tuple[int, int] = (53, 199)
FORKS: Mapping[str, int] = {"fork": 57, "vfork": 58}
"""Of x86-64 alone."""

_NAMESPACES = 0x7E020000
_PARENT = 0x8000
_THREAD = 0x10000
_UNIX, _STREAM, _SEQPACKET, _SOCKET_TYPE = 1, 1, 5, 0xF
_OPENED_FOR, _TRUNCATED = 0o3, 0o1000
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# F_SETOWN, F_SETOWN_EX: a signal for another process when data comes. F_SETLEASE, F_NOTIFY: watch other processes'
# files.
_FCNTLS = (8, 15, 1024, 1026)
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x54, 0x06
_KILLED, _FAILS, _ALLOWED = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCHITECTURE = 0, 4

Step = tuple[int, int, int, int]
"""An instruction of classic BPF: code, jumps if true and if false, operand."""


def seccomp_filter(machine: str, *, starts_processes: bool, sends_signals: bool) -> bytes:
    """The filter for a machine of ARCHITECTURES, in the kernel's format.

    starts_processes: allow fork; threads are always allowed. sends_signals: signals are otherwise confined to the
    sandbox, so allow kill; without it, only the whole process group can be signalled.
    """
    steps = [*_of_the_machine(machine), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILLED)]
    steps += [(_ABOVE, 0, 1, LAST_KNOWN), (_RETURN, 0, 0, _FAILS | ENOSYS)]
    column = list(ARCHITECTURES).index(machine)
    refused = [numbers[column] for numbers in REFUSED.values()]
    if machine == "x86_64" and not starts_processes:
        refused += FORKS.values()
    if not sends_signals:
        refused.append(TGKILL[column])
    without_effect = [numbers[column] for numbers in WITHOUT_EFFECT.values()]
    without_attributes = [numbers[column] for numbers in WITHOUT_ATTRIBUTES.values()]
    for listed, error in ((refused, EPERM), (without_effect, 0), (without_attributes, ENOTSUP)):
        for number in listed:
            if number is not None:
                steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAILS | error)]
    for numbers in ABSENT.values():
        steps += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _FAILS | ENOSYS)]
    for own in (*ITS_OWN.values(), *([] if sends_signals else [KILL])):
        steps += _check_argument(own[column], 0, [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _FAILS | EPERM)])
    steps += _check_argument(CLONE[column], 0, list(_clone(starts_processes=starts_processes)))
    for opening, argument in ((OPEN[column], 1), (OPENAT[column], 2)):
        if opening is not None:
            steps += _check_argument(opening, argument, list(_refuse_truncation()))
    steps += _check_argument(IOCTL[column], 1, list(_one_of(_IOCTLS, ENOTTY)))
    steps += _check_argument(FCNTL[column], 1, [step for each in _FCNTLS for step in _fails_if_equal(each)])
    steps += _check_argument(SOCKETPAIR[column], 1, list(_allow_socket_pairs()))
    steps.append((_RETURN, 0, 0, _ALLOWED))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _of_the_machine(machine: str) -> list[Step]:
    """Kills the process on a call in a foreign architecture's ABI, where numbers differ."""
    return [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, ARCHITECTURES[machine]), (_RETURN, 0, 0, _KILLED)]


def _check_argument(number: int, argument: int, steps: list[Step]) -> list[Step]:
    """Steps that check the low half of one argument of a call, after which the call is allowed."""
    within = [(_LOAD, 0, 0, 16 + 8 * argument), *steps, (_RETURN, 0, 0, _ALLOWED)]
    return [(_EQUAL, 0, len(within), number), *within]


def _clone(*, starts_processes: bool) -> Iterator[Step]:
    """Allows clone without namespaces, which would grant rights, and without CLONE_PARENT; without processes only
    threads.
    """
    yield from [(_ANY_OF, 0, 1, _NAMESPACES | _PARENT), (_RETURN, 0, 0, _FAILS | EPERM)]
    if not starts_processes:
        yield from [(_ANY_OF, 1, 0, _THREAD), (_RETURN, 0, 0, _FAILS | EPERM)]


def _refuse_truncation() -> Iterator[Step]:
    """Refuses to truncate files that are opened for reading, or with access mode 3.

    Landlock checks no right for the former before ABI 3, and none at all for the latter.
    """
    yield (_AND, 0, 0, _OPENED_FOR | _TRUNCATED)
    for flags in (_TRUNCATED, _OPENED_FOR, _OPENED_FOR | _TRUNCATED):
        yield from _fails_if_equal(flags)


def _allow_socket_pairs() -> Iterator[Step]:
    """Allows only Unix socket pairs of stream type, as asyncio needs; datagram sockets can send to any address."""
    yield (_AND, 0, 0, _SOCKET_TYPE)
    yield from [(_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _SEQPACKET), (_RETURN, 0, 0, _FAILS | EPERM)]
    yield (_LOAD, 0, 0, 16)
    yield from _one_of((_UNIX,), EPERM)


def _fails_if_equal(value: int) -> list[Step]:
    return [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _FAILS | EPERM)]


def _one_of(values: tuple[int, ...], error: int) -> Iterator[Step]:
    """Allows only these values."""
    for index, value in enumerate(values):
        yield (_EQUAL, len(values) - index, 0, value)
    yield (_RETURN, 0, 0, _FAILS | error)
