"""What GPUs reach of their datasheets, published by others; none of it was measured here but for one ratio.

QWEN_2_5: one sequence on an A100 80GB, transformers 4.46 and vLLM 0.6.3, 0.5B to 32B:
https://qwen.readthedocs.io/en/v2.5/benchmark/speed_benchmark.html
QWEN_3: one sequence on an H20, transformers 4.51: https://qwen.readthedocs.io/en/latest/getting_started/speed_benchmark.html
BITSANDBYTES: 1, 8 and 32 sequences on T4, RTX 4090 and H100, transformers 4.46:
https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/benchmarking/README.md
FOUNDRY: training throughput, H100: https://github.com/mosaicml/llm-foundry/blob/main/scripts/train/benchmarking/README.md
PRIME: updates of RL, H100: https://github.com/PrimeIntellect-ai/prime-rl/tree/main/benchmarks/baselines
"""

from grpo_recipes.duration.between import Between

COMPUTE = Between(0.11, 0.59)
"""Of the peak of operations: 11 % of 0.6B in 16 bits with rows of 16k (PRIME), 59 % of 13B (FOUNDRY, hardware's)."""
TRANSFORMERS_BANDWIDTH = Between(0.45, 1.0)
"""Of the memory's bandwidth: 49 % of 3B on a T4 (BITSANDBYTES); more than the datasheet's is not to be had."""
VLLM_BANDWIDTH = Between(0.66, 1.0)
"""66 to 85 % of 1.5B to 32B beside VLLM_LAYER_S (QWEN_2_5)."""
TRANSFORMERS_LAYER_S = Between(0.0006, 0.0009)
"""Seconds until Python has started the kernels of a layer: 0.84 to 0.90 ms (QWEN_2_5), 0.60 to 0.62 ms (QWEN_3)."""
TRANSFORMERS_EXPERTS_LAYER_S = Between(0.0006, 0.011)
"""With experts: 11 ms of 30B-A3B (QWEN_3); transformers 5 has kernels for all experts at once, which nobody timed."""
VLLM_LAYER_S = Between(0.0, 0.00012)
"""Replayed graphs of kernels: at most 0.113 ms, 0.5B (QWEN_2_5)."""
ADAPTER = 0.93
"""What an adapter of every linear module adds to TRANSFORMERS_LAYER_S, as a share of it. Measured on a CPU with layers
of 16 numbers, where starting operations is all that counts: transformers 5.23.0, peft 0.21.2."""
FOUR_BITS = Between(1.5, 2.4)
"""TRANSFORMERS_LAYER_S with nf4, times: 1.5 on an RTX 4090, 2.0 to 2.4 on an H100, several sequences (BITSANDBYTES)."""
