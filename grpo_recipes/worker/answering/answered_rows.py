"""Answers a prompt, data rows or a conversation with the trained model, and rows on request with the base model."""

import contextlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from grpo_recipes.contract.files.exchange_files import tell
from grpo_recipes.contract.plan import Data, Evaluation, Plan
from grpo_recipes.worker._shared.inputs import answer_text, prompt_text
from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.answering.policy import (
    CalledTools,
    Policy,
    as_asked,
    as_trained,
    open_tools,
    with_pillow_images,
)
from grpo_recipes.worker.answering.trained import FINAL, is_adapter, load_base, load_trained, make_own_model
from grpo_recipes.worker.completions.evaluation import answered_and_judged
from grpo_recipes.worker.completions.generation import answers, tokens_of_prompts
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.data.dataset import prepare_rows
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.data.templates import refuse_endless_template
from grpo_recipes.worker.ends.ends import Ends, ends_of, how_ended, tokenizer_of
from grpo_recipes.worker.model.build_trainer import processing_of
from grpo_recipes.worker.user_code.reward_call import refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards


def answer_rows(
    plan: Plan,
    folder: Path,
    scratch: Path,
    *,
    prompt: Any,
    rows: int,
    greedy: bool,
    base: bool,
    held_out: str | None = None,
) -> dict[str, Any]:
    """Returns each row with its completions and rewards, and each model's mean rewards, as JSON values.

    prompt: a user's text or message parts; it has no columns, so no rewards are computed. None uses `rows` rows of
    the held-out data, or of the training data if nothing is held out. held_out: the evaluation set to take rows from,
    None for the first one. base: also run the untrained model, with the same random draws.
    Raises Refused if data or rewards differ from the plan's.
    """
    make_own_model(plan, folder)
    with open_tools(plan, folder / "worker" / "user", of_rows=prompt is None) as tools:
        sets = {} if plan.evaluation is None else {each.name: each for each in plan.evaluation.sets}
        of_set = next(iter(sets.values()), None) if held_out is None else sets[held_out]
        data, where = (plan.data, "dataset") if of_set is None else (of_set.data, of_set.section)
        judging = () if of_set is None else of_set.rewards
        processing = processing_of(plan, str(folder / FINAL))
        prefill = Prefill.of_plan(plan, lambda: processing)
        if prompt is None:
            tokens = PromptTokens(plan, lambda: processing, lambda: tools.functions)
            all_rows = prepare_rows(data, where, scratch, 0, tokens=tokens)
            given = [all_rows[index] for index in range(min(rows, len(all_rows)))]
            judges = tuple(reward for reward in plan.rewards if not judging or reward.name in judging)
            rewards = load_rewards(judges, folder / "worker" / "user", refuse_no_numbers, prefill)
        else:
            try:
                asked = with_pillow_images(as_asked(data, prompt), plan, processing)
            except ValueError as problem:
                raise Refused.of("this prompt cannot be given to the model", because=str(problem)) from None
            shaped = asked if is_chat(data, processing) else prompt
            given, judges, rewards = [{"prompt": shaped}], (), []
        refuse_endless_template(processing, [row["prompt"] for row in given], plan.arguments.GRPOConfig)
        weights = {reward.name: reward.weight for reward in judges}
        weights |= {name: 1.0 for name in tools.own_rewards if not judging or name in judging}
        model = load_trained(plan, folder, packed=True)
        policy = Policy(plan, model, processing, rewards)
        how = as_trained(plan, data, greedy=greedy)
        asked, trained = _answer_with_turns(plan, policy, tools, how, given, weights)
        spoken = {"trained": trained}
        if base:
            beside: Any = contextlib.nullcontext()
            if is_adapter(plan):
                beside = model.disable_adapter()
            else:
                del model, policy
                policy = Policy(plan, load_base(plan, folder, packed=True), processing, rewards)
            with beside:
                _, spoken["base"] = _answer_with_turns(plan, policy, tools, how, given, weights)
    return {
        "data": None if prompt is not None else where,
        "greedy": greedy,
        "without": without(plan, None if prompt is None else data, has_images=not isinstance(prompt, str)),
        "rows": [
            {
                "row": index,
                "prompt": prompt_text(row["prompt"]),
                **({"prefill": begun} if (begun := prefill([row["prompt"]])[0]) else {}),
                "columns": {name: str(row[name]) for name in data.columns if name in row},
                **{who: each[index] for who, each in spoken.items()},
            }
            for index, row in enumerate(asked)
        ],
        "means": {who: _means(each, weights) for who, each in spoken.items()} if weights else {},
    }


def is_chat(data: Data, processing: Any) -> bool:
    """Whether the recipe's prompts are conversations rather than plain text."""
    if data.prompt is None:
        return getattr(processing, "chat_template", None) is not None
    return data.prompt_format == "conversational"


