"""Images are in the columns that `dataset.images` names, and reach generation, loss, evaluation and rewards.

TRL trains on the images of a column `image` or `images`, and of parts of messages, whatever a recipe says. Evaluation,
preflight and rewards get those of `dataset.images` and no others: a held-out score would silently measure a different
task than training. An `image_url` in a message is loaded for generation and missing in the loss. So rows with other
images are refused. A vision-language model also trains on text, which TRL supports since 0.20 (MDL003); its processor
needs Pillow and, for some families, torchvision (STK010).

Since 0.24, TRL takes a list of images for each row. Older releases read one column `image`, and with `images` they
silently train on text. Images need messages and a vision-language model. The rule refuses settings that would lose
them: continuous batching does not pass them on, and a truncated prompt may lose an image's tokens. vLLM sees the images
of the loss only in the training process, on the releases and for the families that SHM030 names. Tools, environments,
rollouts, redrawn groups and Liger's loss have not been tested with images. A reward model would judge the text alone.

PaliGemma is refused. Its tokens of type 0 see each other, those of type 1 only earlier ones. It generates with type 1,
but TRL gives type 0 to the whole completion before it computes the loss: each token is scored with the ones that follow
it, so the loss is not that of the policy (trl 0.26.2, 0.29.1, 1.9.0 and 1.16.0 with transformers 4.57.6 to 5.24.0;
PRF038 shows it on trl 1.15 or newer). Its processor takes no prompt without an image, so it does not train on text
either.

Rows without an image are trained as text (SHM031). In a mixture, either all sources have images or none.

FSDP2 shards the classes that a model names: LLaVA-NeXT and Gemma 3 name classes that they do not have, which raises
ValueError before the first step (accelerate 1.15.0). Idefics3 trains the same with FSDP2 as with DDP; other families
have not been tested. ZeRO gives the same result as DDP.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.prompt_shape import PICTURES, has_picture
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, sees, text_model
from grpo_recipes.rules._shared.training_rows import are_episodes, first_row_of, image_columns, makes_rows, own_columns
from grpo_recipes.rules.column_names_are_not_trls import reads_text_alone
from grpo_recipes.rules.vllm_is_shown_the_images import images_kept_from_vllm

ID = "DAT005"
IMAGES, FIRST = "dataset.images", "0.24.0"
_CUT = "truncation may remove some tokens of an image"
_UNTRIED = "no test shows that images reach the model and the loss with it"
# What is refused together with images if its value is true: the key, its name in the message, why, the fix.
BESIDE = (
    (
        "GRPOConfig.use_transformers_continuous_batching",
        "continuous batching",
        "TRL gives it the tokens of a prompt without its images",
        "use_transformers_continuous_batching: false",
    ),
    ("GRPOConfig.use_liger_kernel", "use_liger_kernel", _UNTRIED, "use_liger_kernel: false"),
    ("GRPOConfig.max_prompt_length", "max_prompt_length", _CUT, "remove max_prompt_length, and use max_pixels"),
    ("grpo.resample_groups", "resample_groups", _UNTRIED, "resample_groups: 0"),
    ("tools", "tools", _UNTRIED, "train without tools"),
)
# Families that FSDP2 trains as DDP does.
ON_FSDP2 = ("idefics3",)


def check(context: Context) -> Iterator[Finding]:
    yield from _other_columns(context)
    yield from _of_paligemma(context)
    yield from _with_images(context) if image_columns(context) else _without(context)


def _other_columns(context: Context) -> Iterator[Finding]:
    own, added = own_columns(context) or frozenset(), context.mapping("dataset.columns")
    for name in PICTURES:
        is_other = name in added or (name in own and name not in image_columns(context))
        if is_other and not reads_text_alone(context):
            yield _images_without_name(
                context, f"a column {name}", "dataset.columns" if name in added else "dataset.path"
            )
    prompt = (first_row_of(context) or {}).get("prompt")
    messages = prompt if isinstance(prompt, list) and context.value("dataset.prompt") is None else []
    if any(isinstance(message, Mapping) and has_picture(message) for message in messages):
        yield _images_without_name(context, "messages", "dataset.path")


def _images_without_name(context: Context, where: str, key: str) -> Finding:
    config = model_config(context)
    of_text = text_model(config) if config is not None and sees(config) else None
    instead = f", with a text model such as {of_text} for {context.text(MODEL)}" if of_text else ""
    message = f"the rows have images in {where}, which dataset.images does not name"
    because = "only the trainer would see them; evaluation would silently leave them out"
    if instead or key == "dataset.columns" or where == "messages":
        fix = f"a column of images that dataset.images names; or remove them and train on text{instead}"
    else:
        fix = f"dataset.images: {where.removeprefix('a column ')}"
    return context.finding(message, key, because, fix=fix)


def _with_images(context: Context) -> Iterator[Finding]:
    trl, config = context.stack.version("trl"), model_config(context)
    if trl is not None and is_within(trl, f"<{FIRST}"):
        because = "it reads one column `image`, and silently trains on text if the rows have lists of images"
        yield context.finding(f"trl {trl} does not take dataset.images", IMAGES, because, fix=f"trl>={FIRST}")
    if config is not None and not sees(config):
        because = "its config.json has no vision part, and TRL would stop at the first batch"
        fix = "model_name_or_path: a vision-language model, or remove dataset.images"
        yield context.finding(
            f"{context.text(MODEL)} is a text model, but dataset.images is set", MODEL, because, fix=fix
        )
    if makes_rows(context) or are_episodes(context):
        because = "the rows are generated, and have no column of images"
        yield context.finding("dataset.images needs dataset.path", IMAGES, because, fix="path: a data set with images")
    if context.value("dataset.prompt_format") == "standard" and context.value("dataset.prompt") is not None:
        because = "TRL puts images into messages, and fails on plain text"
        fix = "prompt_format: conversational"
        yield context.wrong(
            "dataset.images needs messages", "dataset.prompt_format", because, "conversational", fix=fix
        )
    for key, what, why, fix in BESIDE:
        if key in context.settings and context.value(key):
            yield context.finding(f"dataset.images cannot be combined with {what}", key, why, fix=fix)
    for obstacle in images_kept_from_vllm(context) if context.value("GRPOConfig.use_vllm") is True else ():
        yield context.finding(
            f"dataset.images cannot be combined with {obstacle.what}", obstacle.key, obstacle.why, fix=obstacle.fix
        )
    if context.value("distributed.strategy") == "fsdp2" and (config or {}).get("model_type") not in ON_FSDP2:
        message = "dataset.images cannot be combined with fsdp2"
        because = "of the vision-language models, only Idefics3 was tested with it; others fail to start"
        yield context.wrong(message, "distributed.strategy", because, "zero3", fix="strategy: zero3")
    for section in ("environment", "environments", "rollout"):
        if context.has_section(section):
            message = f"dataset.images cannot be combined with {section}"
            yield context.finding(message, section, _UNTRIED, fix=f"train without {section}")
    if any(reward.get("model") is not None for reward in context.items("rewards")):
        because = "TRL passes it the prompt and the completion as text"
        yield context.finding(
            "a reward model does not see dataset.images", "rewards", because, fix="use a reward in Python"
        )


def _of_paligemma(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or config.get("model_type") != "paligemma":
        return
    if image_columns(context):
        because = "TRL gives its completions the type of a prefix, so the loss shows each token the ones that follow it"
        fix = "model_name_or_path: a different vision-language model"
    else:
        because = "its processor takes no prompt without an image"
        fix = f"model_name_or_path: a text model, such as {text_model(config)}"
    yield context.finding("PaliGemma cannot be trained", MODEL, because, fix=fix)


def _without(context: Context) -> Iterator[Finding]:
    if any(source.get("images") for source in context.items("datasets")):
        because = "all sources of a mixture have the same columns, and a source without images has only text"
        message = "some sources have images and others do not"
        yield context.finding(message, "datasets", because, fix="set images in each source")
    elif context.value("dataset.max_pixels") is not None:
        because = "the recipe names no column of images"
        fix = "dataset.images: the column with the images; or remove max_pixels"
        yield context.finding("max_pixels has no images to scale", "dataset.max_pixels", because, fix=fix)
