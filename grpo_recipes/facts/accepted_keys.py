"""Which keys other programs accept: sbatch, DeepSpeed, the generators, and reward functions of TRL."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within

# What a recipe may ask sbatch for, and in which form: everything else belongs to the user who submits the job.
#
# The table is `data/sbatch_options.json`. shapes: what a whole value looks like, by name. allowed: long options with
# the shapes that their value may have ("flag": it has none) and what they do. homes: those that the recipe has a key
# for. owned: those that grpo-run writes itself or cannot do with. users: those that run, read, write or send something,
# with what. Source: the manual of sbatch 24.11, and `sbatch --help` of 22.05, in tests/slurm.


FLAG = "flag"


def is_allowed(name: str) -> bool:
    """Whether a recipe may have the option."""
    return name in table("sbatch_options")["allowed"]


def has_shape(name: str, value: object) -> bool:
    """Whether a value of an allowed option has one of its shapes. true: the option stands without a value."""
    facts = table("sbatch_options")
    shapes = facts["allowed"][name]["shape"]
    if value is True:
        return FLAG in shapes
    text = str(value)
    is_plain = text.isprintable() and text == text.strip() and not (name == "gres" and "gpu" in text.lower())
    return is_plain and any(one != FLAG and re.fullmatch(facts["shapes"][one], text) for one in shapes)


def home(name: str) -> str | None:
    """The recipe's key for an option, None where it has none."""
    found: str | None = table("sbatch_options")["homes"].get(name)
    return found


def why_not(name: str) -> str | None:
    """Why no recipe has a known option, None for one that has no such reason."""
    facts = table("sbatch_options")
    found: str | None = facts["owned"].get(name) or facts["users"].get(name)
    return found


def is_the_users(name: str) -> bool:
    """Whether the user may hand the option to sbatch: it is not one that the job's script cannot do with."""
    return name not in table("sbatch_options")["owned"]


def longer(name: str) -> list[str]:
    """The known options that sbatch may take this beginning for."""
    facts = table("sbatch_options")
    names = [one for part in ("allowed", "homes", "owned", "users") for one in facts[part]]
    return [one for one in names if one.startswith(name) and one != name]


# Which keys of a DeepSpeed file are read, which of them grpo-run writes itself, and which are gone.
#
# The table is `data/deepspeed_keys.json`, of one release. owned: key in dots -> the recipe key that says it.


TABLE = Path(__file__).parent / "data" / "deepspeed_keys.json"


class DeepSpeedKeys(NamedTuple):
    """The keys of one release. sections: those that refuse unknown fields, by path in dots, with their fields.

    values: by the same paths, field -> [bool, int or float; smallest; greatest; whether it may be null].
    of_stages: field of the ZeRO section -> the strategies under which it is read, where not under all.
    """

    release: str
    read: frozenset[str]
    removed: frozenset[str]
    owned: Mapping[str, str]
    sections: Mapping[str, frozenset[str]]
    values: Mapping[str, Mapping[str, list[Any]]]
    of_stages: Mapping[str, tuple[str, ...]]


@cache
def deepspeed_keys() -> DeepSpeedKeys:
    """The table."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    zero = "zero_optimization"
    paths = {zero: zero, f"{zero}.offload_param": "offload_param", f"{zero}.offload_optimizer": "offload_optimizer"}
    paths |= {"bf16": "bf16", "fp16": "fp16"}
    alone = dict.fromkeys(table["read_by_zero3_alone"], ("zero3",))
    alone |= {f"stage3_{name}": ("zero3",) for name in alone if f"stage3_{name}" in table[zero]}
    return DeepSpeedKeys(
        release=table["deepspeed"],
        read=frozenset(table["read"]),
        removed=frozenset(table["removed"]),
        owned=table["owned"],
        sections={path: frozenset(table[name]) for path, name in paths.items()},
        values={path: table["values"][name] for path, name in paths.items()},
        of_stages=alone | dict.fromkeys(table["read_by_zero1_and_zero2_alone"], ("zero1", "zero2")),
    )


# What TRL passes to a reward function beside the columns of the data.


ALWAYS_PASSED = ("prompts", "completions")


def kept_back() -> tuple[str, ...]:
    """Columns that no reward gets, whatever the data has."""
    return tuple(table("reward_keywords")["kept_back"])


def not_passed(version: str | None) -> dict[str, str]:
    """Keywords that newer releases pass and this one does not, with the releases that do; none when not known."""
    if version is None:
        return {}
    rows = table("reward_keywords")["passed"]
    return {row["keyword"]: row["trl"] for row in rows if not is_within(version, row["trl"])}


# What can be asked of a generator beside the format: vLLM's SamplingParams, transformers' GenerationConfig.
#
# The table of transformers is `data/generation_keys.json`, of one release; the fields of vLLM's class are facts of
# each.


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
