"""The rendered files as accelerate, DeepSpeed and transformers themselves read them, each in a process."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from render_cases import CASES

from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.launch_script import accelerate_yaml, launch_sh
from grpo_recipes.render.run_folder import deepspeed_json

pytestmark = pytest.mark.stack


def folder_of(plan: Plan, folder: Path, trainer: str) -> Path:
    (folder / "worker").mkdir(parents=True)
    texts = {
        "accelerate.yaml": accelerate_yaml(plan),
        "deepspeed.json": deepspeed_json(plan),
        "launch.sh": launch_sh(plan),
        "worker/train.py": trainer,
    }
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


@pytest.fixture
def run(warm_python: Path) -> Callable[..., Any]:
    """The JSON that a Python program prints last, in a folder."""

    def ask(code: str, folder: Path, *arguments: str) -> Any:
        command = [str(warm_python / "python"), "-Xwarm", "-c", code, *arguments]
        environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return ask


CONFIG = """
import json, sys
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
found = {}
for case in sys.argv[1:]:
    config = load_config_from_file(f"{case}/accelerate.yaml")
    arguments = ["--config_file", f"{case}/accelerate.yaml", "--main_process_port", "4711", "worker/train.py"]
    parsed = _validate_launch_command(launch_command_parser().parse_args(arguments))[0]
    found[case] = {"type": config.distributed_type.value, "processes": config.num_processes,
        "launcher": "deepspeed" if parsed.use_deepspeed and not parsed.cpu else
                    "torchrun" if (parsed.use_fsdp or parsed.multi_gpu) and not parsed.cpu else "simple",
        "port": parsed.main_process_port, "precision": parsed.mixed_precision, "fsdp": parsed.fsdp_version,
        "init": parsed.zero3_init_flag, "file": parsed.deepspeed_config_file}
print(json.dumps(found))
"""


def test_accelerate_reads_its_files_as_they_were_meant(tmp_path: Path, run: Callable[..., Any]) -> None:
    for case, plan in CASES.items():
        folder_of(plan, tmp_path / case, "")
    found = run(CONFIG, tmp_path, *CASES)
    expected = {
        "single_cpu": ("NO", 1, "simple"),
        "single_cuda": ("NO", 1, "simple"),
        "ddp_cpu_2": ("MULTI_GPU", 2, "torchrun"),
        "ddp_cuda_8": ("MULTI_GPU", 8, "torchrun"),
        "zero2_cpu_2": ("DEEPSPEED", 2, "deepspeed"),
        "zero2_autocast_cuda_8": ("DEEPSPEED", 8, "deepspeed"),
        "zero3_offload_cuda_8": ("DEEPSPEED", 8, "deepspeed"),
        "fsdp2_cuda_8": ("FSDP", 8, "torchrun"),
        "server_cpu": ("NO", 1, "simple"),
        "server_cuda_1_of_2": ("NO", 1, "simple"),
        "server_cuda_1_of_4": ("MULTI_GPU", 3, "torchrun"),
        "nodes_2_ddp_cuda_8": ("MULTI_GPU", 16, "torchrun"),
        "nodes_2_zero3_cuda_8": ("DEEPSPEED", 16, "deepspeed"),
        "nodes_2_ddp_cpu": ("MULTI_GPU", 2, "torchrun"),
        "nodes_2_zero2_cpu": ("DEEPSPEED", 2, "deepspeed"),
        "nodes_2_and_server_node": ("MULTI_GPU", 16, "torchrun"),
        "node_and_server_node": ("MULTI_GPU", 8, "torchrun"),
        "slurm_nodes_2_cpu": ("MULTI_GPU", 2, "torchrun"),
        "slurm_nodes_2_cuda_8": ("MULTI_GPU", 16, "torchrun"),
        "slurm_node_1_cuda_1": ("NO", 1, "simple"),
        "slurm_nodes_2_and_server_node": ("MULTI_GPU", 16, "torchrun"),
        "slurm_nodes_2_cuda_8_pyxis": ("MULTI_GPU", 16, "torchrun"),
        "slurm_server_node_apptainer": ("NO", 1, "simple"),
    }
    assert {case: (each["type"], each["processes"], each["launcher"]) for case, each in found.items()} == expected
    assert {found[case]["port"] for case in CASES if not case.startswith("single")} == {4711}
    assert (found["ddp_cuda_8"]["precision"], found["ddp_cpu_2"]["precision"]) == ("bf16", "no")
    assert found["fsdp2_cuda_8"]["fsdp"] == 2
    assert (found["zero2_cpu_2"]["init"], found["zero3_offload_cuda_8"]["init"]) == (False, True)
    assert found["zero2_cpu_2"]["file"] == "deepspeed.json"


MACHINE = """
import json, os, sys
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
found = {}
for case in sys.argv[1:]:
    os.chdir(case)
    words = "--config_file accelerate.yaml --machine_rank 1 --main_process_ip 10.0.0.7 --main_process_port 29500 x.py"
    parsed = _validate_launch_command(launch_command_parser().parse_args(words.split()))[0]
    command = None
    if parsed.use_deepspeed:
        parsed.deepspeed_fields_from_accelerate_config = ""
        command = prepare_deepspeed_cmd_env(parsed)[0]
    else:
        prepare_multi_gpu_env(parsed)
    found[case] = [command, parsed.nnodes, parsed.nproc_per_node, parsed.node_rank, parsed.rdzv_endpoint,
        parsed.rdzv_backend]
    os.chdir("..")
