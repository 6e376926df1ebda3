"""Trains LoRA on a base model in four bits."""

from gpu_kit.bench import Bench, LeftOut
from gpu_kit.machine import installed

FOUR_BITS = (
    "quantization={load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_use_double_quant: true,"
    " bnb_4bit_compute_dtype: bfloat16}"
)


def run(bench: Bench) -> None:
    if not installed("bitsandbytes"):
        raise LeftOut("bitsandbytes is not installed")
    bench.completed(bench.train(bench.recipe("qlora", "1.5B", tokens=128), FOUR_BITS))
