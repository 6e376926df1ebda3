"""The stack of this machine is read quickly and without importing what it describes."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from support.work import calls

from grpo_recipes.stack.probe import has_avx512_bf16, probe
from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, PACKAGES, from_json_value, to_json_value


def test_this_machine_is_known_but_for_what_nobody_says() -> None:
    stack = probe()
    assert stack.python == platform.python_version()
    assert set(stack.packages) == {*PACKAGES, *OPTIONAL_PACKAGES}
    assert all(stack.is_known(package) for package in PACKAGES)
    assert not stack.declared
    assert not stack.is_known("numpy")
    assert stack.version("numpy") is None
    assert not stack.is_absent("numpy")


@pytest.mark.processes
def test_probing_imports_none_of_the_packages() -> None:
    code = (
        "import sys; from grpo_recipes.stack.probe import probe; probe();"
        "heavy = {'torch', 'transformers', 'trl', 'peft', 'accelerate', 'datasets', 'vllm'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_probing_makes_few_calls() -> None:
    probe()
    made = calls(probe)
    assert made < 15_000, made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("processor: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True, id="has-it"),
        pytest.param("processor: 0\nflags\t\t: fpu avx512f avx512_bf16x\n", False, id="has-it-not"),
        pytest.param("processor: 0\n", None, id="system-does-not-say"),
        pytest.param("processor: 0\nFeatures\t: fp asimd bf16\n", None, id="another family"),
        pytest.param(None, None, id="no-such-file"),
    ],
)
def test_the_flags_of_the_processor_say_whether_it_has_bf16(
    tmp_path: Path, text: str | None, expected: bool | None
) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    assert has_avx512_bf16(file) is expected


def test_a_stack_survives_its_json() -> None:
    stack = probe()
    assert from_json_value(to_json_value(stack)) == stack
