"""A declared stack replaces the machine; what it does not name is unknown."""

import json
from pathlib import Path

import pytest

from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, PACKAGES, Gpu, Stack, normalize, to_json_value
from grpo_recipes.stack.target import parse_target

H100 = Gpu("H100-80GB", 79.6, (9, 0))
UNKNOWN = Gpu("unknown", None, None)


def declared(text: str) -> Stack:
    stack, findings = parse_target(text)
    assert findings == []
    assert stack is not None
    return stack


def test_a_target_says_only_what_it_names() -> None:
    stack = declared(" trl==1.16.0, transformers=5.23.0 ,python==3.11,vllm==absent,Liger_Kernel==none")
    assert stack.declared
    assert stack.origin == "trl==1.16.0, transformers=5.23.0 ,python==3.11,vllm==absent,Liger_Kernel==none"
    assert (stack.version("trl"), stack.version("transformers"), stack.python) == ("1.16.0", "5.23.0", "3.11")
    assert stack.is_absent("vllm")
    assert stack.is_absent("liger-kernel")
    assert not stack.is_known("peft")
    assert stack.gpus is None
    assert stack.avx512_bf16 is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("gpus=0", (), id="none"),
        pytest.param("gpus=2", (UNKNOWN, UNKNOWN), id="count-of-unknown-ones"),
        pytest.param("gpus=8xH100-80GB", (H100,) * 8, id="count-and-name"),
        pytest.param("gpus==2 x h100-80gb", (H100,) * 2, id="with-spaces"),
        pytest.param("gpus=H200", (Gpu("H200", 140.4, (9, 0)),), id="one-by-name"),
        pytest.param("gpus=1xH100-80GB+1xT4", (H100, Gpu("T4", 15.0, (7, 5))), id="two-kinds"),
        pytest.param("gpus=1xMI300X:192GB", (Gpu("MI300X", 192.0, None),), id="size-behind-a-colon"),
        pytest.param("gpus=A100 : 80 GiB", (Gpu("A100-80GB", 80.0, (8, 0)),), id="size-with-spaces"),
        pytest.param("gpus=4xX9-96GB", (Gpu("X9-96GB", 96.0, None),) * 4, id="name-outside-the-table"),
    ],
)
def test_gpus_are_a_count_and_a_name(text: str, expected: tuple[Gpu, ...]) -> None:
    assert declared(text).gpus == expected


def test_the_processor_can_be_declared() -> None:
    assert declared("trl==1.16.0,avx512_bf16=no").avx512_bf16 is False
    assert declared("trl==1.16.0,avx512_bf16=yes").avx512_bf16 is True


@pytest.mark.parametrize(
    ("text", "rule", "message", "fix"),
    [
        pytest.param("", "STK001", "the target is empty", None, id="empty"),
        pytest.param("trl", "STK001", "'trl' is not an item of a target", None, id="no-version"),
        pytest.param("trl>=1.15", "STK001", "'trl>=1.15' is not an item", None, id="range"),
        pytest.param("trl===1.16", "STK001", "'trl===1.16' is not an item", None, id="three-signs"),
        pytest.param("trl==1.16.0,TRL==1.15.0", "STK001", "trl is named twice", None, id="twice"),
        pytest.param("avx512_bf16=maybe", "STK001", "is yes or no, not 'maybe'", "avx512_bf16=no", id="flag"),
        pytest.param("transfomers==5.0", "STK002", "transfomers is not a package", "transformers", id="nearest"),
        pytest.param("zzz==1", "STK002", "zzz is not a package", None, id="nothing-near"),
        pytest.param("trl==newest", "STK003", "'newest' is not a version of trl", "trl==", id="no-version-number"),
        pytest.param("python==absent", "STK003", "'absent' is not a version", "python==", id="python-absent"),
        pytest.param("testd", "STK001", "'testd' is not an item", "--target tested", id="nearly-tested"),
        pytest.param("tested,tested", "STK001", "tested is named twice", None, id="tested-twice"),
        pytest.param("tested==1.0", "STK002", "tested is not a package", None, id="tested-in-a-version"),
        pytest.param("gpus=many?", "STK005", "'many?' does not describe GPUs", "gpus=8xH100-80GB", id="gpus"),
        pytest.param("gpus=8x", "STK005", "'8x' does not describe GPUs", "gpus=", id="count-without-name"),
        pytest.param("gpus=4090", "STK005", "'4090' does not describe GPUs", "gpus=", id="name-that-is-a-number"),
        pytest.param("gpus=99999999xT4", "STK005", "does not describe GPUs", "gpus=", id="too-many-gpus"),
        pytest.param("gpus=1xMI300X", "STK005", "MI300X is not a known GPU", "gpus=1xMI300X:<GB>GB", id="unknown-gpu"),
        pytest.param("gpus=4xMI300X", "STK005", "MI300X is not a known GPU", "gpus=4xMI300X:<GB>GB", id="four-of-them"),
        pytest.param("gpus=RTX-409O", "STK005", "RTX-409O is not a known", "gpus=1xRTX-4090, or", id="nearly-a-gpu"),
        pytest.param("gpus=8xH100-80GBB", "STK005", "H100-80GBB is not", "gpus=8xH100-80GB, or", id="nearly-a-size"),
        pytest.param("gpus=1xT4+1xT5", "STK005", "T5 is not a known GPU", "gpus=1xT5:<GB>GB", id="one-unknown-gpu"),
        pytest.param("gpus=1xMI300X:GB", "STK005", "does not describe GPUs", None, id="colon-without-size"),
        pytest.param("gpus=2x8xH100-80GB", "STK005", "does not describe GPUs", "gpus=8xH100-80GB", id="two-machines"),
    ],
)
def test_a_mistake_in_a_target_is_one_finding(text: str, rule: str, message: str, fix: str | None) -> None:
    stack, findings = parse_target(text)
    assert stack is None
    assert [finding.rule for finding in findings] == [rule]
    assert message in findings[0].message
    assert findings[0].because
    assert fix is None or fix in (findings[0].fix or "")


