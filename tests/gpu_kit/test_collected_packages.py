"""What is collected for a machine without a network, on wheels that are made here: no package index is asked."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpu_kit.collect.__main__ import SETS, main, wanted
from gpu_kit.collect.closure import Unmet, Wanted, collected
from gpu_kit.collect.needed_files import is_needed_on
from gpu_kit.collect.parts import Piece, packed, table, write_manifest
from gpu_kit.collect.target import BARE, Target, installed
from gpu_kit.collect.wheel import Wheel, split, stripped
from gpu_kit.unpack import unpacked

MIB = 2**20
TARGET = Target({"torch": "2.11.0", "numpy": "2.5.5"})


def make_wheel(folder: Path, name: str, version: str, needs: tuple[str, ...] = (), **files: bytes) -> Wheel:
    """A wheel as pip would take it; files: path with __ for / to content."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = "\n".join([f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in needs), "", ""])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        for file, content in files.items():
            archive.writestr(f"{name}/" + file.replace("__", "/").replace("_so", ".so"), content)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
    return Wheel(path)


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_what_is_there_is_not_collected_and_what_is_needed_of_it_is(tmp_path: Path) -> None:
    make_wheel(
        tmp_path, "trainer", "1.0", ("torch>=2.6", "helper>=1", 'other; sys_platform == "win32"', 'x; extra == "y"')
    )
    make_wheel(tmp_path, "helper", "1.5", ("numpy<3",))
    pins = {"trainer": "1.0", "helper": "1.5"}
    found = collected(Wanted([Requirement("trainer")], pins), TARGET, tmp_path)
    assert {name: wheel.version for name, wheel in found.items()} == {"trainer": "1.0", "helper": "1.5"}


def test_what_is_left_out_is_not_collected(tmp_path: Path) -> None:
    make_wheel(tmp_path, "trainer", "1.0", ("helper",))
    asked = Wanted([Requirement("trainer")], {"trainer": "1.0"}, left_out={"helper": "no stage needs it"})
    assert list(collected(asked, TARGET, tmp_path)) == ["trainer"]


def test_packages_that_exclude_each_other_are_said(tmp_path: Path) -> None:
    make_wheel(tmp_path, "one", "1.0", ("helper>=1",))
    make_wheel(tmp_path, "two", "1.0", ("middle",))
    make_wheel(tmp_path, "middle", "1.0", ("helper<1.2",))
    make_wheel(tmp_path, "helper", "1.5")
    pins = {"one": "1.0", "two": "1.0", "middle": "1.0", "helper": "1.5"}
    with pytest.raises(Unmet, match=r"helper 1\.5 is there, middle needs helper<1\.2"):
        collected(Wanted([Requirement("one"), Requirement("two")], pins), TARGET, tmp_path)


def test_of_bitsandbytes_the_cpu_and_one_release_of_cuda_stay(tmp_path: Path) -> None:
    libraries = ("cpu", "cuda130", "cuda128", "rocm63", "xpu")
    files = {f"libbitsandbytes_{one}_so": one.encode() for one in libraries}
    wheel = make_wheel(tmp_path / "old", "bitsandbytes", "0.50.2", **files)
    is_needed = is_needed_on(TARGET, "bitsandbytes")
    assert is_needed is not None
    (tmp_path / "new").mkdir()
    names = names_in(stripped(wheel, tmp_path / "new", is_needed).path)
    kept = [name for name in names if name.endswith(".so")]
    assert kept == ["bitsandbytes/libbitsandbytes_cpu.so", "bitsandbytes/libbitsandbytes_cuda130.so"]


@pytest.mark.parametrize(
    ("gpu", "file", "stays"),
    [
        ("9.0", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", True),
        ("9.0", "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", False),
        ("8.9", "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", True),
        ("8.9", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", False),
        ("10.0", "vllm/_qutlass_C.abi3.so", True),
        ("9.0", "vllm/_C_stable_libtorch.abi3.so", True),
        ("9.0", "vllm/vllm-rs", False),
        ("9.0", "vllm/third_party/fmha_sm100/cutlass/include/cute/arch/mma_sm90.hpp", False),
    ],
)
def test_of_vllm_the_kernels_of_the_gpu_stay(gpu: str, file: str, stays: bool) -> None:
    is_needed = is_needed_on(Target({}, gpu=gpu), "vllm")
    assert is_needed is not None
    assert is_needed(file) is stays


def test_the_record_of_a_stripped_wheel_is_that_of_its_files(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "old", "thing", "1.0", a=b"a" * 100, b=b"b")
    (tmp_path / "new").mkdir()
    made = stripped(wheel, tmp_path / "new", lambda file: file != "thing/b")
    with zipfile.ZipFile(made.path) as archive:
        lines = archive.read("thing-1.0.dist-info/RECORD").decode().splitlines()
        assert [line.split(",")[0] for line in lines] == archive.namelist()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"a" * 100).digest()).rstrip(b"=").decode()
    assert f"thing/a,sha256={digest},100" in lines


