"""GPUs come from nvidia-smi and CUDA_VISIBLE_DEVICES; what cannot be known stays unknown."""

from pathlib import Path

import pytest

from grpo_recipes.stack import gpus
from grpo_recipes.stack.gpus import gpu_by_name, parse_listing, select_visible, visible_gpus
from grpo_recipes.stack.stack import Gpu

LISTING = """\
GPU-11111111-aaaa, NVIDIA H200, 143771, 9.0, Disabled
GPU-22222222-bbbb, NVIDIA H200, 143771, 9.0, Disabled
"""
MIXED = LISTING + "GPU-33333333-cccc, Tesla T4, 15360, 7.5, [N/A]\n"
CUT = LISTING.replace("9.0, Disabled", "9.0, Enabled", 1)
SLICE = Gpu("MIG slice of NVIDIA H200", None, (9, 0))
H200 = Gpu("NVIDIA H200", 140.4, (9, 0))
T4 = Gpu("Tesla T4", 15.0, (7, 5))


@pytest.mark.parametrize(
    ("listing", "visible", "order", "expected"),
    [
        pytest.param(MIXED, None, None, (H200, H200, T4), id="all-without-the-variable"),
        pytest.param(LISTING, "1", None, (H200,), id="one-of-equal-gpus"),
        pytest.param(LISTING, "", None, (), id="empty-hides-all"),
        pytest.param(LISTING, "-1", None, (), id="minus-one-hides-all"),
        pytest.param(LISTING, "0,7,1", None, (H200,), id="nothing-after-an-index-that-does-not-exist"),
        pytest.param(MIXED, "GPU-33333333", None, (T4,), id="start-of-a-uuid"),
        pytest.param(MIXED, "GPU-44444444", None, (), id="uuid-of-another-machine"),
        pytest.param(MIXED, "MIG-5555", None, (Gpu("MIG-5555", None, None),), id="mig-slice"),
        pytest.param(MIXED, "2", "PCI_BUS_ID", (T4,), id="index-in-the-order-of-the-bus"),
        pytest.param(MIXED, "2", None, (Gpu("GPU 2", None, None),), id="index-in-an-order-that-is-not-known"),
        pytest.param(MIXED, "0,2", None, (Gpu("GPU 0", None, None), Gpu("GPU 2", None, None)), id="two-of-them"),
        pytest.param(CUT, None, None, (SLICE,), id="one-slice-of-a-gpu-that-is-cut"),
        pytest.param(CUT, "MIG-5555", None, (Gpu("MIG-5555", None, None),), id="a-slice-by-its-name"),
        pytest.param(CUT, "1", "PCI_BUS_ID", (H200,), id="the-gpu-that-is-not-cut"),
    ],
)
def test_the_variable_selects_as_cuda_does(
    listing: str, visible: str | None, order: str | None, expected: tuple[Gpu, ...]
) -> None:
    assert select_visible(parse_listing(listing), visible, order) == expected


def test_columns_that_the_driver_does_not_know_are_unknown() -> None:
    listed = parse_listing("GPU-1, NVIDIA GB10, [N/A], [N/A], [N/A]\n\n")
    assert list(listed.values()) == [Gpu("NVIDIA GB10", None, None)]


def with_program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str | None) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if script is not None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("echo 'GPU-1, NVIDIA H200, 143771, 9.0, Disabled'", (H200,), id="one-gpu"),
        pytest.param("true", (), id="driver-without-a-gpu"),
        pytest.param("echo 'NVIDIA-SMI has failed'; exit 9", None, id="driver-is-broken"),
        pytest.param("echo 'No devices were found'", None, id="another-answer"),
        pytest.param("while :; do :; done", None, id="no-answer-in-time"),
    ],
)
@pytest.mark.processes
def test_a_program_that_fails_leaves_the_gpus_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: tuple[Gpu, ...] | None
) -> None:
    with_program(tmp_path, monkeypatch, script)
    monkeypatch.setattr(gpus, "_TIMEOUT_S", 0.3 if "while" in script else 5.0)
    assert visible_gpus() == expected


def test_a_driver_has_half_a_minute_to_wake_its_gpus() -> None:
    assert gpus._TIMEOUT_S == 30


