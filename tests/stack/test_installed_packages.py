"""Versions come from the metadata of installed packages, which are never imported."""

from pathlib import Path

import pytest

from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, PACKAGES, installed_packages


def install(folder: Path, name: str, version: str | None, metadata: str = "METADATA") -> None:
    folder.joinpath(name).mkdir(parents=True)
    if version is not None:
        text = f"Metadata-Version: 2.4\nName: x\nVersion: {version}\n\nVersion: 9 is said in the description\n"
        folder.joinpath(name, metadata).write_text(text)


def test_nothing_is_found_on_an_empty_search_path(tmp_path: Path) -> None:
    missing, file = str(tmp_path / "missing"), tmp_path / "packages.zip"
    file.write_bytes(b"PK")
    assert installed_packages([str(tmp_path), missing, str(file)]) == dict.fromkeys((*PACKAGES, *OPTIONAL_PACKAGES))


@pytest.mark.parametrize(
    ("name", "package"),
    [
        pytest.param("trl-1.16.0.dist-info", "trl", id="wheel"),
        pytest.param("liger_kernel-0.8.5.dist-info", "liger-kernel", id="escaped-name"),
        pytest.param("Flash.Attn-2.8.3.dist-info", "flash-attn", id="name-of-an-old-tool"),
        pytest.param("math_verify-0.9.0-py3.11.egg-info", "math-verify", id="egg-info"),
        pytest.param("vllm.egg-info", "vllm", id="development-install"),
    ],
)
def test_the_version_is_read_from_the_metadata(tmp_path: Path, name: str, package: str) -> None:
    install(tmp_path, name, "7.1.dev3+local", "PKG-INFO" if name.endswith("egg-info") else "METADATA")
    found = installed_packages([str(tmp_path)])
    assert found == {**dict.fromkeys((*PACKAGES, *OPTIONAL_PACKAGES)), package: "7.1.dev3+local"}


def test_a_folder_left_by_an_interrupted_update_is_not_an_installed_package(tmp_path: Path) -> None:
    install(tmp_path, "trl-1.15.0.dist-info", None)
    assert installed_packages([str(tmp_path)])["trl"] is None
    install(tmp_path, "trl-1.9.2.dist-info", "1.9.2")
    install(tmp_path, "trl-1.16.0.dist-info", "1.16.0")
    assert installed_packages([str(tmp_path)])["trl"] == "1.16.0"


def test_the_first_folder_of_the_search_path_wins(tmp_path: Path) -> None:
    install(tmp_path / "a", "trl-0.15.2.dist-info", "0.15.2")
    install(tmp_path / "b", "trl-1.16.0.dist-info", "1.16.0")
    install(tmp_path / "b", "peft-0.21.2.dist-info", "0.21.2")
    found = installed_packages([str(tmp_path / "a"), str(tmp_path / "b")])
    assert (found["trl"], found["peft"]) == ("0.15.2", "0.21.2")
