"""Driver, CUDA of torch and what Triton compiles with are read from files; what is not certain stays unknown."""

import sys
from pathlib import Path

import pytest

from grpo_recipes.stack.probe import driver_version, has_c_compiler, has_python_headers, torch_cuda

NOWHERE = Path("/nowhere")
PROC = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22-I3)  Sun Jul\n"
)
OLDER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15\nGCC version:  gcc 12.3.0\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("570.86.10\n", "570.86.10", id="of-the-module"),
        pytest.param(PROC, "580.65.06", id="open-module"),
        pytest.param(OLDER, "535.104.05", id="other-words"),
        pytest.param("GCC version: gcc 12.3.0\n", None, id="says-no-version"),
        pytest.param(None, None, id="no-driver"),
    ],
)
def test_the_driver_says_its_version(tmp_path: Path, text: str | None, expected: str | None) -> None:
    file = tmp_path / "version"
    if text is not None:
        file.write_text(text)
    assert driver_version((tmp_path / "missing", file), NOWHERE) == expected


def test_the_driver_says_nothing_where_a_newer_libcuda_stands_before_it(tmp_path: Path) -> None:
    (file := tmp_path / "version").write_text("535.104.05\n")
    (folder := tmp_path / "cuda-13.0" / "compat").mkdir(parents=True)
    assert driver_version((file,), tmp_path) == "535.104.05"
    (folder / "libcuda.so.1").touch()
    assert driver_version((file,), tmp_path) is None


@pytest.mark.parametrize("way", ["LD_LIBRARY_PATH", "cache"])
@pytest.mark.parametrize(("libcuda", "expected"), [("580.65.06", None), ("535.104.05", "535.104.05")])
def test_the_loader_decides_which_libcuda_is_used(
    way: str, libcuda: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "version").write_text("535.104.05\n")
    (folder := tmp_path / "cuda-compat").mkdir()
    (folder / f"libcuda.so.{libcuda}").touch()
    (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{libcuda}")
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libcuda.so.1\0" + bytes(folder / "libcuda.so.1") + b"\0")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{folder}" if way == "LD_LIBRARY_PATH" else "")
    assert driver_version((file,), NOWHERE, cache if way == "cache" else NOWHERE) == expected


# torch/version.py of 2.13.0+cpu, of PyPI's 2.0.1 and 2.15.0, and as a build for ROCm has it.
CPU = "__version__ = '2.13.0+cpu'\ndebug = False\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"
OLD = "__version__ = '2.0.1+cu117'\ndebug = False\ncuda = '11.7'\ngit_version = 'e9eb'\nhip = None\n"
NEW = "__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n"
ROCM = "__version__ = '2.13.0+rocm7.1'\ncuda: Optional[str] = None\nhip: Optional[str] = '7.1.25424'\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(OLD, "11.7", id="older-form"),
        pytest.param(NEW, "13.2", id="newer-form"),
        pytest.param(CPU, "", id="without-a-gpu"),
        pytest.param(ROCM, None, id="for-other-gpus"),
        pytest.param("", None, id="says-nothing"),
        pytest.param(None, None, id="no-torch"),
    ],
)
def test_torch_says_for_which_cuda_it_was_built(tmp_path: Path, text: str | None, expected: str | None) -> None:
    if text is not None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "version.py").write_text(text)
    assert torch_cuda([str(tmp_path / "missing"), str(tmp_path)]) == expected


@pytest.mark.parametrize("name", ["gcc", "clang", None])
def test_a_compiler_is_found_as_triton_looks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_c_compiler()
    if name is None:
        monkeypatch.setenv("CC", "icx")
    else:
        (tmp_path / name).touch(0o755)
    assert has_c_compiler()


def test_the_headers_are_those_of_this_python(tmp_path: Path) -> None:
    assert not has_python_headers(str(tmp_path))
    folder = tmp_path / "include" / f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    folder.mkdir(parents=True)
    (folder / "Python.h").touch()
    assert has_python_headers(str(tmp_path))


def test_the_headers_lie_where_sysconfig_has_them() -> None:
    import sysconfig

    assert has_python_headers() == Path(sysconfig.get_paths(scheme="posix_prefix")["include"], "Python.h").is_file()
