"""transformers supports the options for its generation.

`cache_implementation` is one of the names that transformers supports, and the keys of
`transformers_continuous_batching_config` are fields of its ContinuousBatchingConfig. GRPOTrainer passes both on when it
is built: transformers raises ValueError for an unknown name and TypeError for an unknown key, after loading the model.
Under vLLM, and without continuous batching, they have no effect.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context

ID = "GRP008"
CACHE = "GRPOConfig.cache_implementation"
BATCHING = "GRPOConfig.use_transformers_continuous_batching"
OPTIONS = "GRPOConfig.transformers_continuous_batching_config"
# All names from 4.48 to 5.23; each release lacks some.
CACHES = (
    *("dynamic", "dynamic_full", "offloaded", "quantized", "static", "offloaded_static", "sliding_window", "hybrid"),
    *("hybrid_chunked", "offloaded_hybrid", "offloaded_hybrid_chunked", "mamba", "paged"),
)
# All options from 5.8 to 5.23.
FIELDS = (
    *("allow_block_sharing", "auto_switch_to_flash", "block_size", "cpu_group_timeout", "cpu_offload_space"),
    *("cpu_offload_space_safety_threshold", "disable_nccl_graph_mixing"),
    *("decode_compile_config", "default_compile_level", "drop_unsupported_processors", "kv_padding_interval_size"),
    *("max_batch_tokens", "max_blocks_per_request", "max_cached_graphs", "max_memory_percent", "max_queue_size"),
    *("max_requests_per_batch", "num_blocks", "page_size", "per_request_processors", "q_padding_interval_size"),
    *("return_logprobs", "safety_margin", "scheduler_type", "seed", "use_async_batching", "use_cuda_graph"),
    *("use_default_compile_configs", "varlen_compile_config"),
)


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is True:
        return
    word = context.value(CACHE)
    if isinstance(word, str) and word not in CACHES:
        close = nearest_words(word, CACHES, cutoff=0.6)
        because = f"transformers supports {', '.join(CACHES)}, and raises ValueError after loading the model"
        yield context.wrong(f"transformers has no cache {word}", CACHE, because, close[0] if close else None)
    if context.value(BATCHING) is True:
        yield from _options(context)


def _options(context: Context) -> Iterator[Finding]:
    options, path = context.value(OPTIONS), ("trl", "transformers_continuous_batching_config")
    if isinstance(options, str) and not options.startswith("{"):
        because = "GRPOTrainer converts it to a map, and raises ValueError after loading the model"
        yield _finding(context, path, f"{path[-1]} is a string, but must be a map", because, None)
    for name in context.mapping(OPTIONS):
        if name not in FIELDS:
            because = "ContinuousBatchingConfig raises TypeError after loading the model"
            close = nearest_words(name, FIELDS, cutoff=0.7)
            yield _finding(context, (*path, name), f"continuous batching has no option {name}", because, close)


def _finding(context: Context, path: Path, message: str, because: str, close: list[str] | None) -> Finding:
    value = context.mapping(OPTIONS).get(str(path[-1]))
    written = [Patch((*path[:-1], close[0]), value)] if close else []
    fix = f"write it as {close[0]}" if close else None
    return context.finding(message, OPTIONS, because, fix=fix, patch=[Patch(path, remove=True), *written])
