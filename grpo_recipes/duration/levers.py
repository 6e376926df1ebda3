"""The change that makes a run fastest, of those that can be computed, and whether it stays the same experiment."""

from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.duration.estimate import Step, seconds_of
from grpo_recipes.duration.gpu import TimedGpu
from grpo_recipes.memory.needs import MemoryNeeds

_LEAST = 0.1
"""The share of a step below which a change is none."""
_VLLM_SHARE = 0.3
"""TRL's own: trl 1.16.0, trainer/grpo_config.py: vllm_gpu_memory_utilization."""


class Lever(NamedTuple):
    """A change. saves: the share of a step, in the middle of both ranges. keeps: it is the same experiment then."""

    setting: str
    saves: float
    keeps: bool


def largest_lever(
    step: Step, gpu: TimedGpu, needs: MemoryNeeds, *, cuts_sampling: bool, has_fixed_cut: bool
) -> Lever | None:
    """The largest change that fits and keeps the experiment, else shorter completions; None where none saves a tenth.

    cuts_sampling: some tokens are never drawn (top_k, top_p, min_p), which weakens the gradient beside vLLM (GEN006).
    has_fixed_cut: the loss depends on the size of a micro-batch.
    """
    changes = _same_experiment(step, cuts_sampling, has_fixed_cut)
    found = [Lever(setting, _saved(step, changed, gpu), True) for setting, changed in changes if _fits(needs, changed)]
    best = max(found, key=lambda lever: lever.saves, default=None)
    if best is not None and best.saves >= _LEAST:
        return best
    half = step.update.completion // 2
    shorter = step._replace(update=step.update._replace(completion=half))
    lever = Lever(f"generation.max_completion_length: {half}", _saved(step, shorter, gpu), False)
    return lever if half and lever.saves >= _LEAST else None


def _same_experiment(step: Step, cuts_sampling: bool, has_fixed_cut: bool) -> Iterator[tuple[str, Step]]:
    """Settings of the machine, and the step with them. Four bits cannot be handed to vLLM."""
    layout, update, work = step.layout, step.update, step.work
    if layout.generation == "transformers" and update.four_bits is None and not cuts_sampling:
        changed = layout._replace(generation="vllm_colocate", vllm_share=_VLLM_SHARE)
        corrected = work._replace(scoring_passes=max(1, work.scoring_passes))
        yield "generation.use_vllm: true", step._replace(layout=changed, work=corrected)
    if update.is_checkpointing:
        yield (
            "training.gradient_checkpointing: false",
            step._replace(update=update._replace(is_checkpointing=False)),
        )
    if update.accumulation % 2 == 0 and not has_fixed_cut:
        doubled = update._replace(batch=2 * update.batch, accumulation=update.accumulation // 2)
        yield (
            f"training.per_device_train_batch_size: {doubled.batch}",
            step._replace(update=doubled),
        )


def _fits(needs: MemoryNeeds, changed: Step) -> bool:
    """Whether the GPUs have room for a change, by the estimate; where that is not known they have."""
    return needs._replace(update=changed.update, layout=changed.layout).estimate().verdict() in ("fits", "unknown")


def _saved(step: Step, changed: Step, gpu: TimedGpu) -> float:
    now, then = (seconds_of(one, gpu).total().middle() for one in (step, changed))
    return 1 - then / now