print(json.dumps(found))
"""


def test_each_of_several_machines_starts_its_own_processes(tmp_path: Path, run: Callable[..., Any]) -> None:
    cases = {case: plan for case, plan in CASES.items() if plan.world.num_nodes > 1}
    for case, plan in cases.items():
        folder_of(plan, tmp_path / case, "")
    found = run(MACHINE, tmp_path, *cases)
    each = {case: str(plan.world.num_processes // 2) for case, plan in cases.items()}
    # No command: DeepSpeed's own launcher, which logs in to other machines, is not asked.
    expected = {case: [None, "2", each[case], 1, "10.0.0.7:29500", "static"] for case in cases}
    assert found == expected


FSDP = """
import json
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
import os
parsed = _validate_launch_command(
    launch_command_parser().parse_args(["--config_file", "accelerate.yaml", "worker/train.py"]))[0]
os.environ.update(prepare_multi_gpu_env(parsed))
from accelerate.utils import FullyShardedDataParallelPlugin
plugin = FullyShardedDataParallelPlugin()
print(json.dumps({"version": plugin.fsdp_version, "reshard": plugin.reshard_after_forward,
    "wrap": plugin.auto_wrap_policy.__name__, "state": str(plugin.state_dict_type)}))
"""


def test_accelerate_makes_an_fsdp2_plugin_of_the_file(tmp_path: Path, run: Callable[..., Any]) -> None:
    folder = folder_of(CASES["fsdp2_cuda_8"], tmp_path / "run", "")
    found = run(FSDP, folder)
    assert found == {
        "version": 2,
        "reshard": True,
        "wrap": "transformer_auto_wrap_policy",
        "state": "StateDictType.FULL_STATE_DICT",
    }


DEEPSPEED = """
import json, sys
from types import SimpleNamespace
from deepspeed.runtime.config import DeepSpeedConfig
from transformers import TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig
arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=3,
    max_grad_norm=0.5, bf16=True, use_cpu=True)
found = {}
for case in sys.argv[1:]:
    config = HfTrainerDeepSpeedConfig(f"{case}/deepspeed.json")
    config.trainer_config_process(arguments)
    config.trainer_config_finalize(arguments, SimpleNamespace(config=SimpleNamespace(hidden_size=64)), 10)
    real = DeepSpeedConfig(config.config)
    zero = real.zero_config
    found[case] = {"stage": int(zero.stage), "accumulation": real.gradient_accumulation_steps,
        "micro": real.train_micro_batch_size_per_gpu, "clip": real.gradient_clipping,
        "bf16": real.bfloat16_config.enabled, "overlap": zero.overlap_comm,
        "autocast": real.torch_autocast_enabled and str(real.torch_autocast_dtype),
        "gather": zero.gather_16bit_weights_on_model_save,
        "offload": [each and each.device for each in (zero.offload_optimizer, zero.offload_param)]}
print(json.dumps(found))
"""


def test_deepspeed_takes_the_trainers_values_for_each_auto(tmp_path: Path, run: Callable[..., Any]) -> None:
    cases = ["zero2_cpu_2", "zero2_autocast_cuda_8", "zero3_offload_cuda_8"]
    for case in cases:
        folder_of(CASES[case], tmp_path / case, "")
    found = run(DEEPSPEED, tmp_path, *cases)
    shared = {"accumulation": 3, "micro": 4, "clip": 0.5}
    for values in found.values():
        assert shared.items() <= values.items()
    precision = {case: (found[case]["bf16"], found[case]["autocast"]) for case in cases}
    assert precision["zero2_autocast_cuda_8"] == (False, "torch.bfloat16")
    assert precision["zero2_cpu_2"] == precision["zero3_offload_cuda_8"] == (True, False)
    assert (found["zero2_cpu_2"]["stage"], found["zero2_cpu_2"]["offload"]) == (2, [None, None])
    zero3 = found["zero3_offload_cuda_8"]
    assert (zero3["stage"], zero3["offload"], zero3["gather"], zero3["overlap"]) == (
        3,
        ["cpu", "cpu"],
        True,
        True,
    )


WORLD = """
import os
import torch
from accelerate import PartialState
state = PartialState(cpu=True)
total = torch.ones(1)
torch.distributed.all_reduce(total)
state.destroy_process_group()
with open(f"{os.path.dirname(__file__)}/rank{state.process_index}", "w") as file:
    environment = os.environ["MASTER_PORT"], os.environ["OMP_NUM_THREADS"]
    file.write(" ".join([str(state.num_processes), str(int(total)), *environment]))
"""


def test_two_runs_of_two_cpu_processes_are_two_worlds_of_two(tmp_path: Path, warm_python: Path) -> None:
    folders = [folder_of(CASES["ddp_cpu_2"], tmp_path / name, WORLD) for name in ("one", "two")]
    environment = {**os.environ, "PYTHON": str(warm_python / "python")}
    started = [subprocess.Popen(["bash", str(folder / "launch.sh")], env=environment) for folder in folders]
    assert [process.wait(timeout=240) for process in started] == [0, 0]
    words = [[(folder / "worker" / f"rank{rank}").read_text().split() for rank in (0, 1)] for folder in folders]
    assert [each[:2] + each[3:] for run_words in words for each in run_words] == [["2", "2", "1"]] * 4
    ports = {run_words[0][2] for run_words in words}
    assert len(ports) == 2
