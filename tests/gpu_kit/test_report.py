"""Results are kept in one file, and the pages that are made of them."""

from pathlib import Path

import pytest

from gpu_kit import report
from gpu_kit import run as runner
from gpu_kit.result import Result, Results, read_results
from gpu_kit.stages.catalog import STAGES

H200 = {"gpu": "NVIDIA H200", "torch": "2.11.0+cu130"}


def results_of(device: str) -> Results:
    stages = {
        "doctor": Result("passed", 2.0, figures={"findings": []}),
        "lora": Result("failed", 31.0, wrong=["PRF004 | is not proved"], said="one\ntwo\n", figures={"step": 0.5}),
        "vllm": Result("left out", reason="vllm is not installed"),
    }
    return Results(device, [dict(H200)], stages)


def test_the_page_of_the_benchmarks_is_what_the_last_results_of_a_gpu_give() -> None:
    kept = read_results(report.KEPT) if report.KEPT.exists() else None
    assert report.PAGE.read_text(encoding="utf-8") == report.page(kept), "python -m gpu_kit.report --write"


def test_without_results_the_page_says_so_and_names_every_stage() -> None:
    page = report.page(None)
    assert "Not yet run on a GPU" in page
    assert all(f"| {name} |" in page for name in STAGES)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results_of("cuda").write(tmp_path / "new" / "results.json")
    assert read_results(tmp_path / "new" / "results.json") == results_of("cuda")


def test_a_file_of_another_kind_is_not_taken_for_results(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="not a file of results"):
        read_results(tmp_path / "results.json")


def test_the_page_has_the_machine_how_each_stage_ended_and_what_is_wrong() -> None:
    page = report.page(results_of("cuda"))
    assert "Not yet" not in page
    assert "| gpu | NVIDIA H200 |" in page
    assert "| failed | 31 | 1 | 1 |  | PRF004 \\| is not proved |" in page
    assert "| left out | 0 | 1 | 1 |  | vllm is not installed |" in page
    assert "- **wrong**: PRF004 | is not proved" in page
    assert "one\ntwo\n```" in page
    assert "Not run:\n\n| stage | limit in seconds | what it checks |\n|---|---|---|\n| real_model | " in page


NEWER = {"gpu": "NVIDIA H200", "torch": "2.13.0+cu130", "trl": "1.17.0"}
DAY, LATER = "2026-11-26", "2026-11-30T10:00:00+00:00"


def test_each_stage_keeps_its_newest_result_and_the_machine_of_it() -> None:
    kept = Results("cuda", [dict(H200)], {name: Result("passed", date=DAY) for name in ("doctor", "lora", "vllm")})
    kept.stages["qlora"] = Result("cut off", date=DAY)
    new = Results("cuda", [dict(H200), NEWER])
    new.stages = {
        "doctor": Result("failed", date=LATER, machine=1),
        "lora": Result("passed", date="2026-11-25", machine=1),
        "vllm": Result("cut off", date=LATER, machine=1),
        "qlora": Result("cut off", date=LATER, machine=1, figures={"step": 1}),
        "images": Result("left out", date=LATER, machine=1),
        "zero2": Result("passed", date=LATER, machine=0),
    }
    table = report.merged(kept, new)
    assert {name: (one.status, table.machines[one.machine]) for name, one in table.stages.items()} == {
        "doctor": ("failed", NEWER),
        "lora": ("passed", H200),
        "vllm": ("passed", H200),
        "qlora": ("cut off", NEWER),
        "zero2": ("passed", H200),
    }
    assert table.stages["qlora"].figures == {"step": 1}
    page = report.page(table)
    assert "| machine | 1 | 2 |\n|---|---|---|\n" in page and "| trl | 1.17.0 |  |" in page


def test_a_machine_without_a_newest_result_leaves_the_table() -> None:
    kept = Results("cuda", [dict(H200)], {"doctor": Result("passed", date=DAY)})
    table = report.merged(kept, Results("cuda", [NEWER], {"doctor": Result("passed", date=LATER)}))
    assert table.machines == [NEWER]
    with pytest.raises(ValueError, match="results from cuda and cpu have no common table"):
        report.merged(table, Results("cpu", []))


def test_results_of_a_cpu_are_no_page_of_the_benchmarks() -> None:
    with pytest.raises(ValueError, match="needs results from a GPU"):
        report.page(results_of("cpu"))
    assert "ignore speed and memory" in report.report(results_of("cpu"))


@pytest.mark.processes
def test_results_of_another_device_are_not_gone_on_with(tmp_path: Path) -> None:
    results_of("cuda").write(tmp_path / "results.json")
    with pytest.raises(ValueError, match=r"is from cuda NVIDIA H200, this is cpu .*; use another --out"):
        runner.begun(tmp_path / "out", tmp_path / "results.json", "cpu")
