"""Writes the table of docs/fit-table.md: what a recipe needs of GPUs by model, way of training and machine.

    python benchmarks/fit_table.py [--write]

Some seconds, without torch. Prints the part of the page that is made unless it is to be written.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grpo_recipes.memory.estimate import MemoryEstimate, MemoryNeeds  # noqa: E402
from grpo_recipes.resolve.resolve import Resolution, resolve  # noqa: E402
from grpo_recipes.rules import memory_is_enough  # noqa: E402
from grpo_recipes.rules._shared.memory_needs import memory_needs  # noqa: E402
from grpo_recipes.stack.target import parse_target  # noqa: E402

PAGE = ROOT / "docs" / "fit-table.md"
BEGIN, END = "<!-- made by benchmarks/fit_table.py -->", "<!-- end -->"
RECIPE = """recipe: 1
name: table
model: {model_name_or_path: Qwen/Qwen2.5-7B, dtype: float32}
dataset: {path: openai/gsm8k, name: main, split: train, prompt: "{{ question }}", columns: {solution: "{{ answer }}"}}
rewards: [{name: accuracy, weight: 1.0}]
generation:
  use_vllm: auto
  max_prompt_length: 512
  max_completion_length: 1024
  vllm_gpu_memory_utilization: auto
  vllm_tensor_parallel_size: auto
  vllm_max_model_length: auto
grpo: {num_generations: 8}
training:
  prompts_per_step: 16
  max_steps: 100
  learning_rate: 1e-6
  bf16: true
  gradient_checkpointing: auto
trl: {vllm_enable_sleep_mode: true}
"""
MODELS = (
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-32B",
    "Qwen/Qwen2.5-72B",
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-1b-it",
    "microsoft/phi-4",
    "allenai/OLMo-2-1124-7B",
)
ADAPTED = ("model.dtype=bfloat16", "lora.r=16", "lora.target_modules=all-linear")
FOUR_BITS = ("load_in_4bit=true", "bnb_4bit_quant_type=nf4", "bnb_4bit_compute_dtype=bfloat16")
WAYS = {"full": (), "LoRA": ADAPTED, "QLoRA": (*ADAPTED, *(f"quantization.{one}" for one in FOUR_BITS))}
GPUS = ("RTX4090-24GB", "A6000-48GB", "A100-80GB", "H200-141GB")
COUNTS = {1: (), 8: (), 16: ("launch.num_nodes=2", "launch.gpus_per_node=8")}
GIB = 2**30


def resolved(recipe: str, model: str, way: str, count: int, gpu: str) -> Resolution:
    """The recipe with a model and a way of training, on so many GPUs."""
    stack, _ = parse_target(f"tested,vllm==0.30.0,gpus={min(count, 8)}x{gpu}")
    assert stack is not None, gpu
    return resolve(recipe, stack, (f"model.model_name_or_path={model}", *WAYS[way], *COUNTS[count]))


def cell(resolution: Resolution) -> str:
    """What a GPU holds at most in GiB, the strategy and the micro-batch, or why it cannot run.

    A star is for training without checkpointing.
    """
    assert resolution.context is not None
    needs = memory_needs(resolution.context)
    assert isinstance(needs, MemoryNeeds), needs
    estimate = needs.estimate()
    verdict = estimate.verdict()
    if verdict == "does not fit":
        return f"no: {_needed(estimate)}"
    others = sorted({one.rule for one in resolution.findings if one.severity == "error"} - {memory_is_enough.ID})
    if others:
        return f"refused: {', '.join(others)}"
    star = "" if needs.update.is_checkpointing else "\\*"
    said = f"{_needed(estimate)} {needs.layout.strategy} {needs.update.batch}{star}"
    return said if verdict == "fits" else f"{verdict}: {said}"


def _needed(estimate: MemoryEstimate) -> str:
    peak = estimate.peak()
    assert peak is not None
    return f"{peak.total() / GIB:.1f}"


def made() -> str:
    """The recipe and the table."""
    rows = [f"| model | trained | GPUs | {' | '.join(gpu.rpartition('-')[2] for gpu in GPUS)} |"]
    rows.append("|---" * (3 + len(GPUS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "table.yaml")
        recipe.write_text(RECIPE)
        for model in MODELS:
            for way in WAYS:
                for count in COUNTS:
                    cells = [cell(resolved(str(recipe), model, way, count, gpu)) for gpu in GPUS]
                    rows.append(f"| {model.rpartition('/')[2]} | {way} | {count} | {' | '.join(cells)} |")
    return "\n".join([BEGIN, "", "```yaml", f"{RECIPE}```", "", *rows, "", END])


def page() -> str:
    """The page with the part that is made now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + made() + rest.partition(END)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page instead of printing what is made")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(made())


if __name__ == "__main__":
    main()
