"""The class of the policy generates text from a prompt.

TRL loads the class that config.json names under `architectures`. An encoder, a classifier or a model without its
output layer has no `generate`, or raises at the first batch; a model with an encoder and a decoder gets prompt and
completion as the text to be encoded. An end token at or above `vocab_size` is never sampled, so each completion goes on
to max_completion_length. Classes with their own code next to the weights are not judged.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, has_own_code, model_config, task_of

ID = "MDL009"
APPLIES_TO = {"trl": ">=0.20.0"}


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or has_own_code(config):
        return
    name = context.text(MODEL)
    task = task_of(config)
    if task is not None and task != "generates":
        why = [f"its config.json names {_class(config)}", "TRL loads this class, which cannot generate completions"]
        fix = "model_name_or_path: a model for text generation, such as one of the class ...ForCausalLM"
        yield context.finding(f"{name} {task}, and does not generate text", MODEL, why, fix=fix)
    elif config.get("is_encoder_decoder") is True:
        because = "its decoder expects the completion alone, but TRL passes prompt and completion as one text"
        fix = "model_name_or_path: a decoder, such as one of the class ...ForCausalLM"
        yield context.finding(f"{name} has an encoder and a decoder", MODEL, because, fix=fix)
    yield from _end(context, name, config)


def _class(config: Mapping[str, object]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else "no class"


def _end(context: Context, name: str, config: Mapping[str, object]) -> Iterator[Finding]:
    inner = config.get("text_config")
    of_text = inner if isinstance(inner, dict) and "vocab_size" in inner else config
    size, ends = of_text.get("vocab_size"), config.get("eos_token_id", of_text.get("eos_token_id"))
    ids = [token for token in (ends if isinstance(ends, list) else [ends]) if isinstance(token, int)]
    if isinstance(size, int) and ids and min(ids) >= size and not context.value("tokenizer.add_tokens"):
        message = f"{name} has the end token {ids[0]}, but only {size} tokens"
        because = "config.json names eos_token_id and vocab_size; a token that does not exist ends no completion"
        fix = "the end token of its tokenizer.json as eos_token_id in config.json and generation_config.json"
        yield context.finding(message, MODEL, because, fix=fix, severity="warning")
