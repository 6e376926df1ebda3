"""vLLM's context holds the longest completion after its prompt.

vLLM's context is vllm_max_model_length or the model's own; a server at an address has its own. In the training
processes, and in the server that TRL starts up to 1.10, vLLM silently ends a completion where its context ends:
completions are shorter than the recipe says, and a prompt that fills the context ends the run with ValueError. vLLM's
own server, which a run starts with trl 1.11 or newer, refuses a request whose prompt and max_completion_length exceed
the context. vLLM refuses to start with a context above the model's own, after loading the model. Whether the prompts of
a data set fit shows only when they are tokenized.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.facts.vllm_server import server_program
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, not_at_hand
from grpo_recipes.rules._shared.vllms_gpu import USE_VLLM, VLLM_MODE, starts_server

ID = "GEN009"
LENGTH, COMPLETION = "GRPOConfig.vllm_max_model_length", "GRPOConfig.max_completion_length"
PROMPT = "GRPOConfig.max_prompt_length"
ASSUMED_PROMPT = 512
"""Tokens of the longest prompt in an example fix, if nothing limits prompts; the fix has no patch then."""


def check(context: Context) -> Iterator[Finding]:
    is_colocated = context.value(USE_VLLM) is True and context.value(VLLM_MODE) == "colocate"
    if not is_colocated and not starts_server(context):
        return
    completion, prompt = context.whole(COMPLETION), context.value(PROMPT)
    length, own = context.value(LENGTH), _own_length(context)
    needed = completion + (prompt if isinstance(prompt, int) else 1)
    room = length if isinstance(length, int) else own
    if isinstance(length, int) and own is not None and length > own:
        message = f"vllm_max_model_length {length} exceeds the model's {own} tokens"
        because = [f"{context.text(MODEL)} has {own} positions", "vLLM raises ValueError after loading the model"]
        yield context.wrong(
            message, LENGTH, because, own, fix=f"vllm_max_model_length: {own}, or null for the model's own"
        )
    elif room is not None and room < needed:
        yield _below(context, room, needed, own)
    elif isinstance(length, int) and model_config(context) is None:
        yield not_at_hand(context, f"whether the model has {length} positions", LENGTH)


def _own_length(context: Context) -> int | None:
    """The model's own context; None if unknown, or stretched by its position embeddings."""
    config = model_config(context) or {}
    length = config.get("max_position_embeddings")
    if not isinstance(length, int) or config.get("rope_scaling") or config.get("rope_parameters"):
        return None
    return length


def _below(context: Context, room: int, needed: int, own: int | None) -> Finding:
    written, completion = context.value(LENGTH) is not None, context.whole(COMPLETION)
    never, prompt = room <= completion, context.value(PROMPT)
    is_refused = context.value(VLLM_MODE) == "server" and _asks_vllms_server(context)
    because = [f"{needed} tokens = max_completion_length {completion} + {needed - completion} of the prompt"]
    because.append(
        "vLLM's server refuses such a request, and HTTP 400 ends the run"
        if is_refused
        else "vLLM silently ends a completion where its context ends"
    )
    left = prompt if isinstance(prompt, int) else ASSUMED_PROMPT
    key, value, sum_of = "vllm_max_model_length", completion + left, f"max_completion_length {completion} +"
    if not written or (own is not None and value > own):
        left = min(left, room // 2)
        key, value, sum_of = "max_completion_length", max(1, room - left), f"the {room} of the context -"
    fix, patch = f"{key}: {value}", [Patch(("generation", key), value)]
    if not isinstance(prompt, int):
        fix, patch = f"{key}: {sum_of} the tokens of the longest prompt, {value} where that has {left}", []
    name = f"vllm_max_model_length {room}" if written else f"the model's context of {room} tokens"
    return context.finding(
        f"{name} cannot hold {'any' if never else 'every'} prompt with the longest completion",
        LENGTH if written else COMPLETION,
        because,
        fix=fix,
        patch=patch,
        severity="error" if never and is_refused else "warning",
    )


def _asks_vllms_server(context: Context) -> bool:
    """Whether the run's server is vLLM's own; source: vllm 0.30.0 renderers/params.py, trl's vllm_client.py."""
    program = server_program(context.stack.packages)
    return program is not None and program.takes is None
