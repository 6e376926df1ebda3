"""All stages by name, the most informative first."""

from collections.abc import Callable
from typing import NamedTuple

from gpu_kit.bench import Bench
from gpu_kit.stages import (
    attention,
    doctor,
    full_float32,
    images,
    interrupted,
    lora,
    merges,
    out_of_memory,
    own_cost,
    padding,
    peaks,
    quantized,
    real_model,
    releases,
    sharded,
    speed,
    with_vllm,
)


class Stage(NamedTuple):
    """A stage of the kit. limit_s: when it is ended; tells: what it checks; alone: no other stage runs at the same
    time.

    gpus: how many of the machine's GPUs it sees, None for all; `gpus_per_node: auto` would train on each of them.
    """

    run: Callable[[Bench], None]
    limit_s: int
    tells: str
    alone: bool = False
    gpus: int | None = 1


STAGES = {
    "doctor": Stage(doctor.run, 120, "grpo-run reports the same devices as torch and the driver", gpus=None),
    "lora": Stage(lora.run, 300, "LoRA of 0.5B in bfloat16 trains, every proof holds, the output layer is fused"),
    "vllm": Stage(with_vllm.run, 480, "vLLM in the training process has the policy's weights, and gets each update"),
    "real_model": Stage(real_model.run, 420, "SmolLM2-135M learns sums, with held-out answers before and after"),
    "resume": Stage(interrupted.run_resume, 420, "a resumed run ends with the same bytes as an uninterrupted one"),
    "zero2": Stage(sharded.run_zero2, 300, "DeepSpeed ZeRO-2 with one process"),
    "zero3": Stage(sharded.run_zero3, 300, "DeepSpeed ZeRO-3 with one process"),
    "zero_scores": Stage(
        sharded.run_scores, 480, "ZeRO scores and trains in one dtype, as fast as without DeepSpeed", alone=True
    ),
    "two_gpus": Stage(
        sharded.run_two, 480, "DDP, ZeRO-2, ZeRO-3 and FSDP2 on two GPUs have one first gradient", gpus=2
    ),
    "vllm_server": Stage(with_vllm.run_server, 480, "a server on the second GPU gets each policy of the first", gpus=2),
    "lora_7b": Stage(lora.run_7b, 480, "LoRA of 7B in bfloat16, and its memory against the estimate"),
    "vllm_sleep": Stage(with_vllm.run_sleep, 480, "LoRA of 7B beside a vLLM that frees its memory during the update"),
    "vllm_speed": Stage(with_vllm.run_speed, 540, "seconds of a step with vLLM, compared with TRL alone", alone=True),
    "full_float32": Stage(full_float32.run, 300, "all weights in float32 under autocast"),
    "qlora": Stage(quantized.run, 300, "LoRA on 1.5B in four bits"),
    "fsdp2": Stage(sharded.run_fsdp2, 300, "FSDP2 with one process"),
    "seed_again": Stage(lora.run_again, 300, "the same seed gives the same losses"),
    "images": Stage(images.run, 300, "a vision model learns, and its images reach generation and loss"),
    "lost": Stage(interrupted.run_lost, 300, "a run on two GPUs that loses a process ends, and names it", gpus=2),
    "sigterm": Stage(interrupted.run_sigterm, 300, "a signal in the middle of a generation saves and ends with 75"),
    "peaks_lora": Stage(peaks.run_lora, 540, "memory of LoRA against the estimate, 0.5B to 3B"),
    "peaks_full": Stage(peaks.run_full, 540, "memory of full training against the estimate, 0.5B to 3B"),
    "speed": Stage(speed.run, 540, "tokens per second, and the cost of proofs and guards", alone=True),
    "own_cost": Stage(
        own_cost.run, 300, "the share of a step that callbacks of proofs and guards take, by CUDA events", alone=True
    ),
    "padding": Stage(padding.run, 300, "how much faster a step is if rows are padded to their micro-batch", alone=True),
    "vllm_stops": Stage(with_vllm.run_stops, 480, "a stop text ends completions from vLLM"),
    "vllm_real": Stage(real_model.run_with_vllm, 480, "SmolLM2-135M learns sums from vLLM's completions"),
    "vllm_adapter": Stage(with_vllm.run_adapter, 480, "vLLM gets only the adapter, and how fast it is then"),
    "vllm_4bit": Stage(with_vllm.run_4bit, 480, "a base in four bits trains with vLLM"),
    "hand_over": Stage(with_vllm.run_hand_over, 540, "seconds to send 7B to vLLM, and only its adapter", alone=True),
    "releases": Stage(releases.run, 300, "trl 1.16.0 and an older one compute the same gradient"),
    "attention": Stage(attention.run, 300, "sdpa and eager attention compute the same gradient"),
    "flash": Stage(attention.run_flash, 300, "FlashAttention 2 trains, and its speed compared with sdpa", alone=True),
    "padded": Stage(attention.run_padded, 300, "rows that are padded on the left have a finite gradient in bfloat16"),
    "out_of_memory": Stage(
        out_of_memory.run, 300, "a run that is out of memory reports it, and settings that need less", alone=True
    ),
    "peaks_14b": Stage(peaks.run_14b, 540, "memory of LoRA on 14B against the estimate"),
    "merges": Stage(merges.run, 300, "how far the base drifts when an adapter is merged fifty times"),
    "vllm_drift": Stage(with_vllm.run_drift, 540, "vLLM and the policy agree over fifty steps of LoRA"),
}
