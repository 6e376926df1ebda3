"""`python cpu_run.py`: trains a small model with TRL for two steps and says how much more memory the process had.

What is trained comes as JSON on standard input, as for a trace; the bytes go to standard output.
"""

import gc
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

TOKENIZER = Path(__file__).parents[2] / "recipes" / "quickstart" / "model"
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "vocab_size": 512}
STEPS = 2


def resident(name: str) -> int:
    """A line of the kernel's account of this process in bytes: VmRSS is now, VmHWM the most since it was reset."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{name}:"))


def train(asked: dict[str, Any], config: dict[str, Any]) -> None:
    """Two optimizer steps with completions as long as they may be."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    values = {key: value for key, value in config.items() if key != "model_type"}
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(config["model_type"], **values), dtype=getattr(torch, asked["dtype"])
    )
    words = tokenizer("1+1=", add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(words * (asked["prompt"] // len(words)))
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=asked["batch"],
            num_generations=asked["batch"],
            gradient_accumulation_steps=asked["accumulation"],
            max_completion_length=asked["completion"],
            generation_kwargs={"min_new_tokens": asked["completion"]},
            gradient_checkpointing=asked["checkpointing"],
            bf16=asked["autocast"] == "bfloat16",
            optim=asked["optimizer"],
            max_steps=STEPS,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = GRPOTrainer(
            model=model,
            args=arguments,
            reward_funcs=lambda completions, **_: [float(number % 2) for number in range(len(completions))],
            train_dataset=Dataset.from_dict({"prompt": [text] * 16}),
            processing_class=tokenizer,
            peft_config=None if asked["lora"] is None else LoraConfig(lora_alpha=8, **_lora(asked["lora"])),
        )
        trainer.train()


def _lora(lora: dict[str, Any]) -> dict[str, Any]:
    return {"r": lora["r"], "target_modules": lora["targets"], "task_type": "CAUSAL_LM"}


def main() -> None:
    asked = json.load(sys.stdin)
    train({**asked, "batch": 2, "completion": 4}, asked["config"] | TINY)
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    train(asked, asked["config"])
    print(json.dumps({"peak": resident("VmHWM") - before}))


if __name__ == "__main__":
    main()
