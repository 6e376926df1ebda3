"""Hides the differences between releases of TRL and transformers; nothing else looks for them.

Every function inspects the installed library; none compares versions. If a release lacks something, it is not needed
there, or the planner has refused the recipe.
"""

import asyncio
import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import chain, islice
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from accelerate.utils import fsdp_utils, gather_object
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import other
from transformers import GenerationConfig
from trl.models import unwrap_model_for_generation
from trl.trainer import grpo_trainer

from grpo_recipes.contract.metric_names import MEAN_LENGTH
from grpo_recipes.contract.seams import is_in
from grpo_recipes.worker._shared.replacing import replace

# Modules that PEFT puts in place of the model's.
ADAPTED_MODULES = (BaseTunerLayer, getattr(other, "AuxiliaryTrainingWrapper", other.ModulesToSaveWrapper))
# Where TRL looks up vLLM's class LLM; newer releases have a separate module for generation.
MODULES_WITH_ENGINE = ("trl.generation.vllm_generation", "trl.trainer.grpo_trainer")

# A processor's fields with a value for each token.
OF_TOKENS = ("token_type_ids", "mm_token_type_ids")
LOGITS_KEYWORDS = ("logits_to_keep", "num_logits_to_keep")


def keywords_for(function: Callable[..., Any], **keywords: Any) -> dict[str, Any]:
    """Returns the keywords that a function of this release has parameters for."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in names}


def model_for_generation(trainer: Any) -> Any:
    """Returns a context manager that gives the unwrapped policy, with its weights gathered under ZeRO-3."""
    keywords = {
        "gather_deepspeed3_params": getattr(trainer.args, "ds3_gather_for_generation", True),
        "gradient_checkpointing_kwargs": trainer.args.gradient_checkpointing_kwargs,
    }
    return unwrap_model_for_generation(
        trainer.model_wrapped, trainer.accelerator, **keywords_for(unwrap_model_for_generation, **keywords)
    )


def generation_config(**keywords: Any) -> Any:
    """Returns a GenerationConfig of the keywords that are not None, with compilation disabled."""
    given = {name: value for name, value in keywords.items() if value is not None}
    if hasattr(GenerationConfig(), "disable_compile"):
        given["disable_compile"] = True
    return GenerationConfig(**given)


def parse_response(
    tokenizer: Any, tokens: list[int], prompt: list[int], tools: list[Any] | None = None
) -> dict[str, Any] | None:
    """Returns the message that TRL parses from a completion's tokens, None if it decodes them as text.

    tools: the tools that the prompt was rendered with.
    """
    templates = [getattr(tokenizer, name, None) for name in ("response_template", "response_schema")]
    if not hasattr(tokenizer, "parse_response") or not any(template is not None for template in templates):
        return None
    from trl.chat_template_utils import parse_response

    keywords = keywords_for(parse_response, prefix=prompt, tools=tools or None)
    message: dict[str, Any] = parse_response(tokenizer, tokens, **keywords)
    return message


def as_synchronous(reward: Any) -> Any:
    """Returns the reward in a form TRL can call: releases without async support get a function that awaits it."""
    if not inspect.iscoroutinefunction(reward) or hasattr(grpo_trainer, "asyncio"):
        return reward

    @functools.wraps(reward)
    def waiting(**given: Any) -> Any:
        return asyncio.run(reward(**given))

    return waiting


def micro_batches_per_generation(arguments: Any) -> int:
    """Returns the micro-batches that share a generation; in older releases, those of an optimizer step."""
    return int(getattr(arguments, "steps_per_generation", None) or arguments.gradient_accumulation_steps)


def stop_vllm_at(trainer: Any, ids: Iterable[int]) -> None:
    """Adds these tokens to the stop tokens of every request to vLLM.

    Does nothing if TRL passes the training arguments' own dict, which must stay as planned.
    """
    generation = getattr(trainer, "vllm_generation", None)
    if generation is not None:
        known = generation.generation_kwargs
        generation.generation_kwargs = {**known, "stop_token_ids": [*known.get("stop_token_ids", ()), *ids]}


def module_with_engine() -> ModuleType | None:
    """Returns the module where this TRL looks up vLLM's LLM; None without vLLM or if it only supports servers."""
    for name in MODULES_WITH_ENGINE:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if hasattr(module, "LLM"):
            return module
    return None


