"""Holds conversations with the trained model: a request has all messages so far, the answer the next ones."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from grpo_recipes.contract.files.exchange_files import tell
from grpo_recipes.contract.plan import Evaluation, Plan
from grpo_recipes.worker.answering.answered_rows import as_json, is_chat, without
from grpo_recipes.worker.answering.policy import CalledTools, Policy, as_trained, called_tools, shown
from grpo_recipes.worker.answering.trained import FINAL, load_trained, make_own_model
from grpo_recipes.worker.completions.generation import answers, tokens_of_prompts, undisturbed
from grpo_recipes.worker.ends.ends import Ends, ends_of, tokenizer_of
from grpo_recipes.worker.trainer.model import processing_of


def converse(plan: Plan, folder: Path, here: Path, requests: Iterable[str], *, greedy: bool) -> dict[str, Any]:
    """Writes the settings of generation, then the answer to each request, a line of JSON with `messages`.

    A request may override `greedy`, `sampling` and `max_tokens`; its system message replaces the recipe's. The first
    answer equals that of `grpo-run generate`; later ones use the generator's next numbers. Raises Refused if the tools
    differ from the plan's.
    """
    make_own_model(plan, folder)
    with called_tools(plan, folder / "worker" / "user", of_rows=False) as tools:
        data = plan.data if plan.evaluation is None else plan.evaluation.data
        processing = processing_of(plan, str(folder / FINAL))
        policy = Policy(plan, load_trained(plan, folder, packed=True), processing, [])
        tools.given_to(policy)
        how, ends = as_trained(plan, data, greedy=greedy), ends_of(policy, plan)
        is_conversation, system = is_chat(data, processing), data.system_prompt
        longest = policy.args.max_completion_length
        begin = {
            "is_conversation": is_conversation,
            "sampling": None if greedy else how.sampling,
            "max_tokens": longest,
            "stops": list(dict.fromkeys([*ends.texts, *map(tokenizer_of(policy).decode, plan.expect.stop_token_ids)])),
            "system": system if is_conversation else None,
            "tools": [tool.__name__ for tool in tools.functions],
            "without": without(plan, data, has_images=True),
        }
        tell(here, json.dumps(begin))
        with undisturbed(policy):
            for request in requests:
                asked = json.loads(request)
                messages = asked["messages"]
                if system is not None and messages[0]["role"] != "system":
                    messages = [{"role": "system", "content": system}, *messages]
                sampling = {**how.sampling, **asked.get("sampling", {})}
                of_this = replace(how, greedy=asked.get("greedy", greedy), sampling=sampling)
                policy.args.max_completion_length = policy.max_completion_length = asked.get("max_tokens", longest)
                try:
                    prompt = shown(messages, plan, processing) if is_conversation else _text(asked["messages"])
                    answer = _answer(policy, tools, of_this, ends, prompt)
                except ValueError as problem:
                    answer = {"refused": str(problem)}
                tell(here, json.dumps(answer))
    return {}


def _text(messages: list[dict[str, Any]]) -> str:
    """Returns the prompt for a recipe whose prompts are text. Raises ValueError for several messages, or images."""
    if len(messages) > 1 or not isinstance(messages[0]["content"], str):
        raise ValueError("the recipe's prompts are plain text, so only one message without images is possible")
    return messages[0]["content"]


def _answer(policy: Policy, tools: CalledTools, how: Evaluation, ends: Ends, prompt: Any) -> dict[str, Any]:
    """Returns the model's answer to a prompt, with its messages, or why the prompt is refused."""
    try:
        ((ids,), _), most = tokens_of_prompts(policy, [prompt]), _longest(policy, how)
    except TemplateError as problem:
        return {"refused": f"the chat template rejects the conversation: {problem}"}
    if most is not None and len(ids) > most:
        new = policy.args.max_completion_length
        return {"refused": f"the conversation has {len(ids)} tokens; with {new} new ones at most {max(most, 0)} fit"}
    (completion,), (tokens,) = answers(policy, [prompt], how, ends, lambda: None)
    messages = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    return {
        **as_json(policy, tools, ends, completion, tokens),
        "prompt_tokens": len(ids),
        "messages": messages,
    }


def _longest(policy: Policy, how: Evaluation) -> int | None:
    """Returns the maximum tokens of a conversation: the recipe's prompt limit, and what fits into the model."""
    positions = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None)
    room = None if positions is None else positions - policy.args.max_completion_length
    return min((most for most in (how.max_prompt_length, room) if most is not None), default=None)
