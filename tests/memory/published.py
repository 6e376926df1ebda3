"""Figures of memory that others measured and published, and the estimates of the same trainings."""

from dataclasses import dataclass

from grpo_recipes.memory.estimate import estimate
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Adapter, Update
from grpo_recipes.user_files.model_config import read_model_config

PRIME = "prime-rl, benchmarks/baselines (2026-01-15), https://github.com/PrimeIntellect-ai/prime-rl"
ASYNC = "https://huggingface.co/blog/asyncgrpo-lora-hfjobs"
FUSED_RELEASE = "https://github.com/huggingface/trl/releases/tag/v1.15.0"


@dataclass(frozen=True, slots=True)
class Figure:
    """A published peak. tokens: of one row. rank: of the adapter, 0 trains all weights."""

    what: str
    gib: float
    source: str
    model: str
    tokens: int
    rank: int
    processes: int = 1
    is_checkpointing: bool = True
    weight_width: int = 2


FIGURES = (
    Figure("Qwen3-0.6B, all weights, 16k, 1xH100", 12.5, PRIME, "Qwen/Qwen3-0.6B", 16_384, 0),
    Figure("Qwen3-0.6B, LoRA 16, 16k, 1xH100", 5.2, PRIME, "Qwen/Qwen3-0.6B", 16_384, 16),
    Figure("Qwen3-0.6B, all weights, 65k, 1xH100", 19.6, PRIME, "Qwen/Qwen3-0.6B", 65_536, 0),
    Figure("Qwen3-0.6B, LoRA 16, 65k, 1xH100", 11.5, PRIME, "Qwen/Qwen3-0.6B", 65_536, 16),
    Figure("Qwen3-4B, LoRA 16, 16k, 1xH100", 23.3, PRIME, "Qwen/Qwen3-4B", 16_384, 16),
    Figure("Qwen3-4B, LoRA 16, 65k, 1xH100", 42.0, PRIME, "Qwen/Qwen3-4B", 65_536, 16),
    Figure("Qwen3-4B, all weights, 16k, 8xH100", 17.1, PRIME, "Qwen/Qwen3-4B", 16_384, 0, processes=8),
    Figure("Qwen3-4B, LoRA 16, 16k, 8xH100", 10.3, PRIME, "Qwen/Qwen3-4B", 16_384, 16, processes=8),
    Figure(
        "Qwen2.5-Math-1.5B, LoRA 1, a row of 16k, AsyncGRPO",
        25.0,
        ASYNC,
        "Qwen/Qwen2.5-Math-1.5B",
        16_384,
        1,
        is_checkpointing=False,
        weight_width=4,
    ),
    Figure("gemma-3-1b, 8,192 tokens, TRL 1.15", 10.3, FUSED_RELEASE, "google/gemma-3-1b-it", 8192, 0),
    Figure("gemma-3-1b, 8,192 tokens, TRL 1.14", 24.15, FUSED_RELEASE, "google/gemma-3-1b-it", 8192, 0),
)


def computed_gib(figure: Figure) -> float | None:
    """The update by the formulas, without the context; None for a family that is not covered.

    prime-rl trains with FSDP2: trained weights are kept in float32 and computed in bfloat16, those of an adapter's
    base too; one row without padding in a micro-batch, FlashAttention.
    """
    is_prime = figure.source == PRIME
    adapter = Adapter(figure.rank, "all-linear", width=4) if figure.rank else None
    autocast = 2 if figure.weight_width == 4 else None
    update = Update(
        figure.weight_width,
        autocast,
        None,
        adapter,
        figure.is_checkpointing,
        "flash_attention_2",
        1,
        0,
        figure.tokens,
        2,
        "adamw_torch_fused",
        "fused",
        is_padded=False,
    )
    layout = Layout("fsdp2" if is_prime else "single", figure.processes, "vllm_server", 0)
    found = estimate(read_model_config(figure.model), update, layout)
    phase = next((phase for phase in found.phases if phase.name == "update"), None)
    if phase is None:
        return None
    base = 2 * _parameters(figure) / figure.processes if is_prime and figure.rank else 0
    return (sum(term.size for term in phase.terms if term.name not in ("context", "slack")) + base) / 2**30


def _parameters(figure: Figure) -> int:
    """The parameters of a model, for the half of a float32 base that FSDP2 keeps beside what it computes in."""
    from grpo_recipes.user_files.model_config import parameter_count

    config = read_model_config(figure.model)
    return 0 if config is None else parameter_count(config) or 0
