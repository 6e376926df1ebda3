"""`python hold_memory.py GIB`: occupies all but GIB of the GPU's memory until its input ends."""

import sys

import torch

free, _ = torch.cuda.mem_get_info()
count = free - int(float(sys.argv[1]) * 2**30)
held = torch.empty(max(0, count), dtype=torch.uint8, device="cuda")
print(f"{held.nbytes / 2**30:.1f} GiB", flush=True)
sys.stdin.read()