def noise(count: int, seed: int) -> bytes:
    """Bytes that no archive makes smaller."""
    return b"".join(hashlib.sha256(f"{seed} {number}".encode()).digest() for number in range(count // 32))


def test_a_wheel_that_is_larger_than_a_part_is_cut_and_unpacked_whole(tmp_path: Path) -> None:
    files = {name: noise(MIB // 2, seed) for seed, name in enumerate("abcde")}
    big, small = make_wheel(tmp_path, "big", "1.0", **files), make_wheel(tmp_path, "small", "2.0", x=b"x")
    out = tmp_path / "kit"
    pieces = packed("newest", {"big": big, "small": small}, {}, out, int(1.2 * MIB))
    write_manifest(out, {}, pieces)
    parts = {one.part: [] for one in pieces}
    for one in pieces:
        parts[one.part].append(one.size)
    assert len(parts) == 3
    assert all(sum(sizes) <= 1.2 * MIB for sizes in parts.values())
    assert unpacked(out, tmp_path / "packages") == {"newest": 2}
    for name, content in files.items():
        assert (tmp_path / "packages" / "newest" / "big" / name).read_bytes() == content
    assert (tmp_path / "packages" / "newest" / "small-2.0.dist-info" / "METADATA").exists()


def test_a_file_that_is_larger_than_a_part_is_said(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "big", "1.0", a=noise(MIB, 1))
    with pytest.raises(ValueError, match=r"big-1\.0.*: big/a takes 1,"):
        split(wheel, tmp_path, MIB // 2)


def test_parts_that_were_not_carried_are_passed_over_and_a_changed_file_is_not(tmp_path: Path) -> None:
    wheels = {name: make_wheel(tmp_path, name, "1.0") for name in ("one", "two")}
    out = tmp_path / "kit"
    pieces = packed("newest", {"one": wheels["one"]}, {}, out, MIB) + packed(
        "older", {"two": wheels["two"]}, {}, out, MIB
    )
    write_manifest(out, {}, pieces)
    (out / "newest-1").rename(tmp_path / "at home")
    assert unpacked(out, tmp_path / "packages") == {"older": 1}
    (out / "older-1" / "two-1.0-py3-none-any.whl").write_bytes(b"another")
    with pytest.raises(ValueError, match="is not what was packed"):
        unpacked(out, tmp_path / "packages")


def test_a_file_that_would_be_written_elsewhere_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "one", "1.0")
    with zipfile.ZipFile(wheel.path, "a") as archive:
        archive.writestr("../../elsewhere", "x")
    out = tmp_path / "kit"
    write_manifest(out, {}, packed("newest", {"one": wheel}, {}, out, MIB))
    with pytest.raises(ValueError, match="would be written elsewhere"):
        unpacked(out, tmp_path / "packages")
    assert not (tmp_path / "elsewhere").exists()


def test_a_table_has_each_part_with_its_size_and_what_was_cut_away() -> None:
    pieces = [Piece("bitsandbytes", "0.50.2", "newest", "newest-1", "b.whl", 3 * MIB, "", 41 * MIB)]
    assert table(pieces) == "newest-1: 3.0 MiB, 1 files\n    3.00 MiB  bitsandbytes 0.50.2  of 41.0"


def test_the_newest_set_is_pinned_by_the_tested_stack_and_the_older_one_by_a_tested_one() -> None:
    target = Target(installed(BARE))
    newest, older = wanted("newest", target, {}), wanted("older", target, {})
    assert all(one.name in newest.pins for one in newest.requirements)
    assert "numpy" not in newest.pins, "what is there has its own version"
    assert (older.pins["trl"], older.pins["transformers"]) == ("0.23.1", "4.57.6")
    assert set(SETS) == {"newest", "older", "vllm"}


def test_a_line_of_another_kind_in_what_is_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "has.txt").write_text("# a machine\nnumpy==2.5.5\ntorch>=2\n")
    with pytest.raises(ValueError, match=r"has\.txt:3: 'torch>=2' is no NAME==VERSION"):
        installed(tmp_path / "has.txt")


def test_a_set_that_there_is_not_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["collect", "--sets", "newest,oldest", "--out", str(tmp_path)])
    assert main() == 2
    assert "no set oldest; there are newest, older, vllm" in capsys.readouterr().err


def test_a_set_over_one_that_was_not_collected_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["collect", "--sets", "vllm", "--out", str(tmp_path)])
    assert main() == 1
    assert "lies over newest, which is not there" in capsys.readouterr().err


def test_the_manifest_says_what_it_was_made_for(tmp_path: Path) -> None:
    pieces = packed("newest", {"one": make_wheel(tmp_path, "one", "1.0")}, {}, tmp_path / "kit", MIB)
    write_manifest(tmp_path / "kit", {"python": "3.12", "gpu": "9.0"}, pieces)
    read = json.loads((tmp_path / "kit" / "manifest.json").read_text())
    assert read["for"] == {"python": "3.12", "gpu": "9.0"}
    one = read["pieces"][0]
    assert (one["name"], one["version"], one["set"], one["part"]) == ("one", "1.0", "newest", "newest-1")
    assert one["sha256"] == hashlib.sha256((tmp_path / "kit" / "newest-1" / one["file"]).read_bytes()).hexdigest()
