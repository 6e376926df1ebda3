"""What `make` and `.ci/run` do with too old a Python, half an environment, no compiler and no repository."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import wait_until

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
    """An environment with half a pip, as an interrupted make leaves it, completed. Its path has a space and an é."""
    folder = tmp_path_factory.mktemp("new é") / "a venv"
    base = sys._base_executable  # type: ignore[attr-defined]
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "bin/activate").rename(folder / "own")
    next(folder.glob("lib/python*/site-packages")).joinpath("pip").mkdir()
    done = venv(folder, base)
    assert (done.returncode, done.stdout) == (0, f"completing {folder}, which has no pip\n"), done.stderr
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


def test_what_an_interrupted_make_left_is_completed(folder: Path) -> None:
    assert has_pip(folder) and (folder / "bin/activate").exists() and (folder / "own").exists()


def test_an_environment_is_made_where_there_are_no_programs(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "bin")
    own = shlex.quote(sys._base_executable)  # type: ignore[attr-defined]
    # The pip of the folder is there still, and to install it once more would take longest.
    python = script(
        tmp_path / "python", f'case "$*" in "-m venv "*) set -- "$@" --without-pip ;; esac; exec {own} "$@"'
    )
    done = venv(folder, python)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert has_pip(folder) and (folder / "bin/activate").exists() and (folder / "own").exists()


@pytest.mark.parametrize("code", [0, 1])
def test_an_installation_shows_each_download_and_why_it_failed(tmp_path: Path, code: int) -> None:
    script(tmp_path / "bin/sleep", "")
    lines = ["Collecting a", "  Downloading a.whl.metadata (4 kB)", "  Downloading a.whl (190 MB)"]
    lines += ["Requirement already satisfied: b", "Installing collected packages: a, c"]
    pip = script(tmp_path / "pip", "".join(f"echo '{line}'\n" for line in lines) + f'echo "$A $*" >&2\nexit {code}')
    words = ["sh", str(ROOT / "constraints/install.sh"), "A=1", str(pip), "-e", ".[train]"]
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    times = 1 + code
    assert (done.returncode, done.stdout) == (code, "Downloading a.whl (190 MB)\ninstalling them\n" * times)
    assert done.stderr == "".join(f"{line}\n" for line in [*lines, "1 -e .[train]"]) * (times * code)


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
        ("nothing", "  = because: cc: not found"),
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


MAKEFILE = """quickstart:
\t@pwd; env | sort; ls -A "$$HOME" | sed s/^/home:/; touch started; $(WORK)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    (place / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", place / ".ci/run")
    (place / "Makefile").write_text(MAKEFILE)
    (tmp_path / "tmp").mkdir()
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    own = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "."], [*own, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


def variables(repository: Path, **more: str) -> dict[str, str]:
    home = repository.parent / "home"
    (home / ".config/pip").mkdir(parents=True, exist_ok=True)
    (home / ".config/pip/pip.conf").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "XDG_"))}
    own = {"HOME": str(home), "TMPDIR": str(repository.parent / "tmp"), "PYTHONPATH": "x", "HF_HOME": "x"}
    return kept | own | more


def ci_run(repository: Path, *jobs: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the script from elsewhere."""
    words = [str(repository / ".ci/run"), *jobs]
    return subprocess.run(words, capture_output=True, text=True, cwd="/", env=variables(repository, **more))


def test_ci_runs_in_a_new_clone_with_an_empty_home(repository: Path) -> None:
    (repository / "new").touch()
    done = ci_run(repository, "quickstart")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changes that are not committed are not tested\n" in done.stdout
    assert "quickstart: passed" in done.stdout
    lines = (repository / "build/ci/quickstart.log").read_text().splitlines()
    assert lines[0].startswith(f"{repository.parent}/tmp/") and lines[0].endswith("/a clone é")
    home = next(line for line in lines if line.startswith("HOME="))
    assert home.startswith(f"HOME={repository.parent}/tmp/") and home.endswith("/home")
    assert f"PIP_CONFIG_FILE={repository.parent}/home/.config/pip/pip.conf" in lines
    assert f"PIP_CACHE_DIR={repository.parent}/home/.cache/pip" in lines
    assert not any(line.startswith(("PYTHONPATH=", "HF_HOME=", "XDG_", "LOGS_", "home:")) for line in lines)
    assert list((repository.parent / "tmp").iterdir()) == []
    assert not (repository / "started").exists()


def test_pips_own_variables_stay(repository: Path) -> None:
    ci_run(repository, "quickstart", PIP_CONFIG_FILE="/dev/null", PIP_CACHE_DIR="/a cache")
    lines = (repository / "build/ci/quickstart.log").read_text().splitlines()
    assert {"PIP_CONFIG_FILE=/dev/null", "PIP_CACHE_DIR=/a cache"} <= set(lines)


def test_ci_passes_failures_on(repository: Path) -> None:
    done = ci_run(repository, "quickstart", WORK="exit 3")
    assert done.returncode == 1
    assert f"== quickstart, the end of {repository}/build/ci/quickstart.log, and what failed in it" in done.stdout
    assert ci_run(repository, "nothing").returncode == 2
    assert list((repository.parent / "tmp").iterdir()) == []


def test_ci_runs_in_place_without_a_repository(repository: Path) -> None:
    shutil.rmtree(repository / ".git")
    done = ci_run(repository, "quickstart")
    assert done.returncode == 0
    assert "no new clone: git is not installed, or this is not a repository\n" in done.stdout
    assert (repository / "build/ci/quickstart.log").read_text().splitlines()[0] == str(repository)
    assert (repository / "started").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_ci_leaves_neither_processes_nor_folders(repository: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [str(repository / ".ci/run"), "quickstart"],
        env=variables(repository, WORK='echo $$$$ > "$(MARK)"; sleep 300', MARK=str(repository.parent / "pid")),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    mark = repository.parent / "pid"
    wait_until(lambda: mark.exists() and bool(mark.read_text().strip()))
    process.send_signal(number)
    assert process.wait(timeout=30) == 130
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()
    assert list((repository.parent / "tmp").iterdir()) == []
