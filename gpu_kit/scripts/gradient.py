"""`python gradient.py MODEL FILE KERNEL DTYPE DEVICE [SHIM]`: computes one batch's gradient with the installed TRL.

The batch is the same everywhere: prompts, completions, advantages and sampling log-probabilities. FILE gets the
gradients of some tensors; a line of JSON goes to standard output.
"""

import importlib
import json
import sys
import tempfile

import torch
import transformers
import trl
from datasets import Dataset
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

ROWS, PROMPT, COMPLETION, KNOWN = 8, 24, 40, 52
WATCHED = ("layers.0.self_attn", "layers.0.mlp.down_proj", "layers.1.input_layernorm", "layers.1.mlp", "model.norm")


def batch(device: str) -> dict[str, torch.Tensor]:
    """Returns a batch of completions of different lengths, with prompts padded on the left."""
    draw = torch.Generator().manual_seed(5)
    prompts = torch.randint(0, KNOWN, (ROWS, PROMPT), generator=draw)
    completions = torch.randint(0, KNOWN, (ROWS, COMPLETION), generator=draw)
    prompt_mask, completion_mask = torch.ones_like(prompts), torch.ones_like(completions)
    for row in range(ROWS):
        prompt_mask[row, : row % 4] = 0
        completion_mask[row, COMPLETION - 3 * (row % 5) :] = 0
    advantages = torch.linspace(-1.5, 1.5, ROWS)
    found = {
        "prompt_ids": prompts,
        "prompt_mask": prompt_mask,
        "completion_ids": completions,
        "completion_mask": completion_mask,
        "advantages": advantages,
        "num_items_in_batch": completion_mask.sum(),
    }
    return {name: tensor.to(device) for name, tensor in found.items()}


def main() -> None:
    folder, file, kernel, dtype, device, *shims = sys.argv[1:]
    transformers.set_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), attn_implementation=kernel)
    with tempfile.TemporaryDirectory() as work:
        arguments = GRPOConfig(
            output_dir=work,
            per_device_train_batch_size=ROWS,
            num_generations=ROWS,
            max_completion_length=COMPLETION,
            beta=0.0,
            loss_type="dapo",
            temperature=1.0,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            use_cpu=device == "cpu",
        )
        kind = GRPOTrainer
        if shims:
            kind = importlib.import_module("grpo_recipes.worker.trainer.observed").ObservedTrainer
        trainer = kind(
            model=model,
            args=arguments,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=Dataset.from_dict({"prompt": ["1+1="] * ROWS}),
            processing_class=AutoTokenizer.from_pretrained(folder),
        )
        trainer.current_gradient_accumulation_steps = 1
        for shim in shims:
            importlib.import_module(f"grpo_recipes.worker.shims.{shim}").on_trainer(trainer, True, None)
        trainer.model.train()
        loss = trainer._compute_loss(trainer.model, batch(str(trainer.accelerator.device)))
        loss.backward()
    found = {
        name: value.grad.float().cpu().contiguous()
        for name, value in trainer.model.named_parameters()
        if value.grad is not None and any(word in name for word in WATCHED)
    }
    save_file(found, file)
    print(json.dumps({"trl": trl.__version__, "transformers": transformers.__version__, "loss": loss.item()}))


if __name__ == "__main__":
    main()
