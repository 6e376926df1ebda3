"""What a machine lacks is packed, with a command that installs it there and runs the stages."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from gpu_kit import pack
from gpu_kit.result import Result, Results
from gpu_kit.stages.catalog import STAGES

pytestmark = pytest.mark.stack
PINS = pack.releases(pack.ROOT / "constraints" / "cpu.txt")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LIMIT_S = 300


def test_a_machine_that_has_all_lacks_nothing() -> None:
    assert pack.lacking(PINS, PINS, PYTHON) == {}


@pytest.mark.parametrize(
    ("other", "carried"),
    [
        ({"transformers": "5.17.0"}, {"transformers"}),
        ({"pydantic": "1.10"}, {"pydantic"}),
        ({"torch": "2.11.0+cu130"}, set()),
    ],
    ids=["an-older-release", "of-a-need-of-the-project", "a-torch-that-fits"],
)
def test_what_is_missing_or_does_not_fit_is_carried_in_the_tested_release(
    other: dict[str, str], carried: set[str]
) -> None:
    assert pack.lacking({**PINS, **other}, PINS, PYTHON) == {name: PINS[name] for name in carried}


def test_a_package_brings_what_it_needs() -> None:
    has = {name: version for name, version in PINS.items() if name not in ("math-verify", "latex2sympy2-extended")}
    assert set(pack.lacking(has, PINS, PYTHON)) == {"math-verify", "latex2sympy2-extended"}


def test_a_machine_without_a_torch_that_fits_is_refused() -> None:
    for torch, words in (({}, "torch not at all"), ({"torch": "2.4.0"}, "torch 2.4.0")):
        has = {**{name: version for name, version in PINS.items() if name != "torch"}, **torch}
        with pytest.raises(ValueError, match=f"is needed, and the machine has {words}"):
            pack.lacking(has, PINS, PYTHON)


def test_a_list_in_another_form_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "has.txt").write_text("# a comment\nPyYAML==6.0.3\nnumpy 2.4.6\n")
    with pytest.raises(ValueError, match=r"'numpy 2\.4\.6' is not NAME==VERSION"):
        pack.releases(file)


def test_stages_without_a_result_of_their_present_form_run_in_their_order() -> None:
    day = pack.CHANGED["padding"]
    stages = {name: Result("passed", date=f"{day}T10:00") for name in STAGES}
    assert pack.without_result(Results("cuda", [{}], stages)) == []
    stages["padding"].date = "2026-11-26"
    stages["zero2"].status, stages["doctor"].status = "cut off", "failed"
    del stages["own_cost"]
    assert pack.without_result(Results("cuda", [{}], stages)) == ["doctor", "zero2", "own_cost", "padding"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="has files that are not of a lease"):
        pack.write_script(tmp_path / "run.sh", ["doctor"])
    (tmp_path / "mine.txt").rename(tmp_path / "run.sh")
    with pytest.raises(ValueError, match="has files that are not of a lease"):
        pack.write_script(tmp_path / "run.sh", ["doctor"])
    for stage in ("doctor", "lora"):
        pack.write_script(tmp_path / "new" / "run.sh", [stage])
        (tmp_path / "new" / "site").mkdir()
    assert "--stages lora " in (tmp_path / "new" / "run.sh").read_text()


def test_a_stage_that_does_not_exist_is_named_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["pack", "has.txt", "--stages", "lorra", "--out", str(tmp_path / "new")])
    assert pack.main() == 2
    assert "no stage 'lorra'" in capsys.readouterr().err and not (tmp_path / "new").exists()


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A folder as the command packs it, with the wheel of a module."""
    folder = tmp_path / "a lease"
    pack.write_script(folder / "run.sh", ["doctor", "lora", "flash"])
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels" / "lent-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("lent.py", "")
        wheel.writestr("lent-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: lent\nVersion: 1\n")
        wheel.writestr("lent-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("lent-1.dist-info/RECORD", "")
    pack.pack_tree(folder / "tree.tar.gz")
    return folder


def begin(packed: Path, *options: str) -> "subprocess.Popen[str]":
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["sh", str(packed / "run.sh"), "out", "--device", "cpu", *options]
    return subprocess.Popen(command, cwd=packed, env=environment, stdout=subprocess.PIPE, text=True)


def statuses(packed: Path) -> dict[str, str]:
    file = packed / "out" / "results.json"
    stages = json.loads(file.read_text())["stages"] if file.exists() else {}
    return {name: one["status"] for name, one in stages.items()}


@pytest.mark.processes
@pytest.mark.long
def test_a_call_that_is_cut_off_keeps_its_results_and_the_next_one_resumes(packed: Path) -> None:
    with begin(packed) as call:
        give_up = time.monotonic() + LIMIT_S
        while "lora" not in statuses(packed) and time.monotonic() < give_up:
            time.sleep(0.1)
        call.send_signal(signal.SIGTERM)
        assert call.wait(LIMIT_S) == 143
    assert statuses(packed) == {"doctor": "passed", "lora": "cut off"}
    assert (packed / "site" / "lent.py").exists()
    with begin(packed, "--stages", "doctor,flash") as call:
        output = call.communicate(timeout=LIMIT_S)[0]
    assert "doctor         passed" not in output and "1 of 2 passed, 1 left out" in output
    assert statuses(packed) == {"doctor": "passed", "lora": "cut off", "flash": "left out"}
