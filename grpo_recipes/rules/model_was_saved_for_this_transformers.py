"""The planned transformers reads the files of the model.

transformers 4 does not read all that transformers 5 saves. In tokenizer_config.json, transformers 5 names its own
class, such as TokenizersBackend, and lists extra_special_tokens: transformers 4 ends with a ValueError or an
AttributeError, after the imports of the training. In config.json, transformers 5 writes rope_parameters and no
rope_theta and rope_scaling. transformers 4 reads only these: it takes the class's default, 10000 for most, and runs the
model with different positions, without a message. Seen with transformers 4.52.4 and 4.57.6.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.template import tokenizer_config

ID = "MDL010"
APPLIES_TO = {"transformers": "<5"}
CLASSES = ("MistralCommonBackend", "PythonBackend", "SentencePieceBackend", "TokenizersBackend")
# Families whose default in transformers 4.57.6 is not 10000.
THETA = {
    "gemma3_text": 1e6,
    "llama4_text": 5e5,
    "mixtral": 1e6,
    "phimoe": 1e6,
    "smollm3": 2e6,
    "ernie4_5": 5e5,
    "qwen2_vl_text": 1e6,
    "qwen2_5_vl_text": 1e6,
    "qwen3_vl_text": 5e6,
    "apertus": 12e6,
}
NEWER = "saved by transformers 5; this is transformers {}"


def check(context: Context) -> Iterator[Finding]:
    model, revision = context.text(MODEL), context.value("model_init_kwargs.revision")
    path = local_path(model, context.source.directory(("model", "model_name_or_path")))
    saved = tokenizer_config(path or model, None if revision is None else str(revision)) or {}
    newer = NEWER.format(context.stack.version("transformers"))
    changes = []
    if (name := saved.get("tokenizer_class")) in CLASSES:
        changes.append((f"tokenizer_class {name}", "tokenizer_class PreTrainedTokenizerFast"))
    if isinstance(saved.get("extra_special_tokens"), list):
        changes.append(("a list as extra_special_tokens", "its list as additional_special_tokens"))
    if changes:
        has, better = (" and ".join(texts) for texts in zip(*changes, strict=True))
        fix = f"transformers 5 with a newer trl, or in tokenizer_config.json {better}"
        yield context.finding(f"the tokenizer of {model} cannot be loaded", MODEL, [f"it has {has}", newer], fix=fix)
    config = model_config(context) or {}
    text = config.get("text_config")
    for part in (config, text if isinstance(text, Mapping) else {}):
        rope = part.get("rope_parameters")
        default = {"rope_theta": THETA.get(str(part.get("model_type")), 1e4), "rope_type": "default"}
        if isinstance(rope, Mapping) and rope != default and not part.keys() & {"rope_theta", "rope_scaling"}:
            yield context.finding(
                f"the positions of {model} would be lost",
                MODEL,
                [f"config.json has rope_parameters {dict(rope)}, but no rope_theta and rope_scaling", newer],
                fix="transformers 5 with a newer trl, or rope_theta and rope_scaling in config.json",
                severity="warning",
            )