def without(plan: Plan, of_prompt: Data | None, *, has_images: bool) -> list[str]:
    """Returns what shaped completions in training but is missing here.

    of_prompt: the data whose templates a user's prompt uses, None for rows.
    """
    environments = plan.all_environments.values() if of_prompt is not None else ()
    left_out = [f"environment {environment.name}" for environment in environments]
    left_out += ["the images of a row"] if of_prompt is not None and of_prompt.images and not has_images else []
    return left_out + ([f"rollout {plan.rollout.name}"] if plan.rollout is not None else [])


def _answer_with_turns(
    plan: Plan,
    policy: Policy,
    tools: CalledTools,
    how: Evaluation,
    given: list[dict[str, Any]],
    weights: dict[str, float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the rows as they were given to a model, with its turns, how each completion ended, and its rewards."""
    tools.give_to(policy)
    ends = ends_of(policy, plan)
    with undisturbed(policy):
        judging = range(len(weights))
        asked, completions, tokens, columns = answered_and_judged(policy, given, how, ends, lambda: None, None, judging)
    replies = []
    for index, (completion, ids) in enumerate(zip(completions, tokens, strict=True)):
        rewards = {name: values[index] for name, values in zip(weights, columns, strict=True)}
        known = {name: value for name, value in rewards.items() if value is not None}
        replies.append(
            {
                **as_json(policy, tools, ends, completion, ids),
                "rewards": rewards,
                "reward": math.fsum(weights[name] * value for name, value in known.items()) if known else None,
            }
        )
    return asked, replies


def as_json(policy: Policy, tools: CalledTools, ends: Ends, completion: Any, ids: list[int]) -> dict[str, Any]:
    """Returns a completion as JSON values: its answer, its turns, its full text and how it ended."""
    return {
        "completion": answer_text(completion),
        **({"turns": [_turn(message) for message in completion]} if tools.functions else {}),
        "text": tokenizer_of(policy).decode(ids, skip_special_tokens=False),
        "tokens": len(ids),
        "ended_by": how_ended(ids, ends)[0],
    }


def _turn(message: dict[str, Any]) -> dict[str, Any]:
    """Returns one message of a completion: the model's text and calls, or a tool's reply."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content or ""}]
    text = "".join(str(block.get("text", "")) for block in blocks)
    if message.get("role") == "tool":
        return {"reply": text, "tool": str(message.get("name", ""))}
    calls = [call.get("function", call) for call in message.get("tool_calls") or ()]
    return {"says": text, "calls": [{"tool": str(call["name"]), "arguments": call["arguments"]} for call in calls]}


def _means(each: list[dict[str, Any]], weights: dict[str, float]) -> dict[str, float | None]:
    columns = {"reward": [row["reward"] for row in each]}
    columns |= {name: [row["rewards"][name] for row in each] for name in weights}
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    return {name: math.fsum(values) / len(values) if values else None for name, values in known.items()}


def converse(plan: Plan, folder: Path, here: Path, requests: Iterable[str], *, greedy: bool) -> dict[str, Any]:
    """Writes the settings of generation, then the answer to each request, a line of JSON with `messages`.

    The first answer equals that of `grpo-run generate`; later ones use the generator's next numbers. Raises Refused if
    the tools differ from the plan's.
    """
    make_own_model(plan, folder)
    with open_tools(plan, folder / "worker" / "user", of_rows=False) as tools:
        data = plan.data if plan.evaluation is None else plan.evaluation.data
        processing = processing_of(plan, str(folder / FINAL))
        policy = Policy(plan, load_trained(plan, folder, packed=True), processing, [])
        tools.give_to(policy)
        how, ends = as_trained(plan, data, greedy=greedy), ends_of(policy, plan)
        is_conversation = is_chat(data, processing)
        system = data.system_prompt if is_conversation else None
        begin = {
            "is_conversation": is_conversation,
            "sampling": None if greedy else how.sampling,
            "max_tokens": policy.args.max_completion_length,
            "stops": list(dict.fromkeys([*ends.texts, *map(tokenizer_of(policy).decode, plan.expect.stop_token_ids)])),
            "system": system,
            "tools": [tool.__name__ for tool in tools.functions],
            "without": without(plan, data, has_images=True),
        }
        tell(here, json.dumps(begin))
        with undisturbed(policy):
            for request in requests:
                messages = json.loads(request)["messages"]
                if system is not None:
                    messages = [{"role": "system", "content": system}, *messages]
                try:
                    prompt = with_pillow_images(messages, plan, processing) if is_conversation else _text(messages)
                    answer = _answer(policy, tools, how, ends, prompt)
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
        refuse_endless_template(policy.processing_class, [prompt], vars(policy.args))
        ((ids,), _), most = tokens_of_prompts(policy, [prompt]), _longest(policy, how)
    except (TemplateError, Refused) as problem:
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
