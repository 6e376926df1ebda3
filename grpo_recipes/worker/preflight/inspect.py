"""Collects the inputs of the checks: rows, tokenizer, prompts as the model gets them, and the rewards' results."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Data, Evaluation, Plan, Reward
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.data.chosen_rows import chooses, counts_tokens
from grpo_recipes.worker.data.dataset import chosen_rows, loaded_rows, rendered_rows
from grpo_recipes.worker.data.images import refuse_no_images
from grpo_recipes.worker.data.prompt_tokens import PromptTokens, training_template
from grpo_recipes.worker.data.unreadable_rows import ENVIRONMENT, check_environments, check_prompts
from grpo_recipes.worker.preflight._shared.hosted import hosted, of_event
from grpo_recipes.worker.preflight._shared.reward_seen import (
    EMPTY,
    GOLD,
    GOLD_IN_TAGS,
    WORDS,
    Call,
    JudgeSeen,
    RewardSeen,
)
from grpo_recipes.worker.preflight._shared.seen import Options, Rows, Seen, content_of, is_conversational
from grpo_recipes.worker.preflight._shared.tokens import (
    KEPT_COLUMNS,
    as_rewarded,
    measured_with_images,
    passed_names,
    played_ids,
    prompts_seen,
    rendered_text,
    tokens_of,
)
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED, in_rows, joined
from grpo_recipes.worker.preflight.checks import environment_resets, rows_can_be_used
from grpo_recipes.worker.preflight.host import Request
from grpo_recipes.worker.preflight.look_at_tokenizer import look_at_tokenizer
from grpo_recipes.worker.preflight.play_tools import has_tools, played
from grpo_recipes.worker.preflight.summary import Trials, trials
from grpo_recipes.worker.user_code.judge import Judge

# Maximum rows to render, and seconds for counting their prompts' tokens; more are sampled.
MOST_ROWS = 100_000
COUNTING_S = 20.0
MOST_COUNTED = 20_000


def look(plan: Plan, folder: Path, options: Options) -> Seen:
    """Returns the inputs of the checks; None, and a fault, for each one that cannot be read."""
    seen = Seen(plan, options)
    look_at_tokenizer(seen)
    tokens = PromptTokens(plan, lambda: seen.processor or seen.tokenizer, lambda: _schemas(seen, folder))
    if seen.tokenizer is not None or not counts_tokens(plan.data):
        seen.data = _rows(seen, plan.data, next(iter(plan.trained_data)), folder, tokens)
    sets = () if plan.evaluation is None else plan.evaluation.sets
    each = (_rows(seen, one.data, one.section, folder, tokens) for one in sets)
    seen.held_out = [rows for rows in each if rows is not None]
    if seen.data is not None:
        seen.sample = spread(len(seen.data.prompts), options.rows, options.seed)
        if has_tools(seen) and seen.tools is None:
            _play(seen, seen.data, folder)
        _look_at_prompts(seen, seen.data)
        _look_at_rewards(seen, seen.data, folder)
    for one in sets:
        if one.name:
            _look_at_set(seen, one, folder)
    return seen


def _play(seen: Seen, data: Rows, folder: Path) -> None:
    """Tries tools and environments; several environments each on their own rows."""
    if not seen.plan.environment_classes:
        seen.tools = played(seen, [data.rows[place] for place in seen.sample], folder)
        return
    names = list(data.rows[ENVIRONMENT])
    for name, one in seen.plan.environment_classes.items():
        if name not in names:
            if seen.plan.data.source_name is None:  # rows of other sources may name it
                seen.faults.append(environment_resets.of_unused(name, len(names)))
            continue
        if all(names[place] != name for place in seen.sample):
            seen.sample.append(names.index(name))
        own = [place for place in seen.sample if names[place] == name]
        alone = replace(seen, plan=replace(seen.plan, environment_class=one, environment_classes={}))
        rows = [{key: value for key, value in data.rows[place].items() if key != ENVIRONMENT} for place in own]
        seen.tools_of[name] = in_rows(played(alone, rows, folder), [seen.sample.index(place) for place in own])
    first = seen.tools_of.get(names[seen.sample[0]])
    seen.tools = joined(sorted(seen.tools_of.values(), key=lambda tools: tools is not first))


def _with_own_tools(seen: Seen, data: Rows) -> Callable[[int], Seen]:
    """Returns a function from an index in data.prompts to `seen` with that row's own tools."""
    each = {name: replace(seen, tools=tools) for name, tools in seen.tools_of.items()}
    names = list(data.rows[ENVIRONMENT]) if each else []
    return lambda place: each[names[place]] if each else seen


def _schemas(seen: Seen, folder: Path) -> list[dict[str, Any]]:
    """Returns the tools' schemas by playing them. They need no rows; environments are refused in this case."""
    if has_tools(seen):
        seen.tools = played(seen, [], folder)
    return [] if seen.tools is None else seen.tools.schemas


