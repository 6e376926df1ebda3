"""Answers a prompt or data rows with the trained model and, on request, with the base model."""

import contextlib
import math
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Data, Evaluation, Plan
from grpo_recipes.worker._shared.inputs import Refused, answer_text, prompt_text
from grpo_recipes.worker.answering.policy import CalledTools, Policy, as_asked, as_trained, called_tools, shown
from grpo_recipes.worker.answering.trained import FINAL, is_adapter, load_base, load_trained, make_own_model
from grpo_recipes.worker.completions.evaluation import answered_and_judged
from grpo_recipes.worker.completions.generation import undisturbed
from grpo_recipes.worker.data.dataset import prepared_rows
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.ends.ends import Ends, ends_of, how_ended, tokenizer_of
from grpo_recipes.worker.trainer.model import processing_of
from grpo_recipes.worker.user_code.reward_call import refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards


def answered_rows(
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
    with called_tools(plan, folder / "worker" / "user", of_rows=prompt is None) as tools:
        sets = {} if plan.evaluation is None else {one.name: one for one in plan.evaluation.sets}
        of_set = next(iter(sets.values()), None) if held_out is None else sets[held_out]
        data, where = (plan.data, "dataset") if of_set is None else (of_set.data, of_set.section)
        judging = () if of_set is None else of_set.rewards
        processing = processing_of(plan, str(folder / FINAL))
        if prompt is None:
            tokens = PromptTokens(plan, lambda: processing, lambda: tools.functions)
            all_rows = prepared_rows(data, where, scratch, 0, tokens=tokens)
            given = [all_rows[place] for place in range(min(rows, len(all_rows)))]
            judges = tuple(one for one in plan.rewards if not judging or one.name in judging)
            rewards = load_rewards(judges, folder / "worker" / "user", refuse_no_numbers)
        else:
            try:
                asked = shown(as_asked(data, prompt), plan, processing)
            except ValueError as problem:
                raise Refused.of("the model is not asked", because=str(problem)) from None
            shaped = asked if is_chat(data, processing) else prompt
            given, judges, rewards = [{"prompt": shaped}], (), []
        weights = {reward.name: reward.weight for reward in judges}
        weights |= {name: 1.0 for name in tools.own_rewards if not judging or name in judging}
        model = load_trained(plan, folder, packed=True)
        policy = Policy(plan, model, processing, rewards)
        how = as_trained(plan, data, greedy=greedy)
        asked, trained = _spoken(plan, policy, tools, how, given, weights)
        spoken = {"trained": trained}
        if base:
            beside: Any = contextlib.nullcontext()
            if is_adapter(plan):
                beside = model.disable_adapter()
            else:
                del model, policy
                policy = Policy(plan, load_base(plan, folder, packed=True), processing, rewards)
            with beside:
                _, spoken["base"] = _spoken(plan, policy, tools, how, given, weights)
    return {
        "data": None if prompt is not None else where,
        "greedy": greedy,
        "without": without(plan, None if prompt is None else data, has_images=not isinstance(prompt, str)),
        "rows": [
            {
                "row": place,
                "prompt": prompt_text(row["prompt"]),
                "columns": {name: str(row[name]) for name in data.columns if name in row},
                **{who: each[place] for who, each in spoken.items()},
            }
            for place, row in enumerate(asked)
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
    left_out = [f"environment {one.name}" for one in environments]
    left_out += ["the images of a row"] if of_prompt is not None and of_prompt.images and not has_images else []
    return left_out + ([f"rollout {plan.rollout.name}"] if plan.rollout is not None else [])


def _spoken(
    plan: Plan,
    policy: Policy,
    tools: CalledTools,
    how: Evaluation,
    given: list[dict[str, Any]],
    weights: dict[str, float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the rows as they were given to a model, with its turns, how each completion ended, and its rewards."""
    tools.given_to(policy)
    ends = ends_of(policy, plan)
    with undisturbed(policy):
        judging = range(len(weights))
        asked, completions, tokens, columns = answered_and_judged(policy, given, how, ends, lambda: None, None, judging)
    found = []
    for place, (completion, ids) in enumerate(zip(completions, tokens, strict=True)):
        rewards = {name: values[place] for name, values in zip(weights, columns, strict=True)}
        told = {name: value for name, value in rewards.items() if value is not None}
        found.append(
            {
                **as_json(policy, tools, ends, completion, ids),
                "rewards": rewards,
                "reward": math.fsum(weights[name] * value for name, value in told.items()) if told else None,
            }
        )
    return asked, found


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
    columns = {"reward": [one["reward"] for one in each]}
    columns |= {name: [one["rewards"][name] for one in each] for name in weights}
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    return {name: math.fsum(values) / len(values) if values else None for name, values in known.items()}