def vllm_engine(trainer: Any) -> Any:
    """Returns the vLLM engine (LLM) in this process, or None."""
    return getattr(getattr(trainer, "vllm_generation", trainer), "llm", None)


def vllm_client(trainer: Any) -> Any:
    """Returns TRL's client of a vLLM server, or None; only the first process has one."""
    return getattr(getattr(trainer, "vllm_generation", trainer), "vllm_client", None)


def gather_for_engine(trainer: Any, values: list[Any]) -> list[Any]:
    """Returns the values of all processes that share this engine, in the order in which TRL gathers prompts."""
    generation = trainer.vllm_generation
    if generation.tensor_parallel_size == 1:
        return values
    gathered: list[Any] = [None] * generation.tensor_parallel_size
    torch.distributed.all_gather_object(gathered, values, group=generation.tp_group)
    return [value for of_one in gathered for value in of_one]


def sampling_of_vllm(trainer: Any) -> dict[str, Any]:
    """Returns the extra sampling parameters of every vLLM request, those without an argument of the training."""
    generation = getattr(trainer, "vllm_generation", None)
    source = trainer.args if generation is None else generation
    return dict(getattr(source, "generation_kwargs", None) or {})


def generation_in_use(trainer: Any) -> int | None:
    """Returns the step whose weights vLLM has; it changes with each weight sync. None before the first."""
    step = int(trainer.seams.value("_last_loaded_step"))
    return None if step < 0 else step


def newest_names(logs: dict[str, Any], rewards: Iterable[str]) -> dict[str, Any]:
    """Returns the trainer's logs with figures renamed as in the newest TRL."""
    names = {f"rewards/{name}": f"rewards/{name}/mean" for name in rewards}
    names["completion_length"] = MEAN_LENGTH
    return {names.get(name, name): value for name, value in logs.items()}


def has_fused_loss(trainer: Any) -> bool:
    """Whether Liger computes the loss, by either of the names that releases have for it."""
    return any(getattr(trainer, name, False) for name in ("use_liger_loss", "use_liger_kernel"))


def logits_keyword(model: Any) -> str | None:
    """Returns the name of the parameter of the model's forward that limits the logits, or None."""
    parameters = inspect.signature(model.forward).parameters
    return next((word for word in LOGITS_KEYWORDS if word in parameters), None)


