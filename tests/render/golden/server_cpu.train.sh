#!/usr/bin/env bash
# Trains "addition": 1 process on cpu, strategy single. Written by grpo-run from plan.json.
# Started by launch.sh beside the vLLM server, which says in GRPO_RUN_VLLM_URL where it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# A cluster asks with SIGUSR1 to save. torch's launcher would die of it; what is ignored here stays ignored in all that
# is started, and the trainer installs a handler of its own.
trap "" USR1

# The world of this run is in accelerate.yaml; that of an outer job must not leak in.
unset RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT "${!ACCELERATE_@}" "${!FSDP_@}"

# Environment of the plan.
export OMP_NUM_THREADS=1
export NCCL_DEBUG='it'"'"'s $HOME'

exec "${PYTHON:-python}" -u worker/train.py "$@"