def _rows(seen: Seen, data: Data, where: str, folder: Path, tokens: PromptTokens) -> Rows | None:
    file = folder / "cache" / f"{where}-looked-at.arrow"
    try:
        if chooses(data):
            rows, kept, left_out = chosen_rows(data, where, folder / "cache", file, tokens, {})
            places = spread(len(rows), MOST_ROWS, seen.options.seed)
            part = rows if len(rows) == len(places) else rows.select(places)
            kept = [kept[place] for place in places]
            return Rows(where, len(rows), part, prompts_seen(part), kept, left_out, bool(data.images))
        rows = loaded_rows(data, where, folder / "cache")
        places = spread(total := len(rows), MOST_ROWS, seen.options.seed)
        part = rendered_rows(rows if len(places) == total else rows.select(places), data, where, file, places)
        check_environments(part, data, where, places)
        if data.images:
            check_prompts(part, data, where, places)
        if where == "dataset" and len(part) == total:
            refuse_no_images([data], [part], where)
        return Rows(where, total, part, prompts_seen(part), places, has_images=bool(data.images))
    except Refused as stopped:
        seen.faults.append(rows_can_be_used.of_refused(stopped, where))
    except Exception as problem:
        seen.faults.append(rows_can_be_used.of_problem(problem, data.path, where))
    return None


def _look_at_prompts(seen: Seen, data: Rows) -> None:
    """Renders the sample as text, and counts the prompts' tokens; stops at the first that cannot be rendered."""
    if seen.tokenizer is None:
        return
    try:
        if seen.tools is not None:
            seen.template = training_template(seen.tokenizer)
        prompts = [data.prompts[row] for row in seen.sample]
        added = _added(seen)
        own = _with_own_tools(seen, data)
        seen.texts = [
            rendered_text(own(place), _behind(prompt, added.get(place, "")))
            for place, prompt in zip(seen.sample, prompts, strict=True)
        ]
        if seen.processor is not None:
            seen.measured, seen.lengths, seen.pixels = measured_with_images(seen, data)
            return
        started = time.monotonic()
        longest = max(added.values(), key=lambda text: len(seen.tokenizer(text)["input_ids"]), default="")
        for place in spread(len(data.prompts), MOST_COUNTED, seen.options.seed):
            if time.monotonic() - started > COUNTING_S:
                break
            if data.prompts[place]:
                seen.lengths.append(len(tokens_of(own(place), _behind(data.prompts[place], added.get(place, longest)))))
                seen.measured.append(place)
    except Refused as stopped:
        seen.faults.append(rows_can_be_used.of_refused(stopped, data.where))
    except Exception as problem:
        seen.template_problem = f"{type(problem).__name__}: {problem}"


def _added(seen: Seen) -> dict[int, str]:
    """Returns the texts that the environment's resets added, by index in data.prompts."""
    resets = () if seen.tools is None else seen.tools.resets
    return {seen.sample[one.row]: one.added for one in resets if not one.error}


def _behind(prompt: Any, added: str) -> Any:
    """Returns a prompt with the environment's text after the last message, as TRL adds it."""
    if not added or not is_conversational(prompt):
        return prompt
    return [*prompt[:-1], {**prompt[-1], "content": content_of(prompt[-1]) + added}]


def _look_at_rewards(seen: Seen, data: Rows, folder: Path) -> None:
    rows = as_rewarded(data, seen.sample)
    made = trials(rows, list(seen.plan.data.columns), seen.plan.rewards, seen.options.seed)
    seen.gold, seen.reference, seen.trial_texts = made.gold, made.reference, made.texts
    messages, own = _played(seen, rows, made), _with_own_tools(seen, data)
    ids = {case: [_completion_ids(seen, text) for text in texts] for case, texts in made.texts.items()}
    for case, of_rows in messages.items():
        each = zip(seen.sample, rows, of_rows, strict=True)
        ids[case] = [played_ids(own(place), row["prompt"], one) for place, row, one in each]
        seen.played_tokens = max(map(len, ids[case]), default=0) or None
    for index, reward in enumerate(seen.plan.rewards):
        if reward.kind == "model":  # not loaded
            seen.rewards.append(RewardSeen(index, reward.name, reward.kind, reward.weight))
            continue
        if reward.kind == "judge":
            seen.rewards.append(RewardSeen(index, reward.name, reward.kind, reward.weight))
            seen.judges.append(_asked(reward, index, rows, made))
            continue
        request = replace(_request(seen, reward, folder, rows, made.texts, ids), played=messages)
        seen.rewards.append(_tried(request, index, folder, seen.options.memory_limit))


