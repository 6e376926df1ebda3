"""The inputs of a recipe's memory estimate, read from its settings, and the estimate itself, for rules."""

import os
from collections.abc import Mapping
from typing import NamedTuple, cast

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.memory.estimate import MemoryNeeds
from grpo_recipes.memory.layout import Generation, Layout, Strategy
from grpo_recipes.memory.update import Adapter, Attention, FourBits, Output, Update, ends
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.loaded_model import TOWERS, adapter_dtype, is_quantized, model_config, processor_config
from grpo_recipes.rules._shared.machines import gpu_bytes, size_assumptions
from grpo_recipes.rules._shared.training_rows import first_row_of, image_columns
from grpo_recipes.rules._shared.vllms_gpu import has_a_gpu_of_its_own
from grpo_recipes.user_files.architecture import read_architecture
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.local_rows import key_of, read_counted

_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
_ATTENTION: Mapping[str, Attention] = {
    "sdpa": "sdpa",
    "eager": "eager",
    "flash_attention_2": "flash_attention_2",
    "flash_attention_3": "flash_attention_2",
}
_ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"
_ASSUMED_PROMPT, _SHORT_PROMPT = 512, 64
_UNKNOWN_PROMPT = (
    f"prompts of at most {_ASSUMED_PROMPT} tokens; neither max_prompt_length nor preflight gives their length"
)
_OF_THE_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_OF_THE_PROCESSOR = ("processor_config.json", "preprocessor_config.json")
_DECIDING = (("model",), ("lora",), ("quantization",))
_NOT_COVERED = (
    "modules_to_save",
    "rank_pattern",
    "layers_to_transform",
    "layer_replication",
    "trainable_token_indices",
    "use_dora",
)


def memory_needs(context: Context, *, decides: bool = False) -> MemoryNeeds | str:
    """The update and the layout of a recipe, or why its memory is unknown.

    decides: a rule chooses a value by it, so the estimate ignores what preflight counted on this machine. Undecided
    settings count as little as possible: a micro-batch of one completion, with checkpointing, and vLLM in separate
    processes. Raises NotJudged if a value was refused that decides what is trained.
    """
    if any(path[:1] in _DECIDING for path in context.refused):
        raise NotJudged("memory")
    output = _output(context)
    if output is None:
        return "grpo-run does not know how this release of trl computes probabilities"
    if context.value("GRPOConfig.use_liger_kernel"):
        return "grpo-run has no estimate for the kernels of liger"
    kernel = context.value("model_init_kwargs.attn_implementation")
    attention = "sdpa" if kernel in (None, "auto") else _ATTENTION.get(str(kernel))
    if attention is None:
        return f"grpo-run has no estimate for attention by {kernel}"
    config = model_config(context)
    if config is not None and _has_separate_experts(context, config):
        return "grpo-run has no estimate for the experts of this release of transformers"
    weights = _weight_width(context, config)
    if weights is None:
        return f"the width of dtype {context.value('model_init_kwargs.dtype')} is unknown until the model is read"
    adapter, four_bits = _adapter(context), _four_bits(context)
    if isinstance(adapter, str):
        return adapter
    if isinstance(four_bits, str):
        return four_bits
    prompt, assumed = longest_prompt(context, decides=decides)
    is_known = _UNKNOWN_PROMPT not in assumed
    images = _images(context, config, decides=decides) if config is not None and image_columns(context) else None
    if images is not None:
        prompt, assumed = prompt + images.tokens * bool(assumed), (*assumed, *images.assumed)
    cut, strategy = _batch(context), _strategy(context)
    storage = context.value("BitsAndBytesConfig.bnb_4bit_quant_storage")
    if strategy == "fsdp2" and four_bits is not None and storage != context.value("model_init_kwargs.dtype"):
        return "grpo-run has no estimate for 4-bit weights that fsdp2 does not shard"
    is_mixed = bool(context.value("GRPOConfig.bf16") or context.value("GRPOConfig.fp16"))
    # DeepSpeed's own bf16 and fp16 are not autocast, they cast the model; accelerate, accelerator.py: native_amp
    is_cast = is_mixed and weights == 2 and strategy.startswith("zero")
    if adapter is not None and is_cast:
        adapter = adapter._replace(width=2)
    update = Update(
        # FSDP2 computes with copies in the type of mixed precision.
        weight_width=2 if strategy == "fsdp2" and is_mixed else weights,
        autocast_width=2 if is_mixed and not is_cast else None,
        four_bits=four_bits,
        adapter=adapter,
        is_checkpointing=context.value("GRPOConfig.gradient_checkpointing") is not False,
        attention=attention,
        batch=cut.size,
        prompt=prompt,
        completion=context.whole("GRPOConfig.max_completion_length"),
        accumulation=cut.accumulation,
        optimizer=context.text("GRPOConfig.optim"),
        output=output,
        device="cpu" if context.value("world.device") == "cpu" else "cuda",
        caches_copies=strategy != "zero3",
        pixels=0 if images is None else images.pixels,
    )
    layout = _layout(context, strategy, cut)
    assumed = (*assumed, *size_assumptions(context))
    short_prompt = None if is_known or images is not None else _SHORT_PROMPT
    return MemoryNeeds(config, update, layout, gpu_bytes(context), assumed, short_prompt)


