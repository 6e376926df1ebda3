"""Holds the formulas of grpo_recipes/duration/ against seconds that others measured on GPUs and published.

    python benchmarks/duration.py [--write]

Writes benchmarks/duration.md with --write, prints it otherwise. A second of CPU time.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grpo_recipes.duration.between import Between  # noqa: E402
from grpo_recipes.duration.estimate import Step, seconds_of  # noqa: E402
from grpo_recipes.duration.generation import transformers_seconds, vllm_seconds  # noqa: E402
from grpo_recipes.duration.gpu import TimedGpu  # noqa: E402
from grpo_recipes.duration.work import Work  # noqa: E402
from grpo_recipes.facts.gpu_speeds import gpu_speed  # noqa: E402
from grpo_recipes.memory.layout import Layout  # noqa: E402
from grpo_recipes.memory.update import Adapter, FourBits, Update  # noqa: E402
from grpo_recipes.user_files.architecture import Architecture, read_architecture  # noqa: E402
from grpo_recipes.user_files.model_config import read_model_config  # noqa: E402

PAGE = ROOT / "benchmarks" / "duration.md"
QWEN = "https://qwen.readthedocs.io/en/v2.5/benchmark/speed_benchmark.html"
BITSANDBYTES = "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/benchmarking/README.md"
PRIME = "https://github.com/PrimeIntellect-ai/prime-rl/tree/main/benchmarks/baselines"
NEMO = "https://github.com/NVIDIA-NeMo/RL/issues/959"
LANDSCAPE = "https://huggingface.co/blog/async-rl-training-landscape"
SILY = "https://github.com/tgarg01/silybench-data/blob/main/derived/csv/capacity.csv"
ENERGY = "https://github.com/ml-energy/leaderboard/blob/master/public/data/tasks/lm-arena-chat.json"
PLAIN = Update(2, None, None, None, False, "flash_attention_2", 1, 1, 2048, 1, "adamw_torch", "fused", is_padded=False)
TEMPLATE = """# Duration: formulas against published seconds

`python benchmarks/duration.py --write` writes this page. The formulas are those of `grpo_recipes/duration/`, which
`grpo-run fit` tells; none of it was measured here. Each row has seconds that somebody measured on a GPU, and the range
of the formulas for the same work. Of GRPO by TRL on a named GPU with named lengths no figure was found; the updates and
the whole steps are other programs' (prime-rl, NeMo-RL), which pack rows and share kernels that TRL has not.

The range tells what lengths a recipe allows, and completions end earlier: these rows have the lengths that were
measured, so a run is at the lower end or below what is told for it.

## Figures that the shares were read from

They cannot miss by much: `grpo_recipes/duration/shares.py` has the shares of datasheets and the seconds of a layer that
these figures come to.

{calibration}

## Figures that nothing was read from

{held_out}

{verdict}