def _asked(reward: Reward, index: int, rows: list[dict[str, Any]], made: Trials) -> JudgeSeen:
    """Asks a judge about one completion, ignoring the cache; fills its prompt for every row."""
    texts = next(made.texts[case] for case in (GOLD_IN_TAGS, GOLD, WORDS) if case in made.texts)
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in KEPT_COLUMNS}
    try:
        judge = Judge(reward, remembers=False)
        question = judge.questions([row["prompt"] for row in rows], texts, columns)[0]
        (judged,) = judge.judged([question])
    except Refused as stopped:
        return JudgeSeen(index, reward.name, problem=stopped.findings[0])
    if judged.score is None and not judged.answer:
        problem = judge.refusal(judged.why).findings[0]
        return JudgeSeen(index, reward.name, judge.at, question, problem=problem)
    return JudgeSeen(index, reward.name, judge.at, *judged)


def _look_at_set(seen: Seen, of_set: Evaluation, folder: Path) -> None:
    """Calls each reward that scores a set with an empty completion of its first row."""
    found = next((rows for rows in seen.held_out if rows.where == of_set.section), None)
    if found is None or len(found.rows) == 0:
        return
    (row,) = as_rewarded(found, [0])
    judges = [one for one in enumerate(seen.plan.rewards) if not of_set.rewards or one[1].name in of_set.rewards]
    seen.rewards_of_sets[of_set.section] = [
        _tried(
            _request(seen, reward, folder, [row], {EMPTY: [""]}, {EMPTY: [[]]}),
            index,
            folder,
            seen.options.memory_limit,
        )
        for index, reward in judges
        if reward.kind not in ("model", "judge")
    ]


def _request(
    seen: Seen,
    reward: Reward,
    folder: Path,
    rows: list[dict[str, Any]],
    texts: dict[str, list[str]],
    ids: dict[str, list[list[int]]],
) -> Request:
    return Request(
        reward=reward,
        user=str(folder / "worker" / "user"),
        rows=rows,
        texts=texts,
        ids=ids,
        conversational=any(is_conversational(row["prompt"]) for row in rows),
        group=seen.options.batch.num_generations,
        passed=passed_names(),
        kept=KEPT_COLUMNS,
        time_limit=seen.options.time_limit,
        state={"max_steps": seen.options.max_steps or 0},
    )


def _played(seen: Seen, rows: list[dict[str, Any]], made: Trials) -> dict[str, list[list[dict[str, Any]]]]:
    """Returns each row's played completion as messages; its final message is added to the trial texts."""
    if seen.tools is None or not seen.tools.turns or not all(is_conversational(row["prompt"]) for row in rows):
        return {}
    right = made.texts.get(GOLD_IN_TAGS) or made.texts.get(GOLD) or ["" for _ in rows]
    own = seen.tools.answer
    made.texts[PLAYED] = right if own is None else [own for _ in rows]
    tools = [seen.tools_of.get(str(row.get(ENVIRONMENT)), seen.tools) for row in rows]
    return {PLAYED: [one.completion(text) for one, text in zip(tools, made.texts[PLAYED], strict=True)]}


def _completion_ids(seen: Seen, text: str) -> list[int]:
    if seen.tokenizer is None:
        return []
    end = seen.ends.tokens[:1] if seen.ends is not None else ()
    return [*seen.tokenizer(text, add_special_tokens=False)["input_ids"], *end]


def _tried(request: Request, index: int, folder: Path, memory_limit: int | None) -> RewardSeen:
    """Calls one reward and returns the results. folder: for the exchanged files."""
    paths = [folder / f"reward-{index}.{kind}" for kind in ("request", "events", "trace")]
    outcome = hosted("preflight.host", request, paths, request.user, request.time_limit, memory_limit)
    calls = [of_event(Call, event) for event in outcome.events if event["event"] == "called"]
    steps = [event for event in outcome.events if event["event"] not in ("importing", "imported")]
    last = steps[-1] if steps else {"event": "calling", "name": "load", "shape": "own"}
    if last["event"] == "loaded":
        last = {"event": "calling", "name": "one row", "shape": "own"}
    if last["event"] == "calling" and outcome.end:
        calls.append(of_event(Call, {**last, "kind": "killed", "by": outcome.end, "place": outcome.place}))
    parameters: list[str] = next((event["parameters"] for event in outcome.events if event["event"] == "loaded"), [])
    reward = request.reward
    return RewardSeen(index, reward.name, reward.kind, reward.weight, tuple(calls), tuple(parameters))


def spread(count: int, wanted: int, seed: int) -> list[int]:
    """Returns at most `wanted` indices below count, in order: one drawn from each of equal parts."""
    drawn = random.Random(seed)
    parts = min(count, wanted)
    edges = [part * count // parts for part in range(parts)] + [count] if parts else []
    return [drawn.randrange(low, high) for low, high in pairwise(edges)]
