"""vLLM gets only the adapter, if the recipe sets `generation.weight_sync: adapter`.

Before each generation TRL merges the adapter into the weights and passes vLLM all of them: 15 GB for a model of 7B,
whose adapter of rank 16 has 160 MB. The shim `adapter_sync` saves the adapter instead, and vLLM loads it under a new
name; its base stays as loaded. vLLM then computes base and adapter separately, both in the training process and as a
server, which the run starts with `--enable-lora`. No weights go through NCCL, so a server also works for a trainer on
the CPU.

vLLM reads r, lora_alpha and use_rslora of an adapter and silently ignores other fields: with `alpha_pattern` it sampled
from a different policy, 1.05 nats off. It refuses copies of whole modules, biases, and adapters on the embeddings or
the output layer. With the initialisations `pissa`, `olora`, `corda` and `loftq`, the base in memory is not the
checkpoint that vLLM loads. So an adapter may use only fields that were tested.

For a 4-bit model, TRL can pass vLLM only the adapter, so `auto` means adapter. Before training, vLLM's base is written
to the run folder: the dequantized weights in vLLM's data type, as large as the model without quantization. The first
proof compares the two.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM028"
OWNS = ("shims.adapter_sync",)
USE_VLLM, VLLM_MODE, STRATEGY = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode", "distributed.strategy"
READS = (USE_VLLM, VLLM_MODE, STRATEGY, "LoraConfig.exclude_modules")
FOUR_BITS, EIGHT_BITS = "BitsAndBytesConfig.load_in_4bit", "BitsAndBytesConfig.load_in_8bit"
SYNC, SECTION, RANK = "generation.weight_sync", "lora", "LoraConfig.r"
ASLEEP = "GRPOConfig.vllm_enable_sleep_mode"
RANKS = (8, 16, 32, 64, 128, 256, 512)
"""The values of vLLM's max_lora_rank. Source: vllm 0.31.0 config/lora.py."""
READ = {
    "r",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "use_rslora",
    "task_type",
}
START = "init_lora_weights"
STARTS = ("true", "false", "gaussian")
NOT_ADAPTED = ("embed_tokens", "lm_head", "wte")
SHARDED = ("zero3", "fsdp2")
# Per vllm_mode: the releases of TRL that can pass vLLM an adapter, and what older ones do.
SINCE = {
    "server": (">=1.11", "starts its own server, which takes no adapters"),
    "colocate": (">=0.29.1", "passes vLLM the weights elsewhere"),
}


def decide(context: Context) -> Iterator[Setting]:
    is_quantized = context.value(FOUR_BITS) is True
    is_wanted = context.value(SYNC) == "adapter" or (context.value(SYNC) == "auto" and is_quantized)
    if context.value(USE_VLLM) is True and is_wanted and not any(in_the_way(context)):
        rank = next(rank for rank in RANKS if rank >= context.whole(RANK))
        base = "; its base is the dequantized model, written into the run folder" if is_quantized else ""
        yield rule_setting(OWNS[0], rank, f"vLLM loads an adapter of up to this rank{base}")


def check(context: Context) -> Iterator[Finding]:
    if context.value(SYNC) != "adapter":
        return
    if context.value(USE_VLLM) is not True:
        message, because = "weight_sync has no effect", "transformers generates, with the trainer's own weights"
        yield context.wrong(message, SYNC, because, "auto", severity="warning")
        return
    for key, why in in_the_way(context):
        yield context.wrong(
            "weight_sync: adapter does not support this recipe", key, why, "full", at=("generation", "weight_sync")
        )


def in_the_way(context: Context) -> Iterator[tuple[str, str]]:
    """What keeps vLLM from taking the adapter alone: the key, and the reason."""
    if not context.has_section(SECTION):
        yield SYNC, "the recipe has no lora section and trains all weights"
        return
    since, otherwise = SINCE["server" if context.value(VLLM_MODE) == "server" else "colocate"]
    trl = context.stack.version("trl")
    if trl is not None and not is_within(trl, since):
        yield VLLM_MODE, f"trl {trl} {otherwise}; {since.strip('>=')} is the first release that does not"
    for name, value in context.settings.under("LoraConfig").items():
        is_used = value not in (None, False, [], {}, "none")
        if is_used and name not in READ and (name != START or str(value).lower() not in STARTS):
            yield f"LoraConfig.{name}", f"vLLM ignores an adapter's {name}"
    targets = context.value("LoraConfig.target_modules")
    for target in targets if isinstance(targets, list) else [targets]:
        name = str(target)
        if name.rpartition(".")[2] in NOT_ADAPTED:
            yield "LoraConfig.target_modules", f"vLLM does not support an adapter on {name}"
    if context.value(EIGHT_BITS) is True:
        yield EIGHT_BITS, "TRL refuses vLLM with an 8-bit model"
    if context.whole(RANK) > RANKS[-1]:
        yield RANK, f"vLLM's largest rank is {RANKS[-1]}"
    if context.value(STRATEGY) in SHARDED:
        yield STRATEGY, "each process holds a part of the adapter, and nothing gathers the parts"
    if context.value(ASLEEP) is True:
        yield ASLEEP, "a sleeping vLLM discards its weights, and the adapter does not restore the base"