Updates of rows of 65,536 tokens took less than the lower end: attention is most of their work, of which the formulas
count the whole square, as torch's own count does, and a causal kernel computes half.
"""


class Figure(NamedTuple):
    """Seconds that were published, and the estimate of the same work."""

    what: str
    seconds: float
    estimate: Between
    source: str


def architecture(model: str) -> Architecture:
    """The sizes of a known model."""
    config = read_model_config(model)
    found = None if config is None else read_architecture(config)
    assert found is not None, model
    return found


def gpu(name: str) -> TimedGpu:
    """A GPU of the table."""
    speed = gpu_speed(name)
    assert speed is not None, name
    return TimedGpu(speed)


def one_sequence() -> list[Figure]:
    """2,048 tokens of one sequence, on an A100 80GB."""
    speeds = {
        "0.5B": (47.40, 311.55),
        "1.5B": (39.68, 183.33),
        "3B": (30.80, 127.61),
        "7B": (40.38, 84.28),
        "14B": (24.74, 46.30),
        "32B": (17.54, 22.13),
    }
    found = []
    for size, (plain, paged) in speeds.items():
        sizes, a100 = architecture(f"Qwen/Qwen2.5-{size}"), gpu("A100-80GB")
        what = f"Qwen2.5-{size}, one sequence of 2,048, A100 80GB"
        found.append(Figure(f"transformers, {what}", 2048 / plain, transformers_seconds(a100, sizes, PLAIN, 1), QWEN))
        found.append(Figure(f"vLLM, {what}", 2048 / paged, vllm_seconds(a100, sizes, PLAIN, 1, 1, 1, 1), QWEN))
    return found


def batches(*, four_bits: bool) -> list[Figure]:
    """One token of 1, 8 and 32 sequences with transformers; nf4 with the scales in eight bits, or 16-bit weights."""
    measured = {
        ("T4", "Qwen/Qwen2.5-3B"): ((0.0390, 0.0422, 0.0601), (0.1042, 0.1215)),
        ("RTX-4090", "meta-llama/Llama-3.1-8B"): ((0.0211, 0.0239, 0.0304), (0.0443, 0.0471)),
        ("H100-80GB", "meta-llama/Llama-3.1-8B"): ((0.0244, 0.0255, 0.0261), (0.0566, 0.0577)),
        ("H100-80GB", "Qwen/Qwen2.5-32B"): ((0.0508, 0.0525, 0.0547), (0.1209, 0.1298)),
    }
    found = []
    for (name, model), (whole, packed) in measured.items():
        counts, seconds = ((8, 32), packed) if four_bits else ((1, 8, 32), whole)
        update = PLAIN._replace(completion=1, prompt=128, four_bits=FourBits(2, True) if four_bits else None)
        for count, each in zip(counts, seconds, strict=True):
            none = transformers_seconds(gpu(name), architecture(model), update._replace(completion=0), count)
            token = transformers_seconds(gpu(name), architecture(model), update, count)
            estimate = Between(token.least - none.least, token.most - none.most)
            what = f"transformers{', nf4' if four_bits else ''}, {model.partition('/')[2]}, a token of {count}, {name}"
            found.append(Figure(what, each, estimate, BITSANDBYTES))
    return found


def updates() -> tuple[list[Figure], list[Figure]]:
    """Forward and backward passes of one packed row: the one that a share was read from, and the others."""
    rows: Sequence[tuple[str, int, int, float, int]] = (
        ("Qwen/Qwen3-0.6B", 16_384, 0, 11_896, 1),
        ("Qwen/Qwen3-0.6B", 16_384, 16, 13_300, 1),
        ("Qwen/Qwen3-0.6B", 65_536, 0, 10_100, 1),
        ("Qwen/Qwen3-4B", 16_384, 16, 6_230, 1),
        ("Qwen/Qwen3-4B", 65_536, 16, 4_160, 1),
        ("Qwen/Qwen3-4B", 16_384, 0, 3_250, 8),
        ("Qwen/Qwen3-4B", 16_384, 16, 6_090, 8),
    )
    found = []
    for model, tokens, rank, speed, gpus in rows:
        adapter = Adapter(rank, "all-linear", 4) if rank else None
        update = PLAIN._replace(adapter=adapter, is_checkpointing=True, prompt=0, completion=tokens)
        step = Step(architecture(model), update, Layout("single", 1, "transformers", 1), Work(1.0, 1, 1, 0, 1, 0))
        kind = f"LoRA {rank}" if rank else "all weights"
        what = f"an update of {model.partition('/')[2]}, {kind}, a row of {tokens:,}, {gpus}xH100"
        found.append(Figure(what, tokens / speed, seconds_of(step, gpu("H100-80GB")).update, PRIME))
    return found[:1], found[1:]


def many_sequences() -> list[Figure]:
    """Whole batches of vLLM: its offline throughput, one service at its most users, and one at eight."""
    found = []
    for size, speed in (("7B", 6_300), ("32B", 1_200)):
        update = PLAIN._replace(prompt=128, completion=2048)
        held = 512 if size == "7B" else 40
        estimate = vllm_seconds(gpu("H100-80GB"), architecture(f"Qwen/Qwen2.5-{size}"), update, 512, 1, 1, held)
        what = f"vLLM, {size}, 512 sequences of 2,048, H100 (which model and prompts is not said)"
        found.append(Figure(what, 512 * 2048 / speed, estimate, LANDSCAPE))
    update = PLAIN._replace(prompt=128, completion=1024)
    estimate = vllm_seconds(gpu("H100-80GB"), architecture("Qwen/Qwen3-8B"), update, 396, 1, 1, 327)
    found.append(Figure("vLLM, Qwen3-8B, 396 sequences of 1,024, H100", 396 * 1024 / 13_322, estimate, SILY))
    update = PLAIN._replace(prompt=128, completion=615)
    for count, speed in ((7.94, 1_086.7), (15.95, 1_912.8)):
        estimate = vllm_seconds(gpu("B200"), architecture("Qwen/Qwen3-14B"), update, round(count), 1, 1, round(count))
        what = f"vLLM, Qwen3-14B, {round(count)} sequences of 615, B200"
        found.append(Figure(what, count * 615 / speed, estimate, ENERGY))
    return found


def whole_steps() -> list[Figure]:
    """NeMo-RL: 64 prompts with 32 completions of 777 tokens in the mean, up to 4,096 with the prompt, scored twice."""
    update = PLAIN._replace(batch=1, prompt=280, completion=777, accumulation=256, is_checkpointing=True)
    layout = Layout("fsdp2", 8, "vllm_colocate", 256, vllm_share=0.6)
    step = Step(architecture("meta-llama/Llama-3.1-8B"), update, layout, Work(1.0, 1, 32, 2, 8, 0), 80 * 2**30)
    seconds = seconds_of(step, gpu("H100-80GB"))
    what = "of a step of NeMo-RL (DTensor), Llama-3.1-8B, 2,048 completions, 8xH100"
    parts: dict[str, tuple[float, Between]] = {
        "generation": (57, seconds.generation),
        "scoring": (19, seconds.scoring),
        "update": (38, seconds.update),
        "all but the hand-over": (118, seconds.total()),
    }
    return [Figure(f"{name} {what}", measured, estimate, NEMO) for name, (measured, estimate) in parts.items()]


def table(figures: Sequence[Figure]) -> str:
    """A row for each figure; one outside of its range says by how many times."""
    rows = ["| what | measured, s | range, s | within | source |", "|---|---|---|---|---|"]
    for one in figures:
        ends = f"{number(one.estimate.least)} to {number(one.estimate.most)}"
        rows.append(f"| {one.what} | {number(one.seconds)} | {ends} | {verdict(one)} | {one.source} |")
    return "\n".join(rows)


def verdict(figure: Figure) -> str:
    """Whether a figure lies in its range, and by how many times it does not."""
    if figure.seconds < figure.estimate.least:
        return f"below, {figure.estimate.least / figure.seconds:.2f} times"
    if figure.seconds > figure.estimate.most:
        return f"above, {figure.seconds / figure.estimate.most:.2f} times"
    return "yes"


def number(seconds: float) -> str:
    """Three digits."""
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:,.0f}"


def page() -> str:
    """The whole page."""
    read_from, others = updates()
    calibration = [*one_sequence(), *batches(four_bits=False), *batches(four_bits=True), *read_from]
    held_out = [*others, *many_sequences(), *whole_steps()]
    within = sum(verdict(one) == "yes" for one in held_out)
    widths = sorted(one.estimate.most / one.estimate.least for one in held_out)
    said = (
        f"{within} of {len(held_out)} lie within. The upper end is {widths[0]:.1f} to {widths[-1]:.1f} times the lower"
        f" one, {widths[len(widths) // 2]:.1f} times in the median."
    )
    parts: dict[str, Any] = {"calibration": table(calibration), "held_out": table(held_out), "verdict": said}
    return TEMPLATE.format(**parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page instead of printing it")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
