#!/usr/bin/env bash
# Trains "addition" beside a vLLM server of its own. Written by grpo-run from plan.json.
# By hand:  bash launch.sh [--resume]        with another Python:  PYTHON=/path/to/python bash launch.sh
# The server takes GPU 3 of those that this script may see, counted from 0, the trainer the 3 before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# A cluster asks with SIGUSR1 to save. What is ignored here stays ignored in all that is started, where it would be
# deadly to torch's launcher; the trainer installs a handler of its own.
trap "" USR1

# The world of this run is in plan.json; that of an outer job must not leak in.
unset RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GRPO_RUN_VLLM_URL

# Environment of the plan.
export OMP_NUM_THREADS=1
export NCCL_DEBUG='it'"'"'s $HOME'

# Starts the server, then train.sh; its output is in vllm_server.log.
exec "${PYTHON:-python}" -u worker/serve.py "$@"
