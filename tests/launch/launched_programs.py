"""Run folders whose trainer is a small program, to see how any trainer is started, watched and ended."""

LAUNCH_SH = """#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec "$PYTHON" -I -S %s "$@"
"""
# What trainers of these tests share: notes of who they are and which signals they got, and a run.json.
PRELUDE = """
import json, os, signal, subprocess, sys, time
def note(name, text=""):
    own = f"{name}.{os.getpid()}"
    with open(own, "w") as file: file.write(str(text))
    os.replace(own, name)
def event(**keys):
    with open("metrics.jsonl", "a") as file: file.write(json.dumps(keys) + chr(10))
def record(**keys):
    note("run.json", json.dumps({"run": 1, "message": None, **keys}))
"""
# As torchrun does: each rank in a session of its own, every failure becomes 1.
LAUNCHER = """
import os, signal, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-I", "-S", "-u", "worker/train.py"], start_new_session=True,
         env={**os.environ, "RANK": str(rank)}) for rank in range(2)]
print(f"launcher {os.getpid()} signals none", flush=True)
sys.exit(1 if any([rank.wait() != 0 for rank in ranks]) else 0)
"""