def test_all_mistakes_are_found_in_one_run() -> None:
    _, findings = parse_target("trl==x,tranformers==1,gpus=?,peft")
    assert [finding.rule for finding in findings] == ["STK003", "STK002", "STK005", "STK001"]


LOCK = Path(__file__).parents[2] / "constraints" / "cpu.txt"


def test_tested_is_the_stack_of_the_constraints() -> None:
    head, *lines = LOCK.read_text().splitlines()
    locked = {normalize(name): version for name, version in (line.split("==") for line in lines)}
    stack = declared("tested")
    assert stack.declared
    assert stack.origin == "tested"
    assert f"Python {stack.python}," in head
    nameable = {name for name in (*PACKAGES, *OPTIONAL_PACKAGES) if name in locked}
    assert stack.packages == {name: locked[name] for name in nameable}
    assert {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify"} <= nameable
    assert stack.gpus is None
    assert not stack.is_known("vllm"), "nobody said that it is absent"


@pytest.mark.parametrize(
    "text",
    [
        "tested,trl==0.29.1,vllm==0.31.0,python==3.12,gpus=8xH100-80GB",
        "gpus=8xH100-80GB, trl=0.29.1,TESTED,vllm==0.31.0,python==3.12",
    ],
    ids=["first", "between"],
)
def test_what_is_named_beside_tested_counts(text: str) -> None:
    stack, plain = declared(text), declared("tested")
    assert stack.packages == {**plain.packages, "trl": "0.29.1", "vllm": "0.31.0"}
    assert (stack.python, stack.gpus) == ("3.12", (H100,) * 8)


def test_a_tested_package_can_be_absent() -> None:
    assert declared("tested,peft==absent").is_absent("peft")


@pytest.mark.parametrize("wrapped", [True, False], ids=["output-of-doctor", "stack-alone"])
def test_a_file_is_what_doctor_printed(tmp_path: Path, wrapped: bool) -> None:
    there = probe()
    file = tmp_path / "cluster.json"
    value = to_json_value(there)
    file.write_text(json.dumps({"stack": value, "findings": []} if wrapped else value))
    stack = declared(str(file))
    assert (stack.declared, stack.origin) == (True, str(file))
    assert (stack.python, stack.packages, stack.gpus) == (there.python, there.packages, there.gpus)


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        pytest.param(None, "STK004", "cannot be read: no such file", id="missing"),
        pytest.param(b"", "STK004", "it is not JSON at line 1", id="empty"),
        pytest.param(b"\xff\xfe\x00", "STK004", "it is not UTF-8 text", id="binary"),
        pytest.param(b"[" * 100_000, "STK004", "does not describe a stack", id="deep"),
        pytest.param(b" " * 1_048_577, "STK004", "larger than 1048576 bytes", id="large"),
        pytest.param(b"[1]", "STK004", "a stack is an object", id="list"),
        pytest.param(b'{"trl": "1.16.0"}', "STK004", "trl is not a key of a stack", id="other-object"),
        pytest.param(b'{"packages": {"trl": 1.16}}', "STK004", "packages.trl is 1.16", id="number"),
        pytest.param(b'{"packages": []}', "STK004", "packages is []", id="packages-list"),
        pytest.param(b'{"gpus": 8}', "STK004", "gpus is 8", id="gpus-number"),
        pytest.param(b'{"gpus": [{"name": "T4", "capability": [7]}]}', "STK004", "two integers", id="capability"),
        pytest.param(b'{"gpus": [{"name": "T4", "memory_gib": "16"}]}', "STK004", "memory_gib is '16'", id="memory"),
        pytest.param(b'{"packages": {"numpi": "2.0"}}', "STK002", "numpi is not a package", id="package"),
        pytest.param(b'{"packages": {"trl": "x"}}', "STK003", "'x' is not a version of trl", id="version"),
        pytest.param(b'{"python": "three"}', "STK003", "'three' is not a version of python", id="python"),
    ],
)
def test_a_file_that_describes_no_stack_is_one_finding(
    tmp_path: Path, content: bytes | None, rule: str, message: str
) -> None:
    file = tmp_path / "cluster.json"
    if content is not None:
        file.write_bytes(content)
    stack, findings = parse_target(str(file))
    assert stack is None
    assert [finding.rule for finding in findings] == [rule]
    assert message in findings[0].message


def test_a_folder_is_not_a_target_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder.json"
    folder.mkdir()
    stack, findings = parse_target(str(folder))
    assert stack is None
    assert findings[0].rule == "STK004"
