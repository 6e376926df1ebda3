#!/usr/bin/env bash
# Trains "addition": 16 processes on cuda, strategy zero3. Written by grpo-run from plan.json.
# 2 machines train together, 8 processes on each. On each of them, in this folder, which all of them share:
#   bash launch.sh --node N --address A --port P [--resume]
# N is 0 on the first machine, 1 on the next; A is the name or address of the first one as the others reach it, P a free
# port there.
# With a different Python:  PYTHON=/path/to/python bash launch.sh ...
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

usage() {
  echo "launch.sh: $1" >&2
  echo "usage: bash launch.sh --node N --address A --port P [--resume]" >&2
  echo "  N  this machine's number, 0 to 1" >&2
  echo "  A  name or address of machine 0, as the others reach it" >&2
  echo "  P  a free port of machine 0, the same number on all" >&2
  exit 2
}
node='' address='' port='' resume=''
while [ $# -gt 0 ]; do
  case $1 in
    --node | --address | --port)
      [ -n "${2-}" ] || usage "$1 has no value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --resume) resume=$1 && shift ;;
    *) usage "$1 is no argument of it" ;;
  esac
done
for needed in node address port; do
  [ -n "${!needed}" ] || usage "--$needed is missing"
done
[[ $node =~ ^(0|[1-9][0-9]{0,5})$ ]] && [ "$node" -lt 2 ] || usage "--node $node is not one of its 2 machines"
[[ $port =~ ^[1-9][0-9]{0,4}$ ]] && [ "$port" -lt 65536 ] || usage "--port $port is no port"
set -- ${resume:+"$resume"}

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

# A cluster sends SIGUSR1 to ask for a save. torch's launcher would die of it, so it is ignored here and in all child
# processes; the trainer installs its own handler.
trap "" USR1

# This run's world is in accelerate.yaml; the variables of an outer job must not leak in.
unset RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GRPO_RUN_SANDBOX "${!ACCELERATE_@}" "${!FSDP_@}"

# Environment of the plan.
export OMP_NUM_THREADS=1
export NCCL_DEBUG='it'"'"'s $HOME'

# Seconds for the other processes to save after one is asked to stop; torch's 30 are too few for a big model.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-120}"

# DeepSpeed compiles extensions. Two machines that do so in one home folder break each other's, or wait for ever.
export TORCH_EXTENSIONS_DIR="${TORCH_EXTENSIONS_DIR:-${XDG_CACHE_HOME:-${HOME:-$(mktemp -d)}/.cache}/torch_extensions}/$HOSTNAME-$node"

# First the machines check that each is there once, with the same plan, stack and folder; otherwise all of them end and
# report why. Then each becomes `accelerate launch`.
exec "$PYTHON" -P -u "$folder/worker/meet.py" "$node" 2 "$address" "$port" "$@"
