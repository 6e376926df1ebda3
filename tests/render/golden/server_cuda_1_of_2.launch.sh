#!/usr/bin/env bash
# Trains "addition" next to its own vLLM server. Written by grpo-run from plan.json.
# By hand:  bash launch.sh [--resume]        with a different Python:  PYTHON=/path/to/python bash launch.sh
# The server takes GPU 1 of those visible to this script, counted from 0, the trainer the 1 before.
set -euo pipefail

# A relative or empty entry of these paths means the folder that a program is started in. The files of a run folder are
# data, and must never be run because of their names.
keep_absolute() { # NAME SEPARATORS
  local entry kept='' dropped='' IFS=$2
  [ -n "${!1-}" ] || return 0
  [[ :${!1}: != *::* || $1 == LD_PRELOAD ]] || dropped=yes
  set -f
  for entry in ${!1}; do
    if [[ $entry == /* || ($1 == LD_PRELOAD && $entry != */*) ]]; then
      kept+=${kept:+:}$entry
    else
      dropped=yes
    fi
  done
  set +f
  [ -n "$dropped" ] || return 0
  echo "note: $1 has relative entries, which are ignored" >&2
  if [ -n "$kept" ]; then printf -v "$1" %s "$kept"; else unset "$1"; fi
}
for name in PATH BASH_ENV ENV PYTHONPATH PYTHONHOME PYTHONPYCACHEPREFIX PERL5LIB NODE_PATH LD_LIBRARY_PATH LD_AUDIT DYLD_LIBRARY_PATH DYLD_FRAMEWORK_PATH DYLD_INSERT_LIBRARIES GCONV_PATH LOCPATH LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH; do keep_absolute "$name" :; done
keep_absolute LD_PRELOAD ': '
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
PYTHON=${PYTHON:-python}
[[ $PYTHON != */* || $PYTHON == /* ]] || PYTHON=$PWD/$PYTHON
# Keeps Python from searching a program's folder for modules; worker/ finds its own.
export PYTHON PYTHONSAFEPATH="${PYTHONSAFEPATH:-launch}"
# Without docstrings, transformers fails.
unset PYTHONOPTIMIZE

folder=${BASH_SOURCE[0]}
[[ $folder == */* ]] || folder=./$folder
folder=${folder%/*}
[[ $folder == /* ]] || folder=$PWD/$folder
cd -P "$folder/"
folder=$PWD
# Python would run a compiled copy instead of its source file.
find "$folder/worker" -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || :
# Programs read settings from the folder they are started in, and mistake a folder there for a hub model of that name.
# So each start gets a new folder, which keeps what they write, such as wandb/.
work=/
if [ ! -L reports ] && mkdir -p reports 2> /dev/null; then
  work=$(mktemp -d "$folder/reports/$(date +%Y%m%d-%H%M%S)-XXXXXX" 2> /dev/null) || work=/
fi
cd "$work"
# Also keeps git, which such programs ask for the commit, from finding a repository among the run's files.
export GIT_CEILING_DIRECTORIES="${GIT_CEILING_DIRECTORIES:-$folder/reports}"

# A cluster sends SIGUSR1 to ask for a save. It would kill torch's launcher, so it is ignored here and in all child
# processes; the trainer installs its own handler.
trap "" USR1

# This run's world is in plan.json; the variables of an outer job must not leak in.
unset RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GRPO_RUN_VLLM_URL

# Environment of the plan.
export OMP_NUM_THREADS=1
export NCCL_DEBUG='it'"'"'s $HOME'

# Starts the server, then train.sh; its output is in vllm_server.log.
exec "$PYTHON" -P -u "$folder/worker/serve.py" "$@"
