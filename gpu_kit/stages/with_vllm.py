"""vLLM in the process that trains."""

from gpu_kit.bench import GROUP, Bench, LeftOut
from gpu_kit.machine import installed, versions
from gpu_kit.stages.quantized import FOUR_BITS
from gpu_kit.trained import Trained

SETTINGS = (
    "generation.use_vllm=true",
    "generation.vllm_mode=colocate",
    "generation.vllm_gpu_memory_utilization=0.2",
    # vLLM refuses to measure how much is free while other stages take and give back memory
    f"generation.vllm_engine.kv_cache_memory_bytes={8 << 30}",
    "training.learning_rate=1e-5",  # with 1e-4 the model that nothing trained answers at random after two steps
)
ADAPTER = "generation.weight_sync=adapter"
SAMPLER, HAND_OVER = "PRF010", "PRF011"
APART = "sampling/sampling_logp_difference/mean"
MOST_GROWTH = 2.0


def run(bench: Bench) -> None:
    _proved(bench, _trained(bench, "vllm", 4))


def run_adapter(bench: Bench) -> None:
    _proved(bench, _trained(bench, "vllm_adapter", 4, more=(ADAPTER,)))


def run_4bit(bench: Bench) -> None:
    if not installed("bitsandbytes"):
        raise LeftOut("bitsandbytes is not installed")
    _proved(bench, _trained(bench, "vllm_4bit", 4, more=(FOUR_BITS,)))


def run_hand_over(bench: Bench) -> None:
    """The same training of 7B with all weights handed over, and with the adapter alone."""
    for name, more in (("full", ()), ("adapter", (ADAPTER,))):
        found = _trained(
            bench, name, 4, size="7B", prompts=8, more=("generation.vllm_gpu_memory_utilization=0.3", *more)
        )
        _proved(bench, found)


def _proved(bench: Bench, found: Trained, prompts: int = 16) -> None:
    for proof in (SAMPLER, HAND_OVER):
        bench.holds(found.proofs.get(proof) is True, f"{proof}: {found.shown.get(proof, 'was not made')}")
    lengths = [one["completions/mean_length"] for one in found.steps[1:]]
    if seconds := found.phase_seconds().get("generate"):
        made = sum(lengths) / len(lengths) * bench.scale.prompts(prompts) * GROUP
        name = found.folder.name.removeprefix("run-")
        bench.figure(f"{name}: tokens a second, generated", round(made / seconds))


def run_drift(bench: Bench) -> None:
    found = _trained(bench, "vllm_drift", bench.scale.times(50, 6), tokens=64, prompts=4)
    apart = [step[APART] for step in found.steps if APART in step]
    bench.holds(len(apart) > 4, f"TRL does not tell {APART}")
    if len(apart) > 4:
        first, last = sum(apart[:3]) / 3, sum(apart[-3:]) / 3
        bench.figure("difference of log-probabilities", {"first steps": first, "last steps": last})
        bench.holds(last <= MOST_GROWTH * first + 1e-3, f"vLLM and the policy part: {first:.1e}, then {last:.1e}")


def _trained(
    bench: Bench,
    name: str,
    steps: int,
    tokens: int = 256,
    more: tuple[str, ...] = (),
    size: str = "0.5B",
    prompts: int = 16,
) -> Trained:
    if bench.scale.device == "cpu":
        raise LeftOut("vLLM takes the weights of a trainer from a GPU alone")
    if not installed("vllm"):
        raise LeftOut("vllm is not installed")
    bench.figure("packages", versions())
    file = bench.recipe(name, size, tokens=tokens, prompts=prompts)
    return bench.completed(bench.train(file, f"training.max_steps={steps}", *SETTINGS, *more))
