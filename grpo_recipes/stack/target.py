"""Reads `--target`: a declared stack, which replaces this machine as a whole."""

import json
import os
import re
import stat
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.stack.gpus import gpu_by_name, nearest_gpu
from grpo_recipes.stack.stack import MOST_GPUS, OPTIONAL_PACKAGES, PACKAGES, Gpu, Stack, from_json_value, normalize
from grpo_recipes.stack.tested import read_tested_stack

_LARGEST_FILE_BYTES = 1_048_576
_LONGEST_COUNT = 6
_LONGEST_VERSION = 100
_LONGEST_SHOWN = 80
_MOST_ITEMS = 100
_FLAGS = {
    "avx512_bf16": "it says whether the processor has these instructions",
    "c_compiler": "it says whether there is a C compiler, which Triton needs on a GPU",
    "python_headers": "it says whether there is Python.h, which Triton needs on a GPU",
}
_HARDWARE = ("gpus", "driver", *_FLAGS)
_PACKAGES = (*PACKAGES, *OPTIONAL_PACKAGES)
_ABSENT = ("absent", "none")
_FORM = f"0, a count, or <count>x<name> joined with '+', at most {MOST_GPUS}"
# The stack that every version of the package is tested with, by name in a target.
WORD = "tested"
_EXAMPLE = f"--target {WORD},gpus=8xH100-80GB"
# Items that have a version but are not packages.
_EXAMPLES = {"python": "python==3.11", "driver": "driver==580.65.06"}
_ITEM = r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==?\s*([^=<>!~\s][^=<>!~]*)"
_ANY = Gpu("unknown", None, None)
# A GPU name does not begin with a count: 2x8xH100-80GB means two machines.
_GPUS = (
    r"(?i)(?!\d+\s*[x*]$)(?!\d+\s*[x*]\s*\d+\s*[x*])(?:(\d+)\s*[x*]\s*)?([A-Za-z0-9][\w. -]*(?::\s*\d{1,4}\s*GI?B)?)"
)


@dataclass(slots=True)
class _Draft:
    """The items of a target read so far."""

    python: str | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] | None = None
    driver: str | None = None
    flags: dict[str, bool] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def parse_target(text: str) -> tuple[Stack | None, list[Finding]]:
    """The stack that a target declares, or None and its mistakes.

    text: "trl==1.16.0,vllm==absent,gpus=8xH100-80GB", or the path of a .json file that holds what
    `grpo-run doctor --json` printed. The item "tested" adds the releases of the tested stack that no other item names.
    Everything else is unknown.
    """
    text = text.strip()
    if text.endswith(".json"):
        return _from_file(text)
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        return None, [_finding("STK001", "the target is empty", "a target names packages or gpus", _EXAMPLE)]
    if len(items) > _MOST_ITEMS:
        because = f"a target has at most {_MOST_ITEMS} items"
        return None, [_finding("STK001", f"the target has {len(items):,} items", because, _EXAMPLE)]
    draft, named = _Draft(), set[str]()
    for item in items:
        match = re.fullmatch(_ITEM, item)
        if match is None and item.lower() != WORD:
            draft.findings.append(_no_item(item))
            continue
        name = WORD if match is None else _canonical(match[1])
        if name in named:
            because = "a stack has one version of each package"
            draft.findings.append(_finding("STK001", f"{name} is named twice in the target", because))
            continue
        named.add(name)
        if match is not None:
            _take(draft, name, match[2].strip())
    if draft.findings:
        return None, draft.findings
    if WORD in named:
        _take_the_rest_as_tested(draft)
    flags = [draft.flags.get(name) for name in _FLAGS]
    return Stack(draft.python, draft.packages, draft.gpus, flags[0], True, text, draft.driver, None, *flags[1:]), []


def _take_the_rest_as_tested(draft: _Draft) -> None:
    stack = read_tested_stack()
    draft.python = draft.python or stack.python
    draft.packages = {**stack.packages, **draft.packages}


def _no_item(item: str) -> Finding:
    because = "an item is name==version, name==absent, gpus=<count>x<name>, driver=<version>, c_compiler=no, or tested"
    fix = f"--target {WORD}" if nearest_words(item.lower()[:_LONGEST_SHOWN], (WORD,), cutoff=0.6) else _EXAMPLE
    return _finding("STK001", f"'{_cut(item)}' is not an item of a target", because, fix)


def _canonical(name: str) -> str:
    return name.lower() if name.lower() in _HARDWARE else normalize(name)