def _output(context: Context) -> Output | None:
    release = context.stack.version("trl")
    return None if release is None else cast(Output | None, output_layer(release))


def _has_separate_experts(context: Context, config: Mapping[str, object]) -> bool:
    """Whether the experts of a layer are separate modules, as before transformers 5, and not one weight."""
    architecture, release = read_architecture(config), context.stack.version("transformers")
    has_experts = architecture is not None and architecture.experts is not None
    return has_experts and (release is None or is_within(release, "<5"))


def _weight_width(context: Context, config: Mapping[str, object] | None) -> int | None:
    """Bytes of a weight as the model is loaded; for auto, as its config.json says."""
    dtype = context.value("model_init_kwargs.dtype")
    if dtype == "auto" and config is not None:
        dtype = config.get("dtype") or config.get("torch_dtype")
    return _WIDTHS.get(str(dtype or "float32"))


def _adapter(context: Context) -> Adapter | str | None:
    if not context.has_section("lora"):
        return None
    lora, named = context.settings.under("LoraConfig"), context.value("LoraConfig.target_modules")
    is_listed = isinstance(named, list) and all(isinstance(entry, str) for entry in named)
    targets = ends(cast(str | list[str], named)) if is_listed or isinstance(named, str) else None
    odd = next((key for key in _NOT_COVERED if lora.get(key)), None)
    if targets is None or odd is not None:
        return f"grpo-run has no estimate for an adapter with {odd or 'these target_modules'}"
    width = _WIDTHS[adapter_dtype(context) or "float32"]
    spares, dropout = lora.get("exclude_modules") == TOWERS, bool(lora.get("lora_dropout"))
    return Adapter(context.whole("LoraConfig.r"), targets, width, has_dropout=dropout, spares_vision=spares)


def _four_bits(context: Context) -> FourBits | str | None:
    if not is_quantized(context):
        return None
    if not context.value("BitsAndBytesConfig.load_in_4bit"):
        return "grpo-run has no estimate for 8-bit weights"
    width = _WIDTHS.get(str(context.value("BitsAndBytesConfig.bnb_4bit_compute_dtype") or "float32"), 4)
    return FourBits(width, bool(context.value("BitsAndBytesConfig.bnb_4bit_use_double_quant")))


def longest_prompt(context: Context, *, decides: bool = False) -> tuple[int, tuple[str, ...]]:
    """The tokens of the longest prompt, and the assumption if nothing limits them. decides: as in memory_needs."""
    limits = [context.value("GRPOConfig.max_prompt_length")]
    if not context.has_section("datasets"):  # of whose sources each has its own
        limits.append(context.value("dataset.max_prompt_tokens.limit"))
    known = [limit for limit in limits if isinstance(limit, int)]
    if known:
        return min(known), ()
    window, completion = (
        context.value("GRPOConfig.vllm_max_model_length"),
        context.value("GRPOConfig.max_completion_length"),
    )
    if isinstance(window, int) and isinstance(completion, int) and window > completion:
        return window - completion, ()
    key = None if decides else prompts_key(context)
    if key is not None and (counted := read_counted(key)) is not None:
        of = f"of the {counted.rows:,} rows" if counted.counted == counted.rows else f"of {counted.counted:,} rows"
        return counted.longest, (
            f"prompts of at most {counted.longest} tokens, the longest {of} that preflight counted",
        )
    return _ASSUMED_PROMPT, (_UNKNOWN_PROMPT,)


class _Images(NamedTuple):
    """The images of a row: numbers that the processor makes of them, and tokens that are not counted elsewhere."""

    pixels: int
    tokens: int
    assumed: tuple[str, ...]


def _images(context: Context, config: Mapping[str, object], *, decides: bool) -> _Images | None:
    """The most that the images of a row are: as preflight saw them, else all that the processor makes of an image.

    decides: as in memory_needs. None for a model that is not covered.
    """
    from grpo_recipes.user_files.vision_model import most_of_an_image  # a recipe of text does not pay for it

    key = None if decides else prompts_key(context)
    counted = None if key is None else read_counted(key)
    if counted is not None and counted.pixels:
        return _Images(counted.pixels, 0, ())
    most = context.value("dataset.max_pixels")
    largest = most_of_an_image(config, processor_config(context), most if isinstance(most, int) else None)
    if largest is None:
        return None
    row, columns = first_row_of(context) or {}, image_columns(context)
    number = sum(len(of) if isinstance(of := row.get(name), list) and of else 1 for name in columns)
    where = "a row" if number == len(columns) else "the first row"
    note = f"{number} image{'s' if number > 1 else ''} in {where} with at most {largest[1]} tokens each, uncounted"
    return _Images(number * largest[0], number * largest[1] if counted is None else 0, (note,))


