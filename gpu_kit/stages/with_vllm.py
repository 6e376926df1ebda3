"""Trains with vLLM, in the training process or as a server."""

from gpu_kit.bench import GROUP, Bench, LeftOut
from gpu_kit.machine import installed, versions
from gpu_kit.stages.quantized import FOUR_BITS
from gpu_kit.stages.sharded import need_two_gpus
from gpu_kit.trained import Trained

USED = "generation.use_vllm=true"
RATE = "training.learning_rate=1e-5"
"""With 1e-4 the untrained model answers at random after two steps."""
SETTINGS = (
    USED,
    RATE,
    "generation.vllm_mode=colocate",
    "generation.vllm_gpu_memory_utilization=0.2",
    # vLLM cannot measure free memory while other stages allocate and free it
    f"generation.vllm_engine.kv_cache_memory_bytes={8 << 30}",
)
ADAPTER = "generation.weight_sync=adapter"
SAMPLER, HAND_OVER, ENDS = "PRF010", "PRF011", "PRF008"
APART = "sampling/sampling_logp_difference/mean"
MOST_GROWTH = 2.0
MOST_OF_TRL = 1.05
EAGER = "generation.vllm_engine.enforce_eager=true"
"""vLLM starts a minute faster without compilation."""
STOP = "e"


def run(bench: Bench) -> None:
    _proved(bench, _trained(bench, "vllm", 4))


def run_adapter(bench: Bench) -> None:
    _proved(bench, _trained(bench, "vllm_adapter", 4, more=(ADAPTER,)))


def run_4bit(bench: Bench) -> None:
    if not installed("bitsandbytes"):
        raise LeftOut("bitsandbytes is not installed")
    _proved(bench, _trained(bench, "vllm_4bit", 4, more=(FOUR_BITS,)))


def run_hand_over(bench: Bench) -> None:
    """Compares a training of 7B that sends vLLM all weights with one that sends only the adapter."""
    for name, more in (("full", ()), ("adapter", (ADAPTER,))):
        _proved(bench, _trained_7b(bench, name, *more), prompts=8)


def run_sleep(bench: Bench) -> None:
    """Trains 7B beside a vLLM that frees its memory while the policy is scored and updated."""
    _proved(bench, _trained_7b(bench, "asleep", "trl.vllm_enable_sleep_mode=true"), prompts=8)


def run_server(bench: Bench) -> None:
    """Trains with the run's own server on the second GPU, which gets each new policy through NCCL."""
    need_two_gpus(bench)
    more = ("generation.vllm_mode=server", "vllm_server.gpu_memory_utilization=0.3")
    _proved(bench, _trained(bench, "served", 4, settings=(USED, RATE, *more)))


def run_stops(bench: Bench) -> None:
    """Checks that a stop text ends vLLM's completions: they are shorter than without it."""
    found = {}
    for name, more in (("endless", ()), ("stopped", (f"generation.stop=['{STOP}']",))):
        run = _trained(bench, name, 2, more=(EAGER, *more))
        bench.figure(f"{name}: completions", run.shown.get(ENDS))
        found[name] = sum(step["completions/mean_length"] for step in run.steps) / len(run.steps)
        bench.figure(f"{name}: mean tokens of a completion", round(found[name], 1))
    bench.holds(found["stopped"] < found["endless"], f"the stop text {STOP!r} ended nothing: {found}")


def run_speed(bench: Bench) -> None:
    """Compares steps of 1.5B with vLLM in the training process with those of TRL alone and the same arguments."""
    settings = tuple(one for one in SETTINGS if "kv_cache" not in one)  # of vLLM's engine, which TRL alone does not set
    run = _trained(bench, "ours", 10, size="1.5B", settings=settings)
    _proved(bench, run)
    alone = bench.measured("plain_trl.py", str(run.folder / "plan.json"), str(bench.folder / "plain"))
    seconds = {"grpo-run": run.step_seconds(without=2), "TRL alone": alone["median_step_s"]}
    bench.figure("median seconds of a step", seconds)
    bench.figure("seconds of its generation, with the hand-over, and of the rest", {
        "TRL alone": [round(alone["generation_s"], 3), round(alone["update_s"], 3)],
        "grpo-run": run.phase_seconds(2),
    })  # fmt: skip
    ratio = (run.step_seconds(without=2) or 0) / alone["median_step_s"]
    bench.figure("grpo-run : TRL alone", round(ratio, 4))
    bench.holds(ratio <= MOST_OF_TRL, f"a step takes {ratio:.3f} times that of TRL alone")


def _trained_7b(bench: Bench, name: str, *more: str) -> Trained:
    share = "generation.vllm_gpu_memory_utilization=0.3"
    return _trained(bench, name, 4, size="7B", prompts=8, more=(share, EAGER, *more))


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
    bench.holds(len(apart) > 4, f"TRL does not log {APART}")
    if len(apart) > 4:
        first, last = sum(apart[:3]) / 3, sum(apart[-3:]) / 3
        bench.figure("difference of log-probabilities", {"first steps": first, "last steps": last})
        bench.holds(last <= MOST_GROWTH * first + 1e-3, f"vLLM and the policy diverge: {first:.1e}, then {last:.1e}")


def _trained(
    bench: Bench,
    name: str,
    steps: int,
    tokens: int = 256,
    more: tuple[str, ...] = (),
    size: str = "0.5B",
    prompts: int = 16,
    settings: tuple[str, ...] = SETTINGS,
) -> Trained:
    if bench.scale.device == "cpu":
        raise LeftOut("vLLM takes a trainer's weights only on a GPU")
    if not installed("vllm"):
        raise LeftOut("vllm is not installed")
    bench.figure("packages", versions())
    file = bench.recipe(name, size, tokens=tokens, prompts=prompts)
    return bench.completed(bench.train(file, f"training.max_steps={steps}", *settings, *more))
