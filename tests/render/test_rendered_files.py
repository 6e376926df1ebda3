"""The rendered files, letter by letter.

After a wanted change: GOLDEN=write pytest tests/render; then read the diff.
"""

import dataclasses
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from render_cases import CASES

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.base import engine_of
from grpo_recipes.render.launch_script import accelerate_yaml, launch_sh, train_sh
from grpo_recipes.render.run_folder import deepspeed_json, merge

GOLDEN = Path(__file__).parent / "golden"
RENDERERS = {
    "accelerate.yaml": accelerate_yaml,
    "deepspeed.json": deepspeed_json,
    "launch.sh": launch_sh,
    "train.sh": train_sh,
    "job.sbatch": lambda plan: engine_of(plan).files(plan).get("job.sbatch"),
}


@pytest.mark.parametrize("file", RENDERERS)
@pytest.mark.parametrize("case", CASES)
def test_a_rendered_file_is_the_golden_one(case: str, file: str) -> None:
    text = RENDERERS[file](CASES[case])
    golden = GOLDEN / f"{case}.{file}"
    if os.environ.get("GOLDEN") == "write":
        golden.unlink(missing_ok=True)
        if text is not None:
            golden.write_text(text, encoding="utf-8")
    assert text == (golden.read_text(encoding="utf-8") if golden.exists() else None)


def test_every_golden_file_belongs_to_a_case() -> None:
    known = {f"{case}.{file}" for case in CASES for file in RENDERERS}
    assert {path.name for path in GOLDEN.iterdir()} <= known


@pytest.mark.parametrize("case", CASES)
def test_accelerate_yaml_is_yaml_and_says_nothing_that_deepspeed_json_says(case: str) -> None:
    plan = CASES[case]
    content = yaml.safe_load(accelerate_yaml(plan))
    assert content["num_processes"] == plan.world.num_processes
    assert content["use_cpu"] is (plan.world.device == "cpu")
    if plan.deepspeed is None:
        assert content["mixed_precision"] == ("bf16" if plan.arguments.GRPOConfig.get("bf16") else "no")
    else:
        several = {"deepspeed_multinode_launcher"} if plan.world.num_nodes > 1 else set()
        assert set(content["deepspeed_config"]) == {"deepspeed_config_file", "zero3_init_flag"} | several
        assert "mixed_precision" not in content


def test_extra_deepspeed_keys_join_the_sections_that_are_there() -> None:
    text = deepspeed_json(CASES["zero3_offload_cuda_8"])
    assert text is not None
    content = json.loads(text)
    assert content["zero_optimization"]["overlap_comm"] is True
    assert content["zero_optimization"]["stage"] == 3
    assert content["gradient_accumulation_steps"] == "auto"
    assert content["steps_per_print"] == 100


def test_merging_leaves_both_sides_as_they_were() -> None:
    base: dict[str, object] = {"a": {"b": 1}, "c": [1]}
    extra: dict[str, object] = {"a": {"d": 2}, "c": [2]}
    assert merge(base, extra) == {"a": {"b": 1, "d": 2}, "c": [2]}
    assert (base, extra) == ({"a": {"b": 1}, "c": [1]}, {"a": {"d": 2}, "c": [2]})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.processes
def test_bash_can_read_the_scripts(case: str) -> None:
    for script in filter(None, (RENDERERS[name](CASES[case]) for name in ("launch.sh", "train.sh", "job.sbatch"))):
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def run_launch_sh(plan: Plan, folder: Path, **environment: str) -> list[str]:
    """The lines that the started program prints: its arguments, then its environment."""
    (folder / "launch.sh").write_text(launch_sh(plan), encoding="utf-8")
    program = folder / "program"
    program.write_text('#!/bin/sh\n[ "$2" = -c ] && echo 4711 && exit\necho "$@"\npwd\nenv\n', encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", str(folder / "launch.sh"), "--resume"],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHON": str(program), **environment},
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.processes
def test_launch_sh_starts_one_process_directly_in_its_own_folder(tmp_path: Path) -> None:
    inherited = {"WORLD_SIZE": "8", "RANK": "3", "ACCELERATE_USE_DEEPSPEED": "true", "PYTHONOPTIMIZE": "2"}
    lines = run_launch_sh(CASES["single_cpu"], tmp_path, **inherited)
    assert lines[0] == f"-P -u {tmp_path}/worker/train.py --resume"
    assert lines[1].startswith(f"{tmp_path}/reports/") and not list(Path(lines[1]).iterdir())
    assert "OMP_NUM_THREADS=1" in lines
    assert "NCCL_DEBUG=it's $HOME" in lines
    assert not [line for line in lines if line.startswith(tuple(inherited))]