def _take(draft: _Draft, name: str, value: str) -> None:
    if name == "gpus":
        draft.gpus = _gpus(value)
        if draft.gpus is None:
            because = f"gpus describes one machine; launch.num_nodes is the number of machines: {_FORM}"
            message = f"'{_cut(value)}' does not describe GPUs"
            draft.findings.append(_finding("STK005", message, because, "gpus=8xH100-80GB"))
        elif unknown := next((gpu.name for gpu in draft.gpus if gpu.memory_gib is None and gpu != _ANY), None):
            near, count = nearest_gpu(unknown), sum(gpu.name == unknown for gpu in draft.gpus)
            because = "its memory decides what fits, and grpo-run's table lacks this name"
            size = f"gpus={count}x{unknown}:<GB>GB, with its memory"
            fix = f"gpus={count}x{near}, or {size}" if near else size
            draft.findings.append(_finding("STK005", f"{_cut(unknown)} is not a known GPU", because, fix))
    elif name in _FLAGS:
        flag = {"yes": True, "true": True, "no": False, "false": False}.get(value.lower())
        if flag is None:
            message = f"{name} is yes or no, not '{_cut(value)}'"
            draft.findings.append(_finding("STK001", message, _FLAGS[name], f"{name}=no"))
        else:
            draft.flags[name] = flag
    elif name in ("python", "driver") or name in _PACKAGES:
        _take_version(draft, name, value)
    else:
        draft.findings.append(_unknown_package(name))


def _take_version(draft: _Draft, name: str, value: str) -> None:
    no_package = name in _EXAMPLES
    if not no_package and value.lower() in _ABSENT:
        draft.packages[name] = None
    elif not _is_version(value):
        because = f"a version is written as in PEP 440, in at most {_LONGEST_VERSION} characters"
        fix = _EXAMPLES[name] if no_package else f"{name}==<version> or {name}==absent"
        draft.findings.append(_finding("STK003", f"'{_cut(value)}' is not a version of {name}", because, fix))
    elif name == "python":
        draft.python = value
    elif name == "driver":
        draft.driver = value
    else:
        draft.packages[name] = value


def _gpus(value: str) -> tuple[Gpu, ...] | None:
    """The GPUs of "0", "8", "8xH100-80GB" or "2xA100-80GB+1xT4"; None for anything else."""
    if value.lower() in ("0", *_ABSENT):
        return ()
    if value.isdecimal():
        count = int(value) if len(value) <= _LONGEST_COUNT else MOST_GPUS + 1
        return (_ANY,) * count if count <= MOST_GPUS else None
    gpus: list[Gpu] = []
    for part in value.split("+"):
        match = re.fullmatch(_GPUS, part.strip())
        count = int(match[1] or 1) if match and len(match[1] or "") <= _LONGEST_COUNT else 0
        if match is None or not 1 <= count <= MOST_GPUS - len(gpus):
            return None
        gpus += [gpu_by_name(match[2])] * count
    return tuple(gpus)


def _from_file(path: str) -> tuple[Stack | None, list[Finding]]:
    because = "a target file has the output of `grpo-run doctor --json` on that machine"
    fix = "grpo-run doctor --json > cluster.json"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe may have no other end
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("it is a folder, a device, a pipe or a socket, not a file")
            content = file.read(_LARGEST_FILE_BYTES + 1)
        if len(content) > _LARGEST_FILE_BYTES:
            raise ValueError(f"it is larger than {_LARGEST_FILE_BYTES} bytes")
        value = json.loads(content.decode("utf-8"))
        if isinstance(value, dict) and "stack" in value:
            value = value["stack"]
        stack = from_json_value(value)._replace(declared=True, origin=path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        return None, [_finding("STK004", f"{path} cannot be read: {reason}", because, fix)]
    except (ValueError, RecursionError) as error:
        message = f"{path} does not describe a stack: {_reason(error)}"
        return None, [_finding("STK004", message, because, fix)]
    findings = _problems(stack)
    return (None if findings else stack), findings


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)


def _problems(stack: Stack) -> list[Finding]:
    draft = _Draft()
    for name, version in stack.packages.items():
        _take(draft, name, "absent" if version is None else version) if name in _PACKAGES else (
            draft.findings.append(_unknown_package(name))
        )
    for name, release in (("python", stack.python), ("driver", stack.driver)):
        if release is not None:
            _take_version(draft, name, release)
    return draft.findings


def _unknown_package(name: str) -> Finding:
    nearest = nearest_words(name[:_LONGEST_SHOWN], (*_PACKAGES, "python", *_HARDWARE), cutoff=0.6)
    because = "a target names " + ", ".join((*PACKAGES, "python", *_HARDWARE, "and packages such as wandb"))
    fix = f"{nearest[0]}" if nearest else None
    return _finding("STK002", f"{_cut(name)} is not a package that a target can name", because, fix)


def _is_version(value: str) -> bool:
    try:
        return len(value) <= _LONGEST_VERSION and bool(Version(value))
    except InvalidVersion:
        return False


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _finding(rule: str, message: str, because: str, fix: str | None = None) -> Finding:
    return Finding(rule=rule, severity="error", message=message, key="--target", because=(because,), fix=fix)