def images_by_row(trainer: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the inputs other than tokens with which TRL calls the policy, for each row of a micro-batch, unpadded.

    TRL selects a row's images from those of the batch, whose layout depends on the processor.
    """
    rows: list[dict[str, Any]] = []

    def model(*, attention_mask: Any, **named: Any) -> Any:
        is_attended, beside = attention_mask[0].bool(), named.keys() - {"input_ids", "labels", "fused_lm_head"}
        rows.append({name: named[name][:, is_attended] if name in OF_TOKENS else named[name] for name in beside})
        return SimpleNamespace(log_probs=attention_mask)

    score = trainer.seams.whole("tokens are scored")
    ids, mask = (torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], dim=1) for name in ("ids", "mask"))
    fields = keywords_for(score, **{name: value for name, value in inputs.items() if value is not None})
    score(model, ids, mask, inputs["completion_ids"].shape[1], batch_size=1, **fields)
    return rows


class ShownImages(NamedTuple):
    """What a model was called with. parts: digests of images, tiles or patches.

    by_row: the tokens and parts of each row, if its images can be told from those of other rows.
    """

    parts: list[str]
    by_row: list[tuple[list[int], list[str]]]


def images_shown_in(named: dict[str, Any], counts: list[int] | None = None) -> ShownImages:
    """Returns the images in a model's keywords. counts: of each row, if known."""
    pixels, ids, mask = (named.get(name) for name in ("pixel_values", "input_ids", "attention_mask"))
    digests = [] if pixels is None else image_digests(pixels)
    parts = [*chain.from_iterable(digests)]
    if ids is None or mask is None or (pixels is not None and parts and pixels.dim() <= 3):
        return ShownImages(parts, [])
    if "pixel_attention_mask" in named or not counts or sum(counts) != len(digests):
        if len(digests) % len(ids):
            return ShownImages(parts, [])
        counts = [len(digests) // len(ids)] * len(ids)
    each = iter(digests)
    images = [[*chain.from_iterable(islice(each, count))] for count in counts]
    return ShownImages(
        parts, [(row[row_mask.bool()].tolist(), own) for row, row_mask, own in zip(ids, mask, images, strict=True)]
    )


def image_digests(pixels: Any) -> list[list[str]]:
    """Digests of the parts of each image in a processor's `pixel_values`: tiles, or the image or patch as a whole.

    Batches are padded with zeros: with empty tiles, and at the lower and right edges of tiles. Both are left out.
    """
    if pixels.dim() <= 3:
        return [[_digest(patch)] for patch in pixels.detach().float().cpu()]
    tiled = (image.reshape(-1, *image.shape[-3:]) for image in pixels.detach().float().cpu())
    return [[_digest(_unpad(tile)) for tile in tiles if tile.any()] for tiles in tiled]


def _unpad(tile: Any) -> Any:
    used = tile.bool().any(0)
    return tile[:, used.any(1)][:, :, used.any(0)]


def _digest(values: Any) -> str:
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()[:16]


def gather_from_all(trainer: Any, own: list[Any]) -> list[Any]:
    """Returns the values of all processes in rank order. All processes must call it."""
    return own if trainer.accelerator.num_processes == 1 else list(gather_object(own))


def on_any(trainer: Any, *flags: Any) -> list[bool]:
    """Returns each flag, true if set on any process. All processes must call it. flags: bools or 1-element tensors."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [bool(flag) for flag in flags]
    asked = torch.stack([torch.as_tensor(flag).to(trainer.accelerator.device, torch.int32) for flag in flags])
    torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
    return [bool(flag) for flag in asked.tolist()]


def base_model(trainer: Any, model: Any) -> Any:
    """Returns the model without the wrappers of accelerate and PEFT."""
    model = trainer.accelerator.unwrap_model(model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def gather_output_layer_with_its_norm() -> None:
    """Makes FSDP2 gather a trained output layer together with the last norm of the text model.

    TRL 1.16.0 multiplies by the output layer's weights and does not call it, so FSDP2 gathers them only if another
    module of their group is called. accelerate 1.15.0 adds the last norm, but does not find it in a part of a vision
    model or below PEFT. TRL then gathers the weights itself, and each process trains its shard with its own gradient.
    """
    if not is_in(version("accelerate"), "1.14"):  # older releases gather no group
        return
    find = vars(fsdp_utils).get("_find_final_norm")
    if getattr(find, "__name__", "") == "norm_of_text":
        return

    def norm_of_text(model: Any) -> Any:
        norm, output = find(model), getattr(model, "get_output_embeddings", lambda: None)()
        if norm is not None or output is None or not any(weight.requires_grad for weight in output.parameters()):
            return norm
        norms = [part for part in model.get_decoder().children() if "Norm" in type(part).__name__]
        return norms[-1] if norms else None

    replace(fsdp_utils, "_find_final_norm", norm_of_text)


def set_forward(model: Any, forward: Callable[..., Any], name: str = "forward") -> None:
    """Replaces a model's forward, or the method `name`, keeping its signature. The new function takes the model first.

    It becomes a method of the instance: PEFT calls forward without the module's hooks, and accelerate wraps a method.
    """
    signature = inspect.signature(getattr(model, name))
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *signature.parameters.values()]
    forward.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    replace(model, name, MethodType(forward, model))


def seed_of(words: str) -> int:
    """Returns a 32-bit seed from the sha256 of the words, so that seeds are unrelated."""
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")