@pytest.mark.processes
def test_beside_a_server_launch_sh_starts_what_starts_both(tmp_path: Path) -> None:
    plan = CASES["server_cuda_1_of_4"]
    lines = run_launch_sh(plan, tmp_path, CUDA_VISIBLE_DEVICES="4,5,6,7", GRPO_RUN_VLLM_URL="http://127.0.0.1:1")
    assert lines[0] == f"-P -u {tmp_path}/worker/serve.py --resume"
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7" in lines  # shared out there
    assert not [line for line in lines if line.startswith("GRPO_RUN_VLLM_URL")]
    assert "worker/train.py" in str(train_sh(plan))


@pytest.mark.processes
def test_launch_sh_starts_several_processes_through_accelerate(tmp_path: Path) -> None:
    lines = run_launch_sh(CASES["ddp_cpu_2"], tmp_path)
    launch = f"-P -m accelerate.commands.launch --config_file {tmp_path}/accelerate.yaml --main_process_port 4711"
    assert lines[0] == f"{launch} {tmp_path}/worker/train.py --resume"


HOME = {"HOME": "/data/me"}
MACHINE_1 = ["--node", "1", "--address", "10.0.0.7", "--port", "29500"]


def run_as_a_machine(
    plan: Plan, folder: Path, *arguments: str, home: dict[str, str] = HOME
) -> "subprocess.CompletedProcess[str]":
    """What launch.sh starts with these arguments, one of several machines; the program prints its own."""
    (folder / "launch.sh").write_text(launch_sh(plan), encoding="utf-8")
    program = folder / "program"
    program.write_text('#!/bin/sh\n[ "$2" = -c ] && echo 4711 && exit\necho "$@"\nenv\n', encoding="utf-8")
    program.chmod(0o755)
    return subprocess.run(
        ["bash", str(folder / "launch.sh"), *arguments],
        env={"PATH": os.environ["PATH"], "PYTHON": str(program), **home},
        text=True,
        capture_output=True,
    )


