"""Trains with each strategy that shards a model: with one process, and with two if there are two GPUs.

NCCL refuses two processes on one GPU.
"""

from gpu_kit.bench import Bench, LeftOut
from gpu_kit.machine import installed, live_device
from gpu_kit.trained import Trained
from grpo_recipes.contract.metric_names import PHASE_SECONDS

PRECISION = "PRF006"
NO_CPU = "WLD003"
MOST_OFF = 0.02
"""Tolerance of a gradient norm; sharded gradients add in a different order and, in part, in bfloat16."""


SCORES = "grpo.num_iterations=2"
"""Completions that are trained twice are scored first; otherwise, TRL takes the ratios of the loss for 1."""
MOST_OF_PLAIN = 1.5
"""In float32, without autocast, scoring takes several times as long on a GPU."""


def run_zero2(bench: Bench) -> None:
    _deepspeed(bench, "zero2")


def run_zero3(bench: Bench) -> None:
    _deepspeed(bench, "zero3")


def run_scores(bench: Bench) -> None:
    """Compares the precision and duration of scoring under ZeRO with a run without DeepSpeed."""
    seconds = {name: _seconds_to_score(bench, _deepspeed(bench, name, SCORES)) for name in ("zero2", "zero3")}
    plain = bench.completed(bench.train(bench.folder / "zero2.yaml", SCORES, name="plain"))
    seconds["plain"] = _seconds_to_score(bench, plain)
    bench.figure("seconds to score a generation", seconds)
    share = seconds["zero2"] / max(seconds["plain"], 1e-9)
    if not bench.scale.is_small:
        bench.holds(share <= MOST_OF_PLAIN, f"ZeRO-2 takes {share:.2f} times as long to score as without DeepSpeed")


def run_fsdp2(bench: Bench) -> None:
    file = bench.recipe("fsdp2", "0.5B", tokens=128, dtype="float32")
    found = bench.train(file, "distributed.strategy=fsdp2")
    if bench.scale.device == "cuda":
        bench.completed(found)
    else:
        # accelerate silently trains with DDP on the CPU, so only a refusal can be checked there.
        bench.figure("on the CPU", "refused" if NO_CPU in found.said else found.said)
        bench.holds(found.code == 2 and NO_CPU in found.said, f"exit {found.code} without {NO_CPU} on the CPU")


def _deepspeed(bench: Bench, strategy: str, *more: str) -> Trained:
    """Trains all weights; PRF006 checks the precision of loss and scores."""
    if not installed("deepspeed"):
        raise LeftOut("deepspeed is not installed")
    file = bench.recipe(strategy, "0.5B", tokens=128, lora=False, dtype="float32")
    found = bench.completed(bench.train(file, f"distributed.strategy={strategy}", *more))
    bench.holds(found.proofs.get(PRECISION) is True, f"{PRECISION}: {found.shown.get(PRECISION, 'was not made')}")
    return found


def _seconds_to_score(bench: Bench, found: Trained) -> float:
    """Returns the maximum over steps; those that train completions again score nothing."""
    seconds = max(step.get(PHASE_SECONDS["score"]) or 0.0 for step in found.steps)
    bench.holds(seconds > 0, f"{found.folder.name}: nothing was scored")
    return seconds


def need_two_gpus(bench: Bench) -> None:
    """Raises LeftOut if there are fewer GPUs, except on the CPU."""
    if bench.scale.device == "cuda" and (gpus := live_device().get("sees_gpus", 0)) < 2:
        raise LeftOut(f"two GPUs are needed, this machine has {gpus}")


def run_two(bench: Bench) -> None:
    """Checks that two processes draw the same completions, so the first loss and gradient agree between strategies."""
    need_two_gpus(bench)
    is_cuda = bench.scale.device == "cuda"
    if not installed("deepspeed"):
        raise LeftOut("deepspeed is not installed")
    file = bench.recipe("two", "0.5B", tokens=128, lora=False, dtype="float32")
    first = {}
    for strategy in ("ddp", "zero2", "zero3", *(["fsdp2"] if is_cuda else [])):
        settings = ("launch.num_processes=2", f"distributed.strategy={strategy}")
        found = bench.completed(bench.train(file, *settings, name=f"two-{strategy}"))
        first[strategy] = found.losses[0]
    loss, norm = first["ddp"]
    for strategy, (other_loss, other_norm) in first.items():
        is_near = abs(other_norm - norm) <= MOST_OFF * norm and abs(other_loss - loss) <= MOST_OFF * max(
            1e-3, abs(loss)
        )
        bench.holds(is_near, f"{strategy}: loss {other_loss:.3g}, gradient norm {other_norm:.4g}; DDP {norm:.4g}")
