#!/usr/bin/env bash
# Trains "addition": 8 processes on cuda, strategy fsdp2. Written by grpo-run from plan.json.
# By hand:  bash launch.sh [--resume]        with another Python:  PYTHON=/path/to/python bash launch.sh
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

# Seconds that the other processes have to save after one was told to stop; torch's own 30 are short for a big model.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-120}"

# A free port, so that two runs on one machine do not meet.
port=$("${PYTHON:-python}" -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')

# The same as `accelerate launch`, with the right Python.
exec "${PYTHON:-python}" -m accelerate.commands.launch --config_file accelerate.yaml --main_process_port "$port" \
  worker/train.py "$@"