@pytest.mark.parametrize(("has_driver", "expected"), [(False, ()), (True, None)], ids=["no-driver", "driver"])
def test_without_the_program_only_a_driver_leaves_the_gpus_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_driver: bool, expected: tuple[Gpu, ...] | None
) -> None:
    with_program(tmp_path, monkeypatch, None)
    monkeypatch.setattr(gpus, "_DRIVER_FOLDER", tmp_path if has_driver else tmp_path / "missing")
    assert visible_gpus() == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("H100-80GB", Gpu("H100-80GB", 79.6, (9, 0)), id="known"),
        pytest.param("nvidia a100_40gb", Gpu("A100-40GB", 40.0, (8, 0)), id="written-otherwise"),
        pytest.param("A100", Gpu("A100", 40.0, (8, 0)), id="two-sizes-exist"),
        pytest.param("V100-SXM2", Gpu("V100", 16.0, (7, 0)), id="two-sizes-exist-of-a-form"),
        pytest.param("A100:80GB", Gpu("A100-80GB", 80.0, (8, 0)), id="size-behind-a-colon"),
        pytest.param("h100: 94 GiB", Gpu("H100-94GB", 94.0, (9, 0)), id="another-size-behind-a-colon"),
        pytest.param("MI300X:192GB", Gpu("MI300X", 192.0, None), id="unknown-with-size-behind-a-colon"),
        pytest.param("A100-MIG-1g.5gb:5GB", Gpu("A100-MIG-1G.5GB", 5.0, None), id="slice-with-size"),
        pytest.param("X900-96GB", Gpu("X900-96GB", 96.0, None), id="unknown-with-size"),
        pytest.param("X900", Gpu("X900", None, None), id="unknown"),
    ],
)
def test_a_name_gives_what_the_table_or_its_suffix_says(name: str, expected: Gpu) -> None:
    assert gpu_by_name(name) == expected


@pytest.mark.parametrize(
    ("names", "entry"),
    [
        ("T4, T4-16GB, Tesla T4, nvidia-tesla-t4, NVIDIA_T4, t4_16g", "T4"),
        ("A10G-24GB, NVIDIA A10G, a10g", "A10G"),
        ("L4-24GB, nvidia-l4, NVIDIA L4", "L4"),
        ("RTX4090, 4090, NVIDIA GeForce RTX 4090, rtx_4090, RTX-4090-24GB", "RTX-4090"),
        ("RTX3090, NVIDIA GeForce RTX 3090, geforce_rtx_3090", "RTX-3090"),
        ("RTX 2080 Ti, NVIDIA GeForce RTX 2080 Ti, 2080ti", "RTX-2080TI"),
        ("A6000, RTXA6000, NVIDIA RTX A6000, rtx_a6000, A6000-48GB", "RTX-A6000"),
        ("NVIDIA RTX 6000 Ada Generation, RTX6000-Ada, rtx_6000_ada", "RTX-6000-ADA"),
        ("A100-SXM4-80GB, NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe, nvidia-a100-80gb, a100_80g", "A100-80GB"),
        ("A100-SXM4-40GB, NVIDIA A100-PCIE-40GB, nvidia_a100_40gb", "A100-40GB"),
        ("nvidia-tesla-a100, a100_sxm4", "A100"),
        ("H100-PCIe, NVIDIA H100 PCIe, h100_sxm5", "H100"),
        ("NVIDIA H100 80GB HBM3, nvidia-h100-80gb, nvidia-h100-mega-80gb, H100-SXM5-80GB", "H100-80GB"),
        ("NVIDIA H100 NVL, H100-NVL-94GB", "H100-NVL"),
        ("NVIDIA H200, H200-SXM", "H200"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("Tesla V100-SXM2-32GB, tesla_v100-sxm2-32gb, Tesla V100-DGXS-32GB", "V100-32GB"),
        ("Tesla P100-PCIE-16GB, nvidia-tesla-p100", "P100-16GB"),
        ("NVIDIA L40S, L40S-48GB", "L40S"),
    ],
    ids=str,
)
def test_spellings_of_drivers_slurm_and_clouds_are_one_entry(names: str, entry: str) -> None:
    expected = Gpu(entry, *gpus._known_gpus()[entry])
    assert {name: gpu_by_name(name) for name in names.split(", ")} == dict.fromkeys(names.split(", "), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A100-SXM-64GB", Gpu("A100-64GB", 64.0, (8, 0))),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", Gpu("A100-SXM4-40GB-MIG-1G.5GB", None, None)),
        ("RTX 4090 Laptop GPU", Gpu("RTX-4090-LAPTOP-GPU", None, None)),
        ("RTX 6000", Gpu("RTX-6000", None, None)),
        ("MI300X-192GB", Gpu("MI300X-192GB", 192.0, None)),
    ],
    ids=str,
)
def test_another_size_is_taken_as_said_and_another_gpu_for_no_known_one(name: str, expected: Gpu) -> None:
    assert gpu_by_name(name) == expected


def test_every_gpu_of_the_table_is_reached_by_its_own_name() -> None:
    for name, (memory_gib, capability) in gpus._known_gpus().items():
        assert gpu_by_name(name) == Gpu(name, memory_gib, capability)
        assert memory_gib is None or 4 < memory_gib < 400
