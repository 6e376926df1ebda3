"""The maintainer's command reads a page of the package index and a wheel behind an address as they are."""

import io
import zipfile

import pytest
from collect_facts import changes_of, declared_windows, main
from package_index import Blocks, versions_in, wheels_in

from grpo_recipes.facts.released.model_types import model_types_in

PAGE = """<html><body><h1>Links for trl</h1>
    <a href="https://x/trl-0.10.1-py3-none-any.whl#sha256=1">trl-0.10.1-py3-none-any.whl</a><br/>
    <a href="x">trl-0.10.1.tar.gz</a><br/>
    <a href="x" data-yanked="broken">trl-0.9.6-cp311-cp311-win_amd64.whl</a><br/>
    <a href="y">trl-1.0.0rc1-cp38-abi3-manylinux1_x86_64.whl</a><br/>
    <a href="x">trl-notes.exe</a></body></html>"""


def test_every_version_is_listed_once_and_oldest_first() -> None:
    assert versions_in(PAGE) == ["0.9.6", "0.10.1", "1.0.0rc1"]


def test_a_release_has_one_wheel_and_only_for_linux() -> None:
    assert wheels_in(PAGE) == {"0.10.1": "https://x/trl-0.10.1-py3-none-any.whl", "1.0.0rc1": "y"}


def test_only_the_blocks_that_are_read_are_fetched() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        wheel.writestr("large.bin", bytes(5_000_000))
        wheel.writestr("small.py", "x = 1\n")
    data, fetched = content.getvalue(), []

    def read(first: int, last: int) -> bytes:
        fetched.append(first)
        return data[first : last + 1]

    with zipfile.ZipFile(Blocks(len(data), read)) as wheel:
        assert wheel.read("small.py") == b"x = 1\n"
        assert len(fetched) == 1
        assert wheel.read("large.bin") == bytes(5_000_000)


def test_a_block_that_arrives_in_part_is_an_error() -> None:
    with pytest.raises(OSError, match="bytes 0-99 were asked for and 5 bytes came"):
        Blocks(100, lambda first, last: b"short").read(1)


def test_an_unknown_step_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torch"]) == 2
    assert "torch is no step; there are releases, trl" in capsys.readouterr().err


def test_the_windows_are_those_of_a_linux_stack() -> None:
    metadata = """Metadata-Version: 2.4
Name: trl
Requires-Python: >=3.10, <3.14
Requires-Dist: transformers!=4.57.0,>=4.56.1
Requires-Dist: numpy>=2
Requires-Dist: torch
Requires-Dist: accelerate>=1.4; python_version >= "3.9"
Requires-Dist: datasets>=9; python_version < "3.9"
Requires-Dist: peft>=0.8.0; extra == "dev"
Requires-Dist: vllm<0.13.0,>=0.10.2; sys_platform != "win32" and extra == "vllm"
Requires-Dist: math-verify>=0.5.2; extra == "math_verify"
"""
    assert declared_windows(metadata) == {
        "accelerate": ">=1.4",
        "math-verify for math-verify": ">=0.5.2",
        "python": ">=3.10,<3.14",
        "transformers": ">=4.56.1,!=4.57.0",
        "vllm for vllm": ">=0.10.2,<0.13.0",
    }


def test_a_release_lists_the_types_that_it_added_and_removed() -> None:
    assert changes_of({"1.0": {"bart", "bert"}, "1.1": {"bart", "bert"}, "2.0": {"bert", "qwen2"}}) == {
        "releases": ["1.0", "1.1", "2.0"],
        "added": {"1.0": "bart bert", "2.0": "qwen2"},
        "removed": {"2.0": "bart"},
    }


def test_only_the_map_of_configurations_has_types() -> None:
    source = """CONFIG_MAPPING_NAMES = OrderedDict([("qwen3", "Qwen3Config"), (
        "qwen3_moe",
        "Qwen3MoeConfig",
    )], **{"gpt-sw3": "GPT2Config"})
    MODEL_NAMES_MAPPING = OrderedDict([("qwen9", "Qwen9")])
    __all__ = ["CONFIG_MAPPING", "AutoConfig"]"""
    assert model_types_in([source]) == {"qwen3", "qwen3_moe", "gpt-sw3"}
    assert model_types_in([source], "gpt-sw3") == {"gpt-sw3"}
    assert model_types_in([source], "qwen9") == set()
