#!/usr/bin/env bash
# The wheel, built from the sources that would be published, where somebody would install it: with the base dependencies
# only, beside the training stack, and in a folder of its own; and the training stack without grpo-recipes.
# Usage: run.sh PYTHON [DIST], where PYTHON is the interpreter of an environment that has the stack, and DIST has the
# wheel and the sources that `make dist` built; without it they are built here.
set -euo pipefail
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
built=${2:+$(cd "$2" && pwd)}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/environments
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
machine=tested,gpus=1xRTX-4090

say() { printf '%s\n' "environments: $*"; }
fail() { say "FAILED: $*"; exit 1; }
new_environment() { "$python" -m venv "$work/$1"; }
# One retry, for downloads that broke off.
install() {
  local pip=("$work/$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}")
  "${pip[@]}" || { sleep 5; "${pip[@]}"; }
}

# A copy, since a build leaves folders beside what it builds, of which the next one would take what is gone by then.
# tar ends with 1 where another suite wrote something beside it meanwhile.
mkdir "$work/source"
{ tar -C "$root" -c --exclude=__pycache__ --exclude='*.egg-info' --exclude=./build --exclude=./dist --exclude=./runs \
  --exclude='./.venv*' --exclude=./.stacks --exclude=./.git --exclude='./.*_cache' . || [ $? = 1 ]; } |
  tar -C "$work/source" -x
new_environment tools
install tools -r "$root/constraints/dist.txt"
# Another folder, later, where other permissions are the default.
(umask 077 && mkdir -p "$work/a folder é" && cp -r "$work/source" "$work/a folder é/")
build() {
  SOURCE_DATE_EPOCH=1790000000 "$work/tools/bin/python" "$root/.ci/dist.py" "$1" "$2" > "$work/build.log" 2>&1 ||
    { cat "$work/build.log"; fail "dist.py"; }
}
build "$work/source" "$work/dist"
(umask 077 && build "$work/a folder é/source" "$work/again")
[ "$(cd "$work/dist" && sha256sum -- *)" = "$(cd "$work/again" && sha256sum -- *)" ] || fail "two builds differ"
say "two builds in different folders are equal: $(cd "$work/dist" && sha256sum -- * | cut -c 1-16,65- | xargs)"
[ -z "$built" ] || { rm "$work"/dist/* && cp "$built"/* "$work/dist/"; }
"$work/tools/bin/twine" check --strict "$work"/dist/* || fail "twine check"
wheel=$(echo "$work"/dist/*.whl)
"$python" "$here/wheel_is_complete.py" "$root" "$wheel" || fail "wheel_is_complete.py"

new_environment base
install base -c "$root/constraints/cpu.txt" "$wheel"
base=$work/base/bin
"$base/python" -c 'import torch' 2>/dev/null && fail "the base environment has torch"
"$base/python" -m pip check || fail "pip check"

mkdir "$work/newcomer" && cd "$work/newcomer"
"$base/python" "$here/newcomer.py" "$root" || fail "newcomer.py"

cd "$work"
"$base/grpo-run" init qwen2_lora
"$base/grpo-run" qwen2_lora.yaml --validate-only --target "$machine"
plan=$("$base/grpo-run" plan qwen2_lora.yaml --target "$machine")
[[ $plan == *"GRPOConfig.loss_type"* ]] || fail "plan"
"$base/grpo-run" qwen2_lora.yaml --dry-run --out dry --target "$machine"
for file in recipe.yaml plan.json accelerate.yaml launch.sh worker/train.py; do test -s "dry/$file" || fail "$file"; done
say "base dependencies only: qwen2_lora validated, planned and rendered"

answer=$("$base/grpo-run" validate qwen2_lora.yaml 2>&1) || fail "validate without the stack: $answer"
[[ $answer == *"lacks torch, "*": judged as for --target tested"* && $answer != *STK010* ]] || fail "validate: $answer"
code=0; answer=$("$base/grpo-run" qwen2_lora.yaml 2>&1) || code=$?
[[ $code == 2 && $answer == *"trl, "*"are not installed"* ]] || fail "a run without the stack: exit $code"
say "base dependencies only: validate judges as for the tested stack, and a run is refused, trl is not installed"

# The line that doctor prints is resolved by pip where it is printed: installed from a wheel, an index and a checkout.
resolve_fix() {
  local fix; fix=$("$work/$1/bin/grpo-run" doctor | sed -n 's/^  = fix: //p' | head -n 1)
  [[ $fix == *"$2"* ]] || fail "$1: doctor prints $fix"
  bash -c "$fix --dry-run --quiet -c '$root/constraints/cpu.txt' ${*:3}" || fail "$1: $fix"
  say "$1: pip resolves ${fix//$work\//}"
}
new_environment index
install index -c "$root/constraints/cpu.txt" --find-links "$work/dist" "grpo-recipes==$(cut -d- -f2 <<< "${wheel##*/}")"
new_environment checkout
install checkout -c "$root/constraints/cpu.txt" "$work/source"
resolve_fix base "$wheel[train]"
resolve_fix index "'grpo-recipes[train]'" --find-links "$work/dist"
resolve_fix checkout "$work/source[train]"

printf '\ntrl: {weight_decy: 0.01}\n' >> qwen2_lora.yaml
"$base/grpo-run" validate qwen2_lora.yaml --fix --write --target "$machine" || fail "validate --fix --write"
"$base/grpo-run" explain BAT001 | grep -q "Proved by" || fail "explain with its examples"
say "base dependencies only: a shipped recipe written out, broken and mended"

install base -c "$root/constraints/cpu.txt" jsonschema pytest pytest-xdist
(cd "$work/source" && "$base/python" -m pytest -n auto --dist loadfile -p no:cacheprovider tests/rules) || fail "tests/rules"
say "base dependencies only: the rules find in the stack of --target what their cases say"

# pip --target moves a wheel's data to where no record of it says.
install base --no-deps --target "$work/folder" "$wheel"
listed=$(PYTHONPATH=$work/folder "$python" -P -m grpo_recipes.cli.main init --list)
[[ $listed == *quickstart* && $listed == *qwen2_lora* ]] || fail "init --list in a folder of its own"
say "in a folder of its own: the shipped recipes are found"

mkdir "$work/hand-written" && cd "$work/hand-written"
"$base/grpo-run" init quickstart
"$base/grpo-run" quickstart.yaml --dry-run --out "$work/hand" --target tested,gpus=0 \
  --set training.max_steps=10 --set 'launch.environment={OMP_NUM_THREADS: "1"}'
cd "$work"

# The stack without grpo-recipes: a new environment that sees the other's packages, but not its editable installs.
new_environment stack
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

# The wheel beside the stack, as `pip install 'grpo-recipes[train]'` leaves it.
install stack --no-deps "$wheel"
mkdir "$work/first-run" && cd "$work/first-run"
"$work/stack/bin/grpo-run" init quickstart
"$work/stack/bin/grpo-run" preflight quickstart.yaml > preflight.log 2>&1 || { cat preflight.log; fail "preflight"; }
"$work/stack/bin/grpo-run" quickstart.yaml --out run --set training.max_steps=2 --set evaluation.max_rows=20 \
  > run.log 2>&1 || { cat run.log; fail "the first run"; }
grep -q "completed at step 2 of 2" run.log || fail "the first run did not come to its end"
"$work/stack/bin/grpo-run" run --verify || fail "--verify of the first run"
say "the wheel beside the stack: quickstart tried by preflight, trained for two steps and verified"
