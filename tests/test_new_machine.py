"""What `make setup` does with too old a Python, half an environment or no compiler."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.processes


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def python_that(path: Path, *, version: str = "", lacks: str = "") -> Path:
    """A Python that reports another version, or lacks a module."""
    own = shlex.quote(sys._base_executable)  # type: ignore[attr-defined]
    case = f'case "$*" in *"%d.%d"*) echo {version}; exit ;; esac\n' if version else ""
    case += f'case "$*" in *"{lacks}"*) exit 1 ;; esac\n' if lacks else ""
    return script(path, f'{case}exec {own} "$@"')


def venv(folder: Path, python: object, asked: str = "") -> subprocess.CompletedProcess[str]:
    words = ["sh", str(ROOT / "constraints/venv.sh"), str(folder), str(python), asked]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment, at a path with a space and a letter outside ASCII."""
    folder = tmp_path_factory.mktemp("new é") / "a venv"
    done = venv(folder, sys._base_executable)  # type: ignore[attr-defined]
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder


def has_pip(folder: Path) -> bool:
    return subprocess.run([folder / "bin/python", "-m", "pip", "--version"], capture_output=True).returncode == 0


def test_an_environment_that_is_there_stays(folder: Path) -> None:
    assert has_pip(folder)
    before = (folder / "pyvenv.cfg").stat()
    own = "{}.{}".format(*sys.version_info)
    for python, asked in (("python-that-is-not-there", ""), (sys.executable, "command line")):
        done = venv(folder, python, asked)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), own
    assert (folder / "pyvenv.cfg").stat() == before


@pytest.mark.parametrize("missing", [["bin"], ["pip*", "bin/activate"], ["pip-*", "pip/_vendor", "bin/activate"]])
def test_what_an_interrupted_make_left_is_completed(folder: Path, missing: list[str]) -> None:
    (folder / "own").touch()
    for pattern in missing:
        found = [*folder.glob(pattern), *folder.glob(f"lib/python*/site-packages/{pattern}")]
        assert found
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = venv(folder, sys._base_executable)  # type: ignore[attr-defined]
    assert done.returncode == 0, done.stderr
    assert has_pip(folder) and (folder / "bin/activate").exists() and (folder / "own").exists()


def test_too_old_a_python_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = venv(tmp_path / "venv", python_that(tmp_path / "python3", version="3.10"))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: {tmp_path}/python3 is Python 3.10",
        "  = because: grpo-run needs Python 3.11 or newer",
        "  = fix: name a newer one: make PYTHON=python3.12 ...",
    ]
    assert "error: nothing/python3 does not start" in venv(tmp_path / "venv", "nothing/python3").stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_without_ensurepip_is_refused_with_debians_package(tmp_path: Path) -> None:
    done = venv(tmp_path / "venv", python_that(tmp_path / "python3", version="3.11", lacks="import ensurepip"))
    assert done.returncode == 2
    assert done.stderr.endswith("  = fix: apt-get install python3.11-venv\n")
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_another_python_is_named_and_stays(folder: Path, tmp_path: Path) -> None:
    other = python_that(tmp_path / "python3.99", version="3.99")
    done = venv(folder, other, "command line")
    assert done.returncode == 2
    assert f"which is not that of PYTHON={other}" in done.stderr
    assert f"= fix: rm -rf {folder}, or leave out PYTHON" in done.stderr
    old = tmp_path / "old"
    python_that(old / "bin/python", version="3.10")
    assert f"error: {old} has Python 3.10" in venv(old, sys.executable).stderr
    gone = tmp_path / "gone/bin/python"
    gone.parent.mkdir(parents=True)
    gone.symlink_to("/usr/bin/python3.99")
    assert "  = because: it is /usr/bin/python3.99\n" in venv(tmp_path / "gone", sys.executable).stderr
    assert gone.is_symlink()


@pytest.mark.parametrize(
    ("compiler", "because"),
    [
        ("nothing", "not found"),
        ("echo 'stdin:1:10: fatal error: Python.h: No such file' >&2; exit 1", "fatal error: Python.h"),
    ],
)
def test_without_a_compiler_the_packages_of_debian_are_named(compiler: str, because: str, tmp_path: Path) -> None:
    pip = script(tmp_path / "pip", "echo a hundred lines of pip; exit 1")
    if compiler != "nothing":
        script(tmp_path / "bin/cc", compiler)
    for name in ("env", "grep"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    words = ["/bin/sh", str(ROOT / "constraints/pycosat.sh"), sys.executable, "A=1", str(pip)]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": str(tmp_path / "bin")})
    error, why, fix = done.stderr.splitlines()
    assert (done.returncode, error) == (2, "error: pycosat, which the tests need, cannot be built")
    assert because in why
    assert fix == "  = fix: apt-get install gcc libc6-dev python{}.{}-dev".format(*sys.version_info)


def test_with_a_compiler_the_words_of_pip_are_shown(tmp_path: Path) -> None:
    pip = script(tmp_path / "pip", "echo no network; exit 1")
    script(tmp_path / "bin/cc", "exit 0")
    words = ["sh", str(ROOT / "constraints/pycosat.sh"), sys.executable, str(pip)]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert (done.returncode, done.stderr) == (2, "no network\n")
