"""The tokens of high entropy, as TRL marks them in one of several processes: prints the rows of this process."""

import json
from types import SimpleNamespace

import torch
from accelerate import Accelerator
from trl import GRPOTrainer

ROWS, TOKENS = 8, 6

if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    entropies = torch.rand(ROWS, TOKENS)
    entropies[0] += 3  # so the halves differ
    mask = torch.tensor([[int(token < TOKENS - row % 5) for token in range(TOKENS)] for row in range(ROWS)])
    size = ROWS // accelerator.num_processes
    own = slice(accelerator.process_index * size, (accelerator.process_index + 1) * size)
    trainer = SimpleNamespace(accelerator=accelerator)
    marked = GRPOTrainer.get_high_entropy_mask(trainer, entropies[own], mask[own], 0.7)
    print(json.dumps(marked.int().tolist()), flush=True)
