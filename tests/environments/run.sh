#!/usr/bin/env bash
# Two environments beside the developer's: one with the base dependencies only, one with the training stack only.
# Usage: run.sh PYTHON, where PYTHON is the interpreter of an environment that has the stack.
set -euo pipefail
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=trl==1.16.0,transformers==5.23.0,peft==0.21.2,torch==2.13.0,accelerate==1.15.0,datasets==5.2.0,math-verify==0.9.0

say() { printf '%s\n' "environments: $*"; }
fail() { say "FAILED: $*"; exit 1; }

"$python" -m venv "$work/base"
base=$work/base/bin
"$base/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints/cpu.txt" "$root" ||
  "$base/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints/cpu.txt" "$root"
rm -rf "$root/build"
"$base/python" -c 'import torch' 2>/dev/null && fail "the base environment has torch"

cd "$work"
recipe=$root/recipes/qwen2_lora.yaml
"$base/grpo-run" "$recipe" --validate-only --target "$target,gpus=1xRTX-4090"
plan=$("$base/grpo-run" plan "$recipe" --target "$target,gpus=1xRTX-4090")
[[ $plan == *"GRPOConfig.loss_type"* ]] || fail "plan"
"$base/grpo-run" "$recipe" --dry-run --out dry --target "$target,gpus=1xRTX-4090"
for file in recipe.yaml plan.json accelerate.yaml launch.sh worker/train.py; do test -s "dry/$file" || fail "$file"; done
say "base dependencies only: qwen2_lora validated, planned and rendered"

[[ $("$base/grpo-run" init --list) == *qwen2_lora* ]] || fail "init --list where grpo-recipes is installed"
"$base/grpo-run" init qwen2_lora
printf '\ntrl: {weight_decy: 0.01}\n' >> qwen2_lora.yaml
"$base/grpo-run" validate qwen2_lora.yaml --fix --write --target "$target,gpus=1xRTX-4090" || fail "validate --fix --write"
printf 'extends: grpo-recipes:qwen2_lora\nname: mine\n' > mine.yaml
mine=$("$base/grpo-run" plan mine.yaml --target "$target,gpus=1xRTX-4090")
[[ $mine == *"grpo-recipes:qwen2_lora:"* ]] || fail "extends of a shipped recipe where grpo-recipes is installed"
"$base/grpo-run" explain BAT001 | grep -q "Proved by" || fail "explain with its examples"
say "base dependencies only: a shipped recipe written out, broken and mended"

code=0; answer=$("$base/grpo-run" "$recipe" 2>&1) || code=$?
[[ $code == 2 && $answer == *"trl, "*"are not installed"* ]] || fail "a run without the stack: exit $code"
say "base dependencies only: a run is refused, trl is not installed"

"$base/grpo-run" "$root/recipes/quickstart.yaml" --dry-run --out hand --target "$target,gpus=0" \
  --set training.max_steps=10 --set 'launch.environment={OMP_NUM_THREADS: "1"}'

# The stack without grpo-recipes: a new environment that sees the other's packages, but not its editable installs.
"$python" -m venv "$work/stack"
stack=$work/stack/bin/python
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
  "$("$stack" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/stack.pth"
"$stack" -c 'import grpo_recipes' 2>/dev/null && fail "the stack environment has grpo_recipes"
"$stack" -c 'import trl'
PYTHON=$stack bash hand/launch.sh > hand/by_hand.log 2>&1 || { cat hand/by_hand.log; fail "launch.sh by hand"; }
"$stack" - <<'PYTHON' || fail "run.json"
import json
record = json.load(open("hand/run.json"))
assert (record["status"], record["step"]) == ("completed", 10), record
assert record["evaluation"]["after"]["reward"] > record["evaluation"]["before"]["reward"], record["evaluation"]
print("environments: launch.sh by hand where only the stack is installed:", record["status"], "at step", record["step"])
PYTHON
