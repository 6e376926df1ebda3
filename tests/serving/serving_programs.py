"""Run folders whose vLLM server and trainer are small programs, to see how any two are started, watched and ended."""

import dataclasses
import json
import shutil
import sys
import textwrap
from pathlib import Path

from support.archives import add_bytecode, read_module, replace_module
from support.plans import small_plan

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.plan_sections import Vllm, VllmServer
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.worker import train

# Answers as vLLM does once it is up; --after seconds. What it starts itself stands for vLLM's engine.
SERVER = """
import argparse, http.server, json, os, subprocess, sys, time
options = argparse.ArgumentParser()
for name in ("--model", "--host", "--port", "--after", "--serves", "--says"):
    options.add_argument(name)
given = options.parse_args()
if given.says: sys.exit(given.says)
engine = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
if os.path.exists("sick"): os.remove("sick")
print("server", os.getpid(), "engine", engine.pid, "GPUs", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
with open("server.pids", "a") as file: file.write(f"{os.getpid()} {engine.pid}" + chr(10))
time.sleep(float(given.after or 0))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        models = {"data": [{"id": given.serves or given.model, "root": given.serves or given.model}]}
        known = {"/health": b"", "/v1/models": json.dumps(models).encode()}
        is_sick = self.path == "/health" and os.path.exists("sick")
        self.send_response(503 if is_sick else 200 if self.path in known else 404)
        self.end_headers()
        self.wfile.write(known.get(self.path, b""))
    def log_message(self, *_): pass
http.server.HTTPServer((given.host, int(given.port)), Answer).serve_forever()
"""
# What trainers of these tests share: a run.json, and how often each was started with what.
TRAINER = """
import json, os, signal, sys, time, urllib.request
sys.path.insert(0, "worker")
from pathlib import Path
from grpo_recipes.worker._shared.record import Record
resume = "--resume" in sys.argv
record = Record(Path("."), 0)
record.start(resumed=resume)
with open("trainers", "a") as file:
    words = {key: os.environ.get(key) for key in ("GRPO_RUN_VLLM_URL", "CUDA_VISIBLE_DEVICES", "NO_PROXY")}
    file.write(json.dumps({"resume": resume, "pid": os.getpid(), **words}) + chr(10))
url = os.environ["GRPO_RUN_VLLM_URL"]
starts = len(open("trainers").readlines())
def end(status, code):
    record.end(status, code)
    sys.exit(code)
"""
# Stands for the training in the worker of a run whose server has a machine of its own.
TRAINING = """
import json, os, signal, time, urllib.request
def run_training(plan, folder, record, request, checkpoint, phases):
    words = ("GRPO_RUN_VLLM_URL", "VLLM_HOST_IP", "NO_PROXY")
    (folder / "told").write_text(json.dumps({key: os.environ.get(key) for key in words}))
    def ask(): urllib.request.urlopen(os.environ["GRPO_RUN_VLLM_URL"] + "/health").read()
    ask()
"""
IMPORTS = "grpo_recipes/worker/_shared/imports.py"
TRAIN_SH = """#!/usr/bin/env bash
cd "$(dirname "${BASH_SOURCE[0]}")"
exec "${PYTHON:-python}" -u worker/train.py "$@"
"""


def plan_with_server(world: World, server: VllmServer, **changes: object) -> Plan:
    """A plan that trains on this world beside a server."""
    return small_plan(world, **{"vllm": Vllm("server", "float32", server=server), **changes})


def planned_server(*command: str, **changes: object) -> VllmServer:
    """A server of small patience."""
    return VllmServer(command, {}, (), **{"port": None, "startup_timeout": 5, "max_restarts": 2, **changes})  # type: ignore[arg-type]


def served_run(folder: Path, trainer: str, *words: str, world: World | None = None, **server: object) -> Path:
    """A run folder whose trainer is a program after TRAINER; words are more options of SERVER."""
    # Programs of a run are started in a folder of their own; these leave what they say in the run folder.
    (folder.parent / "server.py").write_text(f"import os\nos.chdir({str(folder)!r})\n{SERVER}")
    program = (
        "-I",
        "-S",
        str(folder.parent / "server.py"),
        "--model",
        "{model}",
        "--host",
        "{host}",
        "--port",
        "{port}",
    )
    planned = dataclasses.replace(planned_server(*program, *words), **server)  # type: ignore[arg-type]
    write_run_folder(plan_with_server(world or World("local", 1, 1, "cpu", "single"), planned), str(folder), "")
    add_bytecode(folder)
    (folder / "worker" / "train.py").write_text(TRAINER + trainer)
    (folder / "train.sh").write_text(TRAIN_SH)
    return folder


def run_on_two_machines(folder: Path, training: str, *words: str, **server: object) -> Path:
    """A run folder whose server has a machine of its own; training: the rest of TRAINING, words: options of SERVER."""
    served_run(folder, "", *words, **{"startup_timeout": 60, "own_node": True, **server})  # type: ignore[arg-type]
    shutil.copyfile(Path(train.__file__), folder / "worker" / "train.py")
    replace_module(folder, "grpo_recipes/worker/training.py", TRAINING + textwrap.indent(training, "    "))
    replace_module(folder, IMPORTS, read_module(folder, IMPORTS) + "def quiet_libraries(): pass")  # which imports them
    return folder


def lines(path: Path) -> list[dict[str, object]]:
    """The JSON lines of a file, none when it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def server_pids(folder: Path) -> list[tuple[int, int]]:
    """Process ids of each server that was started, and of its engine."""
    path = folder / "server.pids"
    written = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in written]


PYTHON = sys.executable
