"""What may lie in a run folder of another team, and what may be said in its plan.json, each to do harm."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harms import Place

# Modules that something of a start imports: Python itself, its library, the stack, and files beside the package.
MODULES = (
    *("site", "sitecustomize", "usercustomize", "encodings", "codecs", "io", "abc", "os", "stat", "types", "warnings"),
    *("socket", "signal", "select", "selectors", "subprocess", "json", "re", "enum", "pathlib", "argparse", "ctypes"),
    *("fcntl", "struct", "dataclasses", "functools", "typing", "threading", "queue", "random", "tempfile", "shutil"),
    *("traceback", "linecache", "tokenize", "importlib", "runpy", "readline", "_bootlocale", "pickle", "hashlib"),
    *("accelerate", "torch", "trl", "transformers", "numpy", "datasets", "peft", "deepspeed", "yaml", "requests"),
    *("wandb", "triton", "numba", "apex", "grpo_recipes", "r", "h", "worker", "train", "part"),
)
FOLDERS = ("", "worker", "worker/user", "reports", "worker/user/..", "..", "../..")
PROGRAMS = ("python", "date", "mktemp", "mkdir", "dirname", "sed", "env", "bash", "git", "find")


def planted(place: Place, folder: Path) -> None:
    """Modules of all these names, also as packages and with .pth files, and programs, in every folder."""
    note = f"open({str(place.canary)!r}, 'a').write(__name__ + ' ' + __file__ + chr(10))\n"
    for each in FOLDERS:
        where = folder / each
        where.mkdir(exist_ok=True)
        for name in MODULES:
            if not (where / f"{name}.py").exists() and not (where / name).exists():
                (where / f"{name}.py").write_text(note)
        for name in ("evil.pth", "distutils-precedence.pth"):
            (where / name).write_text(f"import os; os.system('touch {place.canary}')\n")
        for package in ("multiprocessing", "concurrent", "email"):
            (where / package).mkdir(exist_ok=True)
            (where / package / "__init__.py").write_text(note)
        for program in PROGRAMS:
            if not (where / program).exists():
                (where / program).write_text(f"#!/bin/sh\necho {program} >> {shlex.quote(str(place.canary))}\nexit 9\n")
                (where / program).chmod(0o755)


# What programs look for in the folder that they are started in, and in those above it.
SETTINGS = (
    *("matplotlibrc", "wandb/settings", ".deepspeed_env", ".comet.config", ".env", ".pdbrc", ".coveragerc", ".netrc"),
    *("setup.cfg", "tox.ini", "pytest.ini", "pyproject.toml", "conftest.py", "default_config.yaml", "accelerate.yaml"),
    *("Qwen/Qwen2-0.5B/config.json", "openai/gsm8k/data.py", "mlruns/meta.yaml", ".neptune/config", "clearml.conf"),
    *("hydra/config.yaml", ".condarc", "pip.conf", ".python-version", ".ipython/profile_default/startup/a.py"),
    *("ds_config.json", "libcudart.so", "libtinfo.so.6", "outlines_cache/a", ".vllm/config.json", "kernels.lock"),
)
HOSTILE = "HOSTILE_$(touch CANARY)\n#SBATCH --wrap=CANARY\n'\"`touch CANARY`;touch CANARY\n"
SERVER = {
    "command": ["-c", HOSTILE],
    "environment": {},
    "gpus": [],
    "port": None,
    "startup_timeout": 9,
    "max_restarts": 0,
}
VLLM = {"mode": "server", "dtype": "float32", "engine": {}, "server": {**SERVER, "own_node": False}}
SLURM: dict[str, Any] = {
    **dict.fromkeys(("partition", "account", "qos", "time", "gpu_type", "cpus_per_task")),
    "gpus_per_node": 0,
    "signal_seconds": 60,
    "max_requeues": 0,
    "options": {},
}
CHANGES: dict[str, tuple[str, object]] = {
    "a vLLM server": ("vllm", VLLM),
    "a vLLM server of another machine": ("vllm", {**VLLM, "server": {**SERVER, "own_node": True}}),
    "an option of sbatch": ("job", {**SLURM, "options": {HOSTILE: True}}),
    "the value of an option": ("job", {**SLURM, "options": {"comment": HOSTILE}}),
    "a partition": ("job", {**SLURM, "partition": HOSTILE}),
    "an account": ("job", {**SLURM, "account": HOSTILE}),
    "a time": ("job", {**SLURM, "time": HOSTILE}),
    "the engine": ("world.engine", "slurm"),
    "the address": ("world.main_process_ip", HOSTILE),
    "the strategy": ("world.strategy", "zero3"),
    "the processes": ("world.num_processes", 4),
    "the machines": ("world.num_nodes", 1),
    "the port": ("world.main_process_port", 29501),
    "an environment variable": ("environment.OMP_NUM_THREADS", HOSTILE),
    "a variable that loads code": ("environment.LD_PRELOAD", "./x.so"),
    "a variable with a name of its own": ("environment", {HOSTILE: "1"}),
    "the name": ("name", HOSTILE),
    "the tokenizer's template": ("tokenizer.chat_template_path", "/etc/hostname"),
    "tokens": ("tokenizer.add_tokens", [HOSTILE]),
    "the model": ("model.path", "/etc"),
    "the model's source": ("model.source", "hub"),
    "the model's commit": ("model.commit", "--upload=HOSTILE_"),
    "the model's revision": ("model.revision", HOSTILE),
    "the data": ("data.path", "/etc/hostname"),
    "the prompt": ("data.prompt", HOSTILE),
    "a column": ("data.columns", {"solution": HOSTILE}),
    "the rows": ("data.max_rows", 3),
    "a reward's place": ("rewards.0.path", "/etc/hostname"),
    "a reward's file": ("rewards.0.target", "../../../x.py:f"),
    "a reward's digest": ("rewards.0.sha256", "0" * 64),
    "a reward's kind": ("rewards.0.kind", "shipped"),
    "a reward's imports": ("rewards.0.imports", {"../../x.py": "0" * 64}),
    "a reward's weight": ("rewards.0.weight", 2.0),
    "an argument of the trainer": ("arguments.GRPOConfig.learning_rate", 1.0),
    "an argument that reports": ("arguments.GRPOConfig.report_to", ["wandb"]),
    "an argument that pushes": ("arguments.GRPOConfig.push_to_hub", True),
    "remote code": ("arguments.model_init_kwargs.trust_remote_code", True),
    "a kernel": ("arguments.model_init_kwargs.attn_implementation", "evil/kernel"),
    "DeepSpeed": ("deepspeed", {"zero_stage": 3, "extra": {"wandb": {"enabled": True}}}),
    "a shim": ("shims", {"../../evil": True}),
    "what is expected": ("expect.trainable", "lora"),
    "a guard": ("guards.not_finite", "off"),
    "the trial": ("smoke", True),
    "rules that are accepted": ("accepted", ["TRU001"]),
    "drift that is accepted": ("accept_drift", True),
    "the folder": ("folder", "/"),
    "the recipe's file": ("recipe_file", HOSTILE),
    "a setting": ("settings.0.value", HOSTILE),
    "the stack": ("stack.trl", HOSTILE),
    "the format": ("plan", 2),
    "the recipe's seed": ("recipe.seed", 7),
    "the recipe's name": ("recipe.name", HOSTILE),
    "the recipe's environment": ("recipe.launch", {"num_nodes": 2, "environment": {"LD_PRELOAD": "./x.so"}}),
    "the recipe's job": ("recipe.slurm", {"options": {"wrap": HOSTILE}}),
    "the recipe's parent": ("recipe.extends", "/etc/passwd"),
}
# Those that the folder is gone on with; all others end with 2. The value is not in what is started in either case.
GONE_ON_WITH = frozenset(
    (
        *("a vLLM server", "a vLLM server of another machine", "an option of sbatch", "the value of an option"),
        *("a partition", "an account", "a time", "the tokenizer's template", "tokens", "what is expected", "a guard"),
        *("drift that is accepted", "the folder", "the recipe's file", "the model's commit", "the name"),
        *("the recipe's job", "the recipe's parent"),
    )
)
# A path that was written down and is only compared, and a section of a recipe that no engine here reads.
KEPT = ("the recipe's file", "the recipe's job")


PLANTED: dict[str, Callable[[Path], object]] = {
    "launch.sh": lambda folder: (folder / "launch.sh").write_text("touch CANARY"),
    "train.sh": lambda folder: (folder / "train.sh").write_text("touch CANARY"),
    "job.sbatch": lambda folder: (folder / "job.sbatch").write_text("touch CANARY"),
    "accelerate.yaml": lambda folder: (folder / "accelerate.yaml").write_text("main_training_function: evil"),
    "deepspeed.json": lambda folder: (folder / "deepspeed.json").write_text("{}"),
    "worker/train.py": lambda folder: (folder / "worker/train.py").write_text("evil"),
    "worker/meet.py": lambda folder: (folder / "worker/meet.py").write_text("evil"),
    "worker/socket.py": lambda folder: (folder / "worker/socket.py").write_text("evil"),
    "worker/grpo_recipes.zip": lambda folder: (folder / "worker/grpo_recipes.zip").write_text("x"),
    "worker/grpo_recipes/__init__.py": lambda folder: (
        (folder / "worker/grpo_recipes").mkdir(),
        (folder / "worker/grpo_recipes/__init__.py").write_text("evil"),
    ),
}
