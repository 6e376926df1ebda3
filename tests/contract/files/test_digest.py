"""The digests of files, which plans, locks, manifests and consents of earlier releases have."""

import hashlib
from pathlib import Path

import pytest

from grpo_recipes.contract.files.regular_file import file_sha256, files_sha256
from grpo_recipes.contract.integrity.digests import digest_of


def test_a_file_has_one_digest(tmp_path: Path) -> None:
    for content in (b"", b"one\n", b"w" * 300_000):
        (tmp_path / "x").write_bytes(content)
        wanted = hashlib.sha256(content).hexdigest()
        assert file_sha256(tmp_path / "x") == digest_of(tmp_path, "x").sha256 == wanted


def test_the_digest_of_several_files_is_that_of_earlier_releases() -> None:
    files = [("config.json", "ab"), ("sub/é.safetensors", "cd")]
    assert files_sha256(files) == hashlib.sha256("ab config.json\ncd sub/é.safetensors\n".encode()).hexdigest()
    assert files_sha256(reversed(files)) != files_sha256(files)


def test_a_name_that_is_not_utf_8_is_no_name_of_a_plan() -> None:
    files = [("\udcff.bin", "ab")]
    with pytest.raises(UnicodeEncodeError) as raised:
        files_sha256(files)
    assert raised.value.object == "\udcff.bin"
    assert files_sha256(files, errors="surrogateescape") == hashlib.sha256(b"ab \xff.bin\n").hexdigest()
