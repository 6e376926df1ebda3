"""What can be asked of a generator beside the format: vLLM's SamplingParams, transformers' GenerationConfig.

The table of transformers is `data/generation_keys.json`, of one release; the fields of vLLM's class are facts of each.
"""

from collections.abc import Mapping

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within

VLLM, TRANSFORMERS = "vLLM", "transformers"

# The key of the format for a key of either.
HOMES = {
    "cache_implementation": "trl.cache_implementation",
    "eos_token_id": "generation.stop_token_ids",
    "include_stop_str_in_output": "generation.include_stop_str_in_output",
    "max_completion_length": "generation.max_completion_length",
    "max_new_tokens": "generation.max_completion_length",
    "max_tokens": "generation.max_completion_length",
    "min_new_tokens": "generation.min_tokens",
    "min_p": "generation.min_p",
    "min_tokens": "generation.min_tokens",
    "n": "grpo.num_generations",
    "num_return_sequences": "grpo.num_generations",
    "repetition_penalty": "generation.repetition_penalty",
    "stop": "generation.stop",
    "stop_strings": "generation.stop",
    "stop_token_ids": "generation.stop_token_ids",
    "temperature": "generation.temperature",
    "top_k": "generation.top_k",
    "top_p": "generation.top_p",
    "truncate_prompt_tokens": "generation.max_prompt_length",
}
LISTS = ("generation.stop", "generation.stop_token_ids")
# What every run has.
ALWAYS = {"do_sample": "true", "skip_special_tokens": "false where a stop needs it"}

_BEAMS = "with it completions are no samples of the policy, which GRPO learns from"
_OUTPUT = "TRL reads the tokens of the completions and asks for what it needs beside them"
_IDS = "the tokenizer says it"
# Keys that are known and that no run can have, with the reason.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("num_beams", "num_beam_groups", "diversity_penalty", "length_penalty", "early_stopping"), _BEAMS),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "constraints", "force_words_ids", "use_beam_search"), _BEAMS),
    **dict.fromkeys(("best_of", "trace_decode_token_ids"), _BEAMS),
    **dict.fromkeys(("return_dict_in_generate", "output_scores", "output_logits", "output_attentions"), _OUTPUT),
    **dict.fromkeys(("output_hidden_states", "logprobs", "prompt_logprobs", "prompt_logprob_token_ids"), _OUTPUT),
    **dict.fromkeys(("prompt_logprob_start", "logprob_token_ids", "flat_logprobs", "output_kind"), _OUTPUT),
    **dict.fromkeys(("stream_interval", "skip_clone", "output_text_buffer_length"), _OUTPUT),
    **dict.fromkeys(("bos_token_id", "pad_token_id", "decoder_start_token_id"), _IDS),
    "detokenize": "stop texts are found in what vLLM decodes",
    "guided_decoding": "write trl.vllm_structured_outputs_regex",
    "logits_processors": "it is code, which a recipe has under rewards alone",
    "max_length": "it counts the prompt too; write generation.max_completion_length",
    "max_time": "the clock of the machine would end completions",
    "min_length": "it counts the prompt too; write generation.min_tokens",
    "seed": "completions of a prompt that have one seed are all the same; write the recipe's own seed",
}


def named_by(backend: str, facts: Facts) -> frozenset[str]:
    """The keys of a backend, of its newest release where the target's is not known or has none."""
    known = keys_of(backend, facts)
    newest = shipped_facts("vllm", releases_with_facts("vllm")[-1]) if known is None else None
    return known or (frozenset(newest.owners["SamplingParams"].fields) if newest is not None else frozenset())


def keys_of(backend: str, facts: Facts) -> frozenset[str] | None:
    """The keys that a backend of the target reads, None where its release is not known."""
    if backend == VLLM:
        fields = facts.fields("SamplingParams")
        return None if fields is None else frozenset(fields)
    data, version = table("generation_keys"), facts.versions.get("transformers")
    later = {key for key, window in data["windows"].items() if version is not None and not is_within(version, window)}
    return frozenset(data["keys"]) - later