def prompts_key(context: Context) -> str | None:
    """The key under which a preflight keeps the prompt lengths, None if more than files and texts make the prompts."""
    if any(context.has_section(name) for name in ("tools", "environment", "rollout")):
        return None
    if context.value("dataset.path") is None:
        return None
    sections = {name: context.source.values.get(name) for name in ("dataset", "model", "tokenizer")}
    local: dict[str, str | None] = {}
    for section, key in (("dataset", "path"), ("model", "model_name_or_path")):
        local[section] = local_path(context.text(f"{section}.{key}"), context.source.directory((section, key)))
        values = sections[section]
        if local[section] is not None and isinstance(values, Mapping):  # the recipe of a run folder has absolute paths
            sections[section] = {**values, key: local[section]}
    data, model = local["dataset"], local["model"]
    if data is not None and not os.path.isfile(data):
        return None
    names = _OF_THE_TOKENIZER + (_OF_THE_PROCESSOR if image_columns(context) else ())
    files = [] if model is None else [os.path.join(model, name) for name in names]
    inputs = [sections, context.value("GRPOConfig.chat_template_kwargs")]
    return key_of(inputs, [*([] if data is None else [data]), *files])


class _BatchCut(NamedTuple):
    """Completions of a micro-batch, micro-batches of a step, and of a generation."""

    size: int
    accumulation: int
    steps: int


def _batch(context: Context) -> _BatchCut:
    """How the batch is cut; the size alone is enough if the recipe sets prompts_per_step."""
    size, written = context.value("GRPOConfig.per_device_train_batch_size"), context.value(_ACCUMULATION)
    feeds, prompts = context.value("GRPOConfig.steps_per_generation"), context.value("training.prompts_per_step")
    size = size if isinstance(size, int) else 1
    accumulation = written if isinstance(written, int) else 1
    if isinstance(prompts, int) and not isinstance(written, int):
        completions = prompts * context.whole("GRPOConfig.num_generations")
        accumulation = max(1, completions // context.whole("world.num_processes") // size)
        feeds = accumulation * context.whole("grpo.optimizer_steps_per_generation")
    return _BatchCut(size, accumulation, max(1, feeds) if isinstance(feeds, int) else accumulation)


def _strategy(context: Context) -> Strategy:
    strategy = context.value("distributed.strategy")
    if strategy == "auto":
        strategy = "single" if context.whole("world.num_processes") == 1 else "ddp"
    return cast(Strategy, strategy)


def _layout(context: Context, strategy: Strategy, cut: _BatchCut) -> Layout:
    generation: Generation = "transformers"
    use_vllm, has_kl = context.value("GRPOConfig.use_vllm"), bool(context.value("GRPOConfig.beta"))
    if use_vllm in (True, "auto"):
        is_beside = use_vllm == "auto" or context.value("GRPOConfig.vllm_mode") != "colocate"
        generation = "vllm_server" if is_beside or has_a_gpu_of_its_own(context) else "vllm_colocate"
    is_corrected = use_vllm is True and context.value("GRPOConfig.vllm_importance_sampling_correction") is True
    every = cut.steps * context.whole("GRPOConfig.num_iterations")
    share, ranks = (
        context.value(f"GRPOConfig.vllm_{name}") for name in ("gpu_memory_utilization", "tensor_parallel_size")
    )
    cache = context.mapping("generation.vllm_engine").get("kv_cache_memory_bytes")
    return Layout(
        strategy=strategy,
        processes=context.whole("world.num_processes"),
        generation=generation,
        sequences=cut.size * cut.steps,
        has_reference=has_kl and not context.has_section("lora"),
        scores=has_kl or is_corrected or cut.accumulation % every != 0,
        offloads_optimizer=context.value("distributed.offload_optimizer_device") != "none",
        offloads_weights=context.value("distributed.offload_param_device") != "none",
        keeps_gathered=context.settings.under("distributed.fsdp").get("reshard_after_forward") is False,
        vllm_share=float(share) if isinstance(share, int | float) else None,
        vllm_cache=cache if isinstance(cache, int) and cache > 0 else None,
        vllm_sleeps=bool(context.value("GRPOConfig.vllm_enable_sleep_mode")),
        vllm_ranks=ranks if isinstance(ranks, int) else 1,
        gathers_to_generate=context.value("GRPOConfig.ds3_gather_for_generation") is not False,
        evaluates=context.has_section("evaluation"),
        asks_vllm=context.value("evaluation.generated_by") == "vllm",
        warms_up=context.has_section("warm_start"),
    )


TABLE = "output_layer"


def output_layer(trl: str) -> str | None:
    """The way of this release: in tiles ("fused"), from whole logits ("logits") or by a kernel that reads them.

    None for a release that was not looked into.
    """
    return next((str(row["by"]) for row in table(TABLE)["computes"] if is_within(trl, row["trl"])), None)