@pytest.mark.parametrize("more", [[], ["--resume"]])
@pytest.mark.processes
def test_one_of_several_machines_meets_the_others_first(more: list[str], tmp_path: Path) -> None:
    done = run_as_a_machine(CASES["nodes_2_ddp_cpu"], tmp_path, *MACHINE_1, *more)
    words = " ".join(["", *more]) if more else ""
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"-P -u {tmp_path}/worker/meet.py 1 2 10.0.0.7 29500{words}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--node is missing"),
        (["--resume"], "--node is missing"),
        (["--node", "0"], "--address is missing"),
        ([*MACHINE_1[:3], "", "--port", "29500"], "--address has no value"),
        (MACHINE_1[:4], "--port is missing"),
        ([*MACHINE_1, "--node"], "--node has no value"),
        ([*MACHINE_1, "--node", "2"], "--node 2 is not one of its 2 machines"),
        ([*MACHINE_1, "--node", "-1"], "--node -1 is not one of its 2 machines"),
        ([*MACHINE_1, "--node", "01"], "--node 01 is not one of its 2 machines"),
        ([*MACHINE_1, "--port", "70000"], "--port 70000 is no port"),
        ([*MACHINE_1, "--resumed"], "--resumed is no argument of it"),
    ],
    ids=" ".join,
)
@pytest.mark.processes
def test_what_a_machine_is_not_told_is_said(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = run_as_a_machine(CASES["nodes_2_ddp_cpu"], tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == [
        f"launch.sh: {told}",
        "usage: bash launch.sh --node N --address A --port P [--resume]",
    ]


@pytest.mark.processes
def test_machines_compile_extensions_each_for_itself(tmp_path: Path) -> None:
    lines = run_as_a_machine(CASES["nodes_2_zero2_cpu"], tmp_path, *MACHINE_1).stdout.splitlines()
    folder = next(line for line in lines if line.startswith("TORCH_EXTENSIONS_DIR="))
    assert folder == f"TORCH_EXTENSIONS_DIR=/data/me/.cache/torch_extensions/{socket.gethostname()}-1"


@pytest.mark.processes
def test_a_user_without_a_home_compiles_in_a_private_folder(tmp_path: Path) -> None:
    done = run_as_a_machine(CASES["nodes_2_zero2_cpu"], tmp_path, *MACHINE_1, home={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert f"TORCH_EXTENSIONS_DIR={tmp_path}/tmp." in done.stdout


@pytest.mark.parametrize("case", ["nodes_2_and_server_node", "node_and_server_node"])
@pytest.mark.processes
def test_a_server_with_a_machine_of_its_own_is_started_there(case: str, tmp_path: Path) -> None:
    done = run_as_a_machine(CASES[case], tmp_path, "--server", "--address", "10.0.0.7")
    assert done.stdout.splitlines()[0] == f"-P -u {tmp_path}/worker/serve.py --alone 10.0.0.7", done.stderr
    assert run_as_a_machine(CASES[case], tmp_path, "--server").returncode == 2


@pytest.mark.processes
def test_beside_a_server_node_one_machine_trains_alone(tmp_path: Path) -> None:
    done = run_as_a_machine(CASES["node_and_server_node"], tmp_path, "--resume")
    launch = f"-P -m accelerate.commands.launch --config_file {tmp_path}/accelerate.yaml --main_process_port 4711"
    assert done.stdout.splitlines()[0] == f"{launch} {tmp_path}/worker/train.py --resume", done.stderr


@pytest.mark.parametrize("case", CASES)
@pytest.mark.processes
def test_the_signal_of_a_cluster_kills_no_launcher(case: str, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(train_sh(CASES[case]) or launch_sh(CASES[case]), encoding="utf-8")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\n[ "$2" = -c ] && echo 1 && exit\nkill -USR1 $$\necho lives\n', encoding="utf-8")
    program.chmod(0o755)
    several = CASES[case].world.num_nodes > 1
    done = subprocess.run(
        ["bash", str(tmp_path / "train.sh"), *(MACHINE_1 if several else [])],
        env={"PATH": os.environ["PATH"], "HOME": "/data/me", "PYTHON": str(program)},
        text=True,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (0, "lives\n"), done.stderr


@pytest.mark.parametrize(
    ("visible", "taken"),
    [({}, "0"), ({"CUDA_VISIBLE_DEVICES": "3,1"}, "3"), ({"CUDA_VISIBLE_DEVICES": ""}, "")],
)
@pytest.mark.processes
def test_one_process_sees_one_gpu(visible: dict[str, str], taken: str, tmp_path: Path) -> None:
    assert f"CUDA_VISIBLE_DEVICES={taken}" in run_launch_sh(CASES["single_cuda"], tmp_path, **visible)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "X=1;rm -rf /;Y", "HF_TOKEN"])
def test_launch_sh_is_not_written_with_a_refused_variable(name: str) -> None:
    plan = dataclasses.replace(CASES["single_cpu"], environment={name: "1"})
    with pytest.raises(Refusal, match="is refused"):
        launch_sh(plan)


def test_a_name_with_a_line_break_cannot_leave_its_comment() -> None:
    plan = dataclasses.replace(CASES["single_cpu"], name="a\nrm -rf /")
    assert not [line for line in launch_sh(plan).splitlines() if line.startswith("rm")]
    assert yaml.safe_load(accelerate_yaml(plan))["num_processes"] == 1
