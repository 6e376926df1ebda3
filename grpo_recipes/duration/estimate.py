"""The estimate: what a step computes, and the seconds that it takes."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.duration.between import Between
from grpo_recipes.duration.flops import prompt_flops, scoring_flops, token_flops, update_flops
from grpo_recipes.duration.generation import cache_numbers, transformers_seconds, vllm_seconds
from grpo_recipes.duration.gpu import TimedGpu, compute_seconds, starting_seconds, together
from grpo_recipes.duration.work import Work
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_VLLM_WIDTH = 2


class Flops(NamedTuple):
    """Floating-point operations of an optimizer step of all processes: generating, scoring, training."""

    generation: float
    scoring: float
    update: float

    def total(self) -> float:
        """All of them."""
        return self.generation + self.scoring + self.update


class Seconds(NamedTuple):
    """Seconds of an optimizer step."""

    generation: Between
    scoring: Between
    update: Between

    def total(self) -> Between:
        """The whole step."""
        return self.generation.plus(self.scoring).plus(self.update)

    def generation_share(self) -> Between:
        """The share of generation in the step."""
        return self.generation.share_of(self.scoring.plus(self.update))


class Step(NamedTuple):
    """All that a step depends on. gpu_bytes: memory of a GPU, None where it is not known."""

    architecture: Architecture
    update: Update
    layout: Layout
    work: Work
    gpu_bytes: int | None = None


def flops_of(step: Step) -> Flops:
    """The operations of a step, if every prompt and completion is as long as it may be."""
    architecture, update, work = step.architecture, step.update, step.work
    makes = update if step.layout.generation == "transformers" else update._replace(adapter=None)
    sequences = step.layout.sequences
    tokens = update.completion * token_flops(architecture, makes, sequences)
    made = (prompt_flops(architecture, makes, sequences) + tokens) / work.generation_every
    passes = work.scoring_passes * update.accumulation / work.iterations
    scored = scoring_flops(architecture, update).total() * passes
    trained = update_flops(architecture, update) * update.accumulation
    return Flops(*(one * work.processes for one in (made, scored, trained)))


def seconds_of(step: Step, gpu: TimedGpu) -> Seconds:
    """The seconds of a step, under the same condition.

    Not counted: rewards, evaluations, checkpoints, the optimizer's own arithmetic, what GPUs send each other, and
    weights on their way to vLLM.
    """
    architecture, update, work = step.architecture, step.update, step.work
    starting = starting_seconds(architecture, update)
    forward = together(starting, compute_seconds(gpu, scoring_flops(architecture, update).total(), update.width))
    passes = 3 if update.is_checkpointing else 2
    whole = together(starting.times(passes), compute_seconds(gpu, update_flops(architecture, update), update.width))
    return Seconds(
        generation=_generation(step, gpu).times(1 / work.generation_every),
        scoring=forward.times(work.scoring_passes * update.accumulation / work.iterations),
        update=whole.times(update.accumulation),
    )


def why_unknown(config: Mapping[str, object], architecture: Architecture | None, update: Update) -> str:
    """Why the operations of a step are not known, "" where they are."""
    if architecture is None:
        return f"models of type {config.get('model_type')} are not covered"
    if update.adapter is not None and architecture.experts is not None and update.adapter.adapts_experts():
        return "what an adapter of all experts computes was not looked into"
    return ""


def why_untimed(layout: Layout, work: Work, gathers: bool) -> str:
    """Why the seconds of a step are not known on any GPU, "" where they are. gathers: ZeRO-3 for a generation."""
    if layout.offloads_optimizer or layout.offloads_weights:
        return "how fast offloaded weights or states come back is not known"
    if layout.generation == "vllm_server" and not work.server_gpus:
        return "the GPUs of a vLLM server that the run does not start are not known"
    if layout.generation == "transformers" and layout.strategy == "zero3" and not gathers:
        return "how long ZeRO-3 gathers each layer for each token is not known"
    return ""


def _generation(step: Step, gpu: TimedGpu) -> Between:
    """One generation: of the process alone, of the engine that it shares with others, or of the server for all."""
    layout, work, update = step.layout, step.work, step.update
    if layout.generation == "transformers":
        return transformers_seconds(gpu, step.architecture, update, layout.sequences)
    sharing, gpus = layout.vllm_ranks, layout.vllm_ranks
    if layout.generation == "vllm_server":
        sharing, gpus = work.processes, work.server_gpus
    sequences = layout.sequences * sharing
    held = _held(step, gpus) if layout.generation == "vllm_colocate" else sequences
    return vllm_seconds(gpu, step.architecture, update, sequences, work.group, gpus, held)


def _held(step: Step, gpus: int) -> int:
    """The sequences of whole length that the cache of an engine has room for, one at least."""
    sequences = step.layout.sequences * gpus
    if step.gpu_bytes is None or step.layout.vllm_share is None:
        return sequences
    room = gpus * step.layout.vllm_share * step.gpu_bytes - _VLLM_WIDTH * step.architecture.parameters()
    one = _VLLM_WIDTH * cache_numbers(step.architecture) * step.update.length
    return max(1, min(sequences, int(room // one)))
