"""Generation with vLLM needs vLLM and a GPU.

`use_vllm: auto` uses vLLM if all of these hold; otherwise transformers generates. vLLM is installed, the run is on
GPUs, TRL runs vLLM in the training processes and can pass it the policy (GEN003), the GPU has enough memory (VLL001),
and rows have no images. `use_vllm: true` on a stack without vLLM ends in ImportError in GRPOTrainer, after loading the
model. `vllm_mode: auto` means server if the recipe has the section `vllm_server` or the address of a server, and
otherwise colocate, in the training processes. Without a GPU the usual vLLM does not start. Builds for the CPU do, but
repack their weights, and the first transfer of the policy ends in AttributeError. For a server on GPUs see GEN008.

TRL 0.16 and 0.17 support vLLM only as a server, which the run starts for `use_vllm: true` (SRV001). 0.14 and 0.15 run
it in the first process, on the first GPU that no process uses, or on `trl.vllm_device`, which may be a GPU used for
training. On a machine with one GPU, 0.15 uses that GPU by default and 0.14 does not.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context, NotJudged, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns
from grpo_recipes.rules._shared.vllms_gpu import DEVICE, is_server_alone, names_server, place, vllms_gpu
from grpo_recipes.rules.vllm_can_load_the_policy import obstacles
from grpo_recipes.rules.vllms_share_holds_the_model import sizes

ID = "GEN001"
USE_VLLM, VLLM_MODE = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode"
OWNS = (USE_VLLM, VLLM_MODE)
READS = ("distributed.strategy", "world.all_gpus", "world.device", "world.num_processes")
# VLL004 decides them if vLLM generates; whether it does follows from the recipe.
SIZED = ("GRPOConfig.vllm_tensor_parallel_size", "GRPOConfig.vllm_gpu_memory_utilization")


def decide(context: Context) -> Iterator[Setting]:
    if context.value(USE_VLLM) == "auto":
        yield _use_vllm(context)
    if context.value(VLLM_MODE) == "auto":
        yield _mode(context)


def _mode(context: Context) -> Setting:
    if context.value(USE_VLLM) is True and is_server_alone(context):
        return rule_setting(VLLM_MODE, "server", "this TRL supports vLLM only as a server")
    if context.value(USE_VLLM) is True and names_server(context) and context.is_given(USE_VLLM):
        why = "the recipe has a vllm_server" if context.has_section("vllm_server") else "the recipe names a server"
        return rule_setting(VLLM_MODE, "server", why)
    return rule_setting(VLLM_MODE, "colocate", "the recipe names no server")


def _use_vllm(context: Context) -> Setting:
    version = context.stack.version("vllm")
    if version is None:
        missing = "not installed" if context.stack.is_absent("vllm") else "not known to be installed"
        return rule_setting(USE_VLLM, False, f"vllm is {missing}, so transformers generates")
    if context.value("world.device") == "cpu":
        return rule_setting(USE_VLLM, False, "the run is on the CPU, so transformers generates")
    if image_columns(context):
        return rule_setting(USE_VLLM, False, "the rows have images, for which vLLM needs use_vllm: true")
    where_it_runs = place(context)
    if where_it_runs != "colocate":
        where = "as a server" if where_it_runs == "server" else "on a separate GPU"
        why = f"this TRL runs vLLM {where}, so transformers generates"
        return rule_setting(USE_VLLM, False, why)
    if (obstacle := _in_the_way(context)) is not None:
        return rule_setting(USE_VLLM, False, f"{obstacle}, so transformers generates")
    return rule_setting(USE_VLLM, True, f"vllm {version} is installed")


def _in_the_way(context: Context) -> str | None:
    """Why vLLM cannot hold the policy or its weights, None if it can or if that is unknown."""
    try:
        written = context.as_written(*SIZED)
        budget = sizes(written)
        # If the sizes are decided here as well, all processes together may hold one copy.
        copies = context.whole("world.num_processes") if written.value(SIZED[0]) == "auto" else 1
        if budget is not None and budget.copy / copies > budget.share:
            return f"vLLM's share of {budget.share:.1f} GiB is too small for the model"
        if (
            budget is not None
            and written.value(SIZED[1]) == "auto"
            and budget.copy / copies > budget.memory - budget.trainer
        ):
            return f"the trainer's {budget.trainer:.1f} GiB leave too little memory for vLLM's model"
        return next((obstacle.what for obstacle in obstacles(context)), None)
    except NotJudged:
        return None


def check(context: Context) -> Iterator[Finding]:
    if context.value(USE_VLLM) is not True:
        return
    yield from _check_vllm_gpu(context)
    takes_weights = context.value("shims.adapter_sync") is None
    if context.value("world.device") == "cpu" and context.value(VLLM_MODE) == "colocate" and takes_weights:
        because = "on the CPU it does not start, or cannot load new weights"
        yield context.wrong("vLLM in the training processes needs a GPU", USE_VLLM, because, "auto")
        return
    if context.stack.is_absent("vllm"):
        message = "use_vllm is true, but vllm is not installed"
        because = "GRPOTrainer raises ImportError after loading the model"
        yield context.wrong(message, USE_VLLM, because, "auto", fix="use_vllm: auto, or install vllm")
    elif not context.stack.is_known("vllm"):
        because = "the target does not list vllm"
        fix = "add vllm==VERSION to the target, the release of the machine that trains"
        yield context.not_checked(f"whether {context.stack.origin} has vllm is unknown", USE_VLLM, because, fix)


def _check_vllm_gpu(context: Context) -> Iterator[Finding]:
    """Findings about the GPU on which an older TRL would run vLLM."""
    gpu, gpus, processes = vllms_gpu(context), context.stack.gpus or (), context.whole("world.num_processes")
    if gpu is None or gpu < len(gpus):
        return
    fewer = (
        f"launch.gpus_per_node: {len(gpus) - 1}"
        if len(gpus) > 1
        else "trl.vllm_device: cuda:0, shared with the trainer"
    )
    yield context.wrong(
        f"{context.facts.source('GRPOConfig')} runs vLLM on cuda:{gpu}, but the last GPU is cuda:{len(gpus) - 1}",
        DEVICE if context.is_given(DEVICE) else USE_VLLM,
        [
            f"it takes the first GPU after those of the {processes} processes, unless vllm_device is set",
            f"GRPOTrainer raises ValueError for the device cuda:{gpu}",
        ],
        False,
        at=("generation", "use_vllm"),
        fix=f"use_vllm: false, or {fewer}",
    )
