"""The seccomp filter decides as it says, on both machines; the numbers are those of the kernel's headers."""

import re
import struct
from pathlib import Path

import pytest

from grpo_recipes.contract.sandbox import system_calls
from grpo_recipes.contract.sandbox.system_calls import (
    ABSENT,
    ARCHITECTURES,
    CLONE,
    FCNTL,
    IOCTL,
    ITS_OWN,
    KILL,
    OPENAT,
    REFUSED,
    SOCKETPAIR,
    TGKILL,
    WITHOUT_ATTRIBUTES,
    WITHOUT_EFFECT,
    seccomp_filter,
)

HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"),),
}
NAMED = {
    **REFUSED,
    **WITHOUT_EFFECT,
    **WITHOUT_ATTRIBUTES,
    **ABSENT,
    **ITS_OWN,
    **{
        name.lower(): getattr(system_calls, name)
        for name in ("KILL", "TGKILL", "CLONE", "OPENAT", "IOCTL", "FCNTL", "SOCKETPAIR")
    },
    "open": system_calls.OPEN,
}
ALLOWED, KILLED, REFUSAL, SILENT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050000
FORK, THREAD, NEW_USER, OF_PARENT = 17, 0x3D0F00, 0x10000011, 0x8011


def decided(machine: str, number: int, *arguments: int, architecture: int | None = None, **holds: bool) -> int:
    """What the filter says of a call, as the kernel would run it."""
    program = seccomp_filter(machine, **{"starts_processes": True, "sends_signals": True, **holds})
    data = struct.pack("<iIQ", number, architecture or ARCHITECTURES[machine], 0)
    data += b"".join(struct.pack("<Q", each) for each in (*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("<HBBI", program))
    held, place = 0, 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, value)
            case 0x54:
                held &= value
            case 0x06:
                return int(value)
            case _:
                is_true = {0x15: held == value, 0x35: held >= value, 0x25: held > value, 0x45: bool(held & value)}[code]
                place += yes if is_true else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    header = next((path for path in HEADERS[machine] if path.exists()), None)
    if header is None:
        pytest.skip("the headers of the kernel are not installed")
    known: dict[str, int] = {}
    for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()):
        known.setdefault(name, int(number))
    column = list(ARCHITECTURES).index(machine)
    assert {name: numbers[column] for name, numbers in NAMED.items()} == {name: known.get(name) for name in NAMED}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_each_call_is_decided_as_listed(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    for name, numbers in REFUSED.items():
        if (number := numbers[column]) is not None:
            assert decided(machine, number) == REFUSAL, name
    for name, numbers in WITHOUT_EFFECT.items():
        if (number := numbers[column]) is not None:
            assert decided(machine, number) == SILENT, name
    attributes = {decided(machine, numbers[column]) for numbers in WITHOUT_ATTRIBUTES.values()}
    assert attributes == {0x00050000 | 95}
    for own in ITS_OWN.values():
        assert [decided(machine, own[column], process) for process in (0, 1)] == [ALLOWED, REFUSAL]
    absent = [decided(machine, numbers[column]) for numbers in ABSENT.values()]
    assert {*absent, decided(machine, 452), decided(machine, 1000)} == {0x00050000 | 38}
    clone, opening, control = CLONE[column], OPENAT[column], IOCTL[column]
    assert [decided(machine, clone, flags) for flags in (FORK, THREAD)] == [ALLOWED, ALLOWED]
    assert [decided(machine, clone, flags) for flags in (NEW_USER, OF_PARENT)] == [REFUSAL, REFUSAL]
    for flags in (0, 0o1001, 0o1102):
        assert decided(machine, opening, 0, 0, flags) == ALLOWED
    for flags in (0o1000, 3, 0o1003, 0o2001003):
        assert decided(machine, opening, 0, 0, flags) == REFUSAL, "it empties a file, or is opened for nothing"
    assert decided(machine, control, 1, 0x5401) == ALLOWED
    assert decided(machine, control, 1, 0x5412) == 0x00050000 | 25, "no letter is put into a terminal"
    assert [decided(machine, FCNTL[column], 1, asked) for asked in (3, 1030, 8, 15, 1024, 1026)] == [
        *(ALLOWED, ALLOWED),
        *(REFUSAL, REFUSAL, REFUSAL, REFUSAL),
    ]


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_pairs_of_sockets_are_connected_and_of_unix(machine: str) -> None:
    pair = SOCKETPAIR[list(ARCHITECTURES).index(machine)]
    stream, datagrams, raw, packets, flags = 1, 2, 3, 5, 0o2004000
    for kind in (stream, packets):
        assert decided(machine, pair, 1, kind) == decided(machine, pair, 1, kind | flags) == ALLOWED
        assert decided(machine, pair, 30, kind) == REFUSAL, "TIPC"
    for kind in (datagrams, raw):
        assert decided(machine, pair, 1, kind) == decided(machine, pair, 1, kind | flags) == REFUSAL


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_processes_and_signals_where_nothing_else_holds_them(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    few, quiet = {"starts_processes": False}, {"sends_signals": False}
    assert decided(machine, CLONE[column], FORK, **few) == REFUSAL
    assert decided(machine, CLONE[column], THREAD, **few) == ALLOWED
    assert decided(machine, KILL[column], 7) == decided(machine, TGKILL[column], 7) == ALLOWED
    assert [decided(machine, KILL[column], process, **quiet) for process in (0, 7, 0xFFFFFFFF)] == [
        ALLOWED,
        REFUSAL,
        REFUSAL,
    ]
    assert decided(machine, TGKILL[column], 7, **quiet) == REFUSAL


def test_calls_of_another_architecture_end_the_process() -> None:
    assert decided("x86_64", 41, architecture=0x40000003) == KILLED, "of 32 bits"
    assert decided("x86_64", 0x40000000 | 41) == KILLED, "of x32"
    assert decided("aarch64", 198, architecture=ARCHITECTURES["x86_64"]) == KILLED
    assert [decided("x86_64", number, starts_processes=False) for number in (57, 58)] == [REFUSAL, REFUSAL]
