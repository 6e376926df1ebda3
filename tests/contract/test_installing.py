"""The command that installs an extra is right wherever grpo-recipes came from."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from grpo_recipes.contract.host import installing
from grpo_recipes.contract.host.installing import install_command, install_there

METADATA = """\
Metadata-Version: 2.4
Name: grpo-recipes
Version: 0.1.0
Requires-Dist: click>=8.1
Provides-Extra: train
Requires-Dist: trl<1.17,>=1.16.0; extra == "train"
Requires-Dist: transformers<5.1,>=5.0; extra == "train"
Provides-Extra: vllm
Requires-Dist: transformers<5.1; extra == "vllm"
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metadata of an installed wheel, which Python finds first."""
    folder = tmp_path / "site/grpo_recipes-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(installing, "ROOT", folder.parent)
    return folder


def argument(extra: str = "train") -> list[str]:
    """What the command gives to pip."""
    words = shlex.split(install_command(["trl", "transformers"], extra))
    return words[words.index("install") + 1 :]


def test_a_checkout_is_installed_as_it_is_used() -> None:
    root = Path(__file__).parents[2]
    assert argument() == ["-e", f"{root}[train]"]


def test_a_package_from_an_index_is_named(installed: Path) -> None:
    assert argument() == ["grpo-recipes[train]"]


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"url": "https://host.test/a.whl", "archive_info": {}}, "grpo-recipes[train] @ https://host.test/a.whl"),
        (
            {"url": "https://host.test/a.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}, "subdirectory": "b"},
            f"grpo-recipes[train] @ git+https://host.test/a.git@{COMMIT}#subdirectory=b",
        ),
        (
            {"url": "file:///a/repository", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"grpo-recipes[train] @ git+file:///a/repository@{COMMIT}",
        ),
    ],
    ids=["a wheel of a server", "a repository", "a repository of this machine"],
)
def test_an_address_is_installed_again(origin: dict[str, object], expected: str, installed: Path) -> None:
    (installed / "direct_url.json").write_text(json.dumps(origin))
    assert argument() == [expected]


def test_a_wheel_of_this_machine_is_used_while_it_exists(installed: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "a folder/grpo_recipes-0.1.0-py3-none-any.whl"
    (installed / "direct_url.json").write_text(json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    assert argument() == ["trl<1.17,>=1.16.0", "transformers<5.1,>=5.0"]
    wheel.parent.mkdir()
    wheel.touch()
    assert argument() == [f"{wheel}[train]"]


def test_a_folder_is_used_while_it_is_a_checkout(installed: Path, tmp_path: Path) -> None:
    (installed / "direct_url.json").write_text(json.dumps({"url": tmp_path.as_uri(), "dir_info": {}}))
    assert argument() == ["trl<1.17,>=1.16.0", "transformers<5.1,>=5.0"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "grpo-recipes"\n')
    assert argument() == [f"{tmp_path}[train]"]


def test_packages_outside_the_extras_are_named(installed: Path) -> None:
    assert argument("") == ["trl", "transformers"]
    command = install_command(["torch"], "train", ["gguf"])
    assert shlex.split(command)[-2:] == ["grpo-recipes[train]", "gguf"]


def test_a_declared_machine_gets_words() -> None:
    assert install_there(["trl"], "train") == "install grpo-recipes[train] there"
    assert install_there(["pillow", "torchvision"], "") == "pip install pillow torchvision"


def test_the_installer_is_that_of_this_python(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "'grpo-recipes[train]'"
    monkeypatch.setenv("PATH", "/nowhere")
    assert install_command([], "train") == f"{shlex.quote(sys.executable)} -m pip install {end}"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert install_command([], "train") == f"pip install {end}"
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/python")
    monkeypatch.setenv("PATH", str(tmp_path))
    moved = f"{tmp_path}/python -m pip"
    quoted = f"#!/bin/sh\n'''exec' \"{tmp_path}/python\" \"$0\""
    lines = {
        f"#!{tmp_path}/python": "pip",
        quoted: "pip",
        "#!/before/python": moved,
        f"#!/before{tmp_path}/python": moved,
    }
    for first_line, command in lines.items():
        (tmp_path / "pip").write_text(f"{first_line}\nimport pip\n")
        (tmp_path / "pip").chmod(0o755)
        assert install_command([], "train") == f"{command} install {end}"
    monkeypatch.setitem(sys.modules, "pip", None)
    python = f"{tmp_path}/python"
    assert install_command([], "train") == f"{python} -m ensurepip && {python} -m pip install {end}"
    (tmp_path / "uv").touch(0o755)
    assert install_command([], "train") == f"uv pip install --python {python} {end}"
