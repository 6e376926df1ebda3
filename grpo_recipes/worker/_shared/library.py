"""What the releases of TRL and transformers call or take differently: looked for here, and nowhere else.

Each function looks at what is installed; none compares versions. What a release lacks is not needed there, or the
planner refused it.
"""

import asyncio
import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterable
from types import MethodType, ModuleType
from typing import Any

import torch
from accelerate.utils import gather_object
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import other
from transformers import GenerationConfig
from trl.models import unwrap_model_for_generation
from trl.trainer import grpo_trainer

from grpo_recipes.contract.metric_names import MEAN_LENGTH

# The modules that PEFT puts in the place of the model's own.
ADAPTED_MODULES = (BaseTunerLayer, getattr(other, "AuxiliaryTrainingWrapper", other.ModulesToSaveWrapper))
# Where TRL looks up vLLM's class LLM; newer releases have a module for generation.
MODULES_WITH_ENGINE = ("trl.generation.vllm_generation", "trl.trainer.grpo_trainer")

# The method of TRL that scores completions, from trl 0.19.1 on and before.
SCORING = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")
LOGITS_KEYWORDS = ("logits_to_keep", "num_logits_to_keep")


def taken(function: Callable[..., Any], **keywords: Any) -> dict[str, Any]:
    """The keywords that a function of this release has a parameter for."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in names}


def model_for_generation(trainer: Any) -> Any:
    """A context that gives the policy ready to generate: unwrapped, and under ZeRO-3 with its weights gathered."""
    keywords = {
        "gather_deepspeed3_params": getattr(trainer.args, "ds3_gather_for_generation", True),
        "gradient_checkpointing_kwargs": trainer.args.gradient_checkpointing_kwargs,
    }
    return unwrap_model_for_generation(
        trainer.model_wrapped, trainer.accelerator, **taken(unwrap_model_for_generation, **keywords)
    )


def generation_config(**keywords: Any) -> Any:
    """A GenerationConfig of the keywords that are not None, which compiles nothing."""
    given = {name: value for name, value in keywords.items() if value is not None}
    if hasattr(GenerationConfig(), "disable_compile"):
        given["disable_compile"] = True
    return GenerationConfig(**given)


def parsed_response(
    tokenizer: Any, tokens: list[int], prompt: list[int], tools: list[Any] | None = None
) -> dict[str, Any] | None:
    """The message that TRL parses from the tokens of a completion, None where it decodes them as text.

    tools: those that its prompt was rendered with.
    """
    templates = [getattr(tokenizer, name, None) for name in ("response_template", "response_schema")]
    if not hasattr(tokenizer, "parse_response") or not any(template is not None for template in templates):
        return None
    from trl.chat_template_utils import parse_response

    keywords = taken(parse_response, prefix=prompt, tools=tools or None)
    message: dict[str, Any] = parse_response(tokenizer, tokens, **keywords)
    return message


def awaited(reward: Any) -> Any:
    """The reward as TRL can call it: releases that know no asynchronous functions get one that waits."""
    if not inspect.iscoroutinefunction(reward) or hasattr(grpo_trainer, "asyncio"):
        return reward

    @functools.wraps(reward)
    def waiting(**given: Any) -> Any:
        return asyncio.run(reward(**given))

    return waiting


def micro_batches_per_generation(arguments: Any) -> int:
    """Micro-batches that share one round of completions; those of one optimizer step in older releases."""
    return int(getattr(arguments, "steps_per_generation", None) or arguments.gradient_accumulation_steps)


def stop_vllm_at(trainer: Any, ids: Iterable[int]) -> None:
    """Lets each request to vLLM name these tokens too as ends of a completion.

    Nothing happens where TRL sends the arguments of the training themselves, which have to stay as planned.
    """
    generation = getattr(trainer, "vllm_generation", None)
    if generation is not None:
        known = generation.generation_kwargs
        generation.generation_kwargs = {**known, "stop_token_ids": [*known.get("stop_token_ids", ()), *ids]}


def module_with_engine() -> ModuleType | None:
    """The module in which this TRL looks up vLLM's class LLM, None without vLLM or where it knows servers alone."""
    for name in MODULES_WITH_ENGINE:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if hasattr(module, "LLM"):
            return module
    return None


def vllm_engine(trainer: Any) -> Any:
    """vLLM's LLM in this process, None where there is none."""
    return getattr(getattr(trainer, "vllm_generation", trainer), "llm", None)


def vllm_client(trainer: Any) -> Any:
    """TRL's client of a vLLM server, None where there is none: also on other processes than the first."""
    return getattr(getattr(trainer, "vllm_generation", trainer), "vllm_client", None)


def gathered_for_engine(trainer: Any, values: list[Any]) -> list[Any]:
    """The values of all processes that share this one's engine, in the order in which TRL gathers their prompts."""
    generation = trainer.vllm_generation
    if generation.tensor_parallel_size == 1:
        return values
    gathered: list[Any] = [None] * generation.tensor_parallel_size
    torch.distributed.all_gather_object(gathered, values, group=generation.tp_group)
    return [value for of_one in gathered for value in of_one]


def sampling_of_vllm(trainer: Any) -> dict[str, Any]:
    """The sampling parameters that every request to vLLM carries beside those with a field of their own."""
    generation = getattr(trainer, "vllm_generation", None)
    source = trainer.args if generation is None else generation
    return dict(getattr(source, "generation_kwargs", None) or {})


def generation_in_use(trainer: Any) -> int | None:
    """The step whose weights vLLM has, another number after each hand-over; None before the first."""
    step = getattr(trainer, "_last_loaded_step", None)
    return None if step is None or step < 0 else int(step)


def newest_names(logs: dict[str, Any], rewards: Iterable[str]) -> dict[str, Any]:
    """What a trainer logs, by the names that the newest TRL has for the same figures."""
    names = {f"rewards/{name}": f"rewards/{name}/mean" for name in rewards}
    names["completion_length"] = MEAN_LENGTH
    return {names.get(name, name): value for name, value in logs.items()}


def logits_keyword(model: Any) -> str | None:
    """The keyword for the last logits that a model's forward declares, None when it has none."""
    parameters = inspect.signature(model.forward).parameters
    return next((word for word in LOGITS_KEYWORDS if word in parameters), None)


def gathered(trainer: Any, own: list[Any]) -> list[Any]:
    """The values of all processes, in the order of their ranks; all of them call it."""
    return own if trainer.accelerator.num_processes == 1 else list(gather_object(own))


def on_any(trainer: Any, *flags: Any) -> list[bool]:
    """Each flag, true where it is on any process; all of them call it. flags: bools, or tensors of one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [bool(flag) for flag in flags]
    asked = torch.stack([torch.as_tensor(flag).to(trainer.accelerator.device, torch.int32) for flag in flags])
    torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
    return [bool(flag) for flag in asked.tolist()]


def base_model(trainer: Any, model: Any) -> Any:
    """A model without what accelerate and PEFT put around it."""
    model = trainer.accelerator.unwrap_model(model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def set_forward(model: Any, forward: Callable[..., Any]) -> None:
    """Gives a model a forward with the parameters of the one that it has. It takes the model first.

    It is a method of the instance: PEFT calls forward without the hooks of its module, and accelerate wraps a method.
    """
    signature = inspect.signature(model.forward)
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *signature.parameters.values()]
    forward.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    model.forward = MethodType(forward, model)


def seed_of(words: str) -> int:
    """A seed of 32 bits from words, by their sha256, so that no two of them are related."""
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")
