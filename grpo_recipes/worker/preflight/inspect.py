"""Collects the inputs of the checks: rows, tokenizer, prompts as the model gets them, and the rewards' results."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Data, Evaluation, Plan, Reward
from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.checked_rows import ENVIRONMENT, check_environments, check_prompts
from grpo_recipes.worker.data.chosen_rows import chooses, counts_tokens
from grpo_recipes.worker.data.dataset import choose_rows, load_rows, render_rows
from grpo_recipes.worker.data.gold_rows import WHERE, with_answers
from grpo_recipes.worker.data.images import refuse_no_images
from grpo_recipes.worker.data.prompt_tokens import PromptTokens, training_template
from grpo_recipes.worker.preflight._shared.hosted import of_event, run_part
from grpo_recipes.worker.preflight._shared.reward_seen import (
    EMPTY,
    GOLD,
    GOLD_IN_TAGS,
    NOISE,
    WORDS,
    Call,
    JudgeSeen,
    RewardSeen,
)
from grpo_recipes.worker.preflight._shared.seen import Options, Rows, Seen, content_of, is_conversational, spread
from grpo_recipes.worker.preflight._shared.tokens import (
    as_rewarded,
    ids_of_completion,
    measure_with_images,
    prompts_seen,
    render_prompt,
    tokens_of,
)
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED, concatenate, in_rows
from grpo_recipes.worker.preflight._shared.trl_source import KEPT_COLUMNS, names_from_trl
from grpo_recipes.worker.preflight.checks import environment_resets, rows_can_be_used
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length
from grpo_recipes.worker.preflight.guesses import judge_guess, unknown_names, untried
from grpo_recipes.worker.preflight.host import Request
from grpo_recipes.worker.preflight.look_at_tokenizer import look_at_tokenizer
from grpo_recipes.worker.preflight.read_play import has_tools, play, play_rows
from grpo_recipes.worker.preflight.tokenize_golds import tokenize_golds, trained_texts
from grpo_recipes.worker.preflight.trials import Trials, trials
from grpo_recipes.worker.user_code.judge import Judge

# Maximum rows to render, and seconds for counting their prompts' tokens; more are sampled.
MOST_ROWS, COUNTING_S, MOST_COUNTED = 100_000, 20.0, 20_000


def look(plan: Plan, folder: Path, options: Options) -> Seen:
    """Returns the inputs of the checks; None, and a fault, for each one that cannot be read."""
    inputs = Seen(plan, options)
    look_at_tokenizer(inputs)
    tokens = PromptTokens(plan, lambda: inputs.processor or inputs.tokenizer, lambda: _schemas(inputs, folder))
    if inputs.tokenizer is not None or not counts_tokens(plan.data):
        inputs.data = _rows(inputs, plan.data, next(iter(plan.training_data)), folder, tokens)
    sets = () if plan.evaluation is None else plan.evaluation.sets
    each = (_rows(inputs, evaluation.data, evaluation.section, folder, tokens) for evaluation in sets)
    inputs.held_out = [rows for rows in each if rows is not None]
    if inputs.data is not None:
        inputs.sample = spread(len(inputs.data.prompts), options.rows, options.seed)
        if has_tools(inputs) and inputs.tools is None:
            _play(inputs, inputs.data, folder)
        _look_at_prompts(inputs, inputs.data)
        if plan.warm_start is not None:
            tokenize_golds(inputs, _rows(inputs, with_answers(plan), WHERE, folder, tokens), tokens)
        _look_at_rewards(inputs, inputs.data, folder)
    for evaluation in sets:
        if evaluation.name:
            _look_at_set(inputs, evaluation, folder)
    return inputs


def _play(inputs: Seen, data: Rows, folder: Path) -> None:
    """Tries tools and environments; several environments each on their own rows."""
    if not inputs.plan.environment_classes:
        inputs.tools = play(inputs, [data.rows[index] for index in inputs.sample], folder)
        return
    names = list(data.rows[ENVIRONMENT])
    for name, environment in inputs.plan.environment_classes.items():
        if name not in names:
            if inputs.plan.data.source_name is None:  # rows of other sources may name it
                inputs.faults.append(environment_resets.of_unused(name, len(names)))
            continue
        if all(names[index] != name for index in inputs.sample):
            inputs.sample.append(names.index(name))
        own = [index for index in inputs.sample if names[index] == name]
        alone = replace(inputs, plan=replace(inputs.plan, environment_class=environment, environment_classes={}))
        rows = [{key: value for key, value in data.rows[index].items() if key != ENVIRONMENT} for index in own]
        inputs.tools_of[name] = in_rows(play(alone, rows, folder), [inputs.sample.index(index) for index in own])
    first = inputs.tools_of.get(names[inputs.sample[0]])
    inputs.tools = concatenate(sorted(inputs.tools_of.values(), key=lambda tools: tools is not first))


def _with_own_tools(inputs: Seen, data: Rows) -> Callable[[int], Seen]:
    """Returns a function from an index in data.prompts to `inputs` with that row's own tools."""
    each = {name: replace(inputs, tools=tools) for name, tools in inputs.tools_of.items()}
    names = list(data.rows[ENVIRONMENT]) if each else []
    return lambda index: each[names[index]] if each else inputs


def _schemas(inputs: Seen, folder: Path) -> list[dict[str, Any]]:
    """Returns the tools' schemas by playing them. They need no rows; environments are refused in this case."""
    if has_tools(inputs):
        inputs.tools = play(inputs, [], folder)
    return [] if inputs.tools is None else inputs.tools.schemas


def _rows(inputs: Seen, data: Data, where: str, folder: Path, tokens: PromptTokens) -> Rows | None:
    file = folder / "cache" / f"{where}-looked-at.arrow"
    try:
        if chooses(data):
            rows, chosen, left_out = choose_rows(data, where, folder / "cache", file, tokens, {})
            indices = spread(len(rows), MOST_ROWS, inputs.options.seed)
            part = rows if len(rows) == len(indices) else rows.select(indices)
            chosen = [chosen[index] for index in indices]
            return Rows(where, len(rows), part, prompts_seen(part), chosen, left_out, bool(data.images))
        rows = load_rows(data, where, folder / "cache")
        indices = spread(total := len(rows), MOST_ROWS, inputs.options.seed)
        part = render_rows(rows if len(indices) == total else rows.select(indices), data, where, file, indices)
        check_environments(part, data, where, indices)
        if data.images:
            check_prompts(part, data, where, indices)
        if where == "dataset" and len(part) == total:
            refuse_no_images([data], [part], where)
        return Rows(where, total, part, prompts_seen(part), indices, has_images=bool(data.images))
    except Refused as stopped:
        inputs.faults.append(rows_can_be_used.of_refused(stopped, where))
    except Exception as problem:
        inputs.faults.append(rows_can_be_used.of_problem(problem, data.path, where))
    return None


def _look_at_prompts(inputs: Seen, data: Rows) -> None:
    """Renders the sample as text, and counts the prompts' tokens; stops at the first that cannot be rendered."""
    if inputs.tokenizer is None:
        return
    try:
        if inputs.tools is not None:
            inputs.template = training_template(inputs.tokenizer)
        prompts = [data.prompts[row] for row in inputs.sample]
        added = _texts_of_resets(inputs)
        own = _with_own_tools(inputs, data)
        inputs.texts = [
            render_prompt(own(index), _behind(prompt, added.get(index, "")))
            for index, prompt in zip(inputs.sample, prompts, strict=True)
        ]
        if inputs.processor is not None:
            inputs.measured, inputs.lengths, inputs.pixels = measure_with_images(inputs, data)
            return
        started = time.monotonic()
        longest = max(added.values(), key=lambda text: len(inputs.tokenizer(text)["input_ids"]), default="")
        for index in spread(len(data.prompts), MOST_COUNTED, inputs.options.seed):
            if time.monotonic() - started > COUNTING_S:
                break
            if prompt := data.prompts[index]:
                inputs.lengths.append(len(tokens_of(own(index), _behind(prompt, added.get(index, longest)))))
                inputs.measured.append(index)
    except Refused as stopped:
        inputs.faults.append(rows_can_be_used.of_refused(stopped, data.where))
    except Exception as problem:
        inputs.template_problem = f"{type(problem).__name__}: {problem}"


def _texts_of_resets(inputs: Seen) -> dict[int, str]:
    """Returns the texts that the environment's resets added, by index in data.prompts."""
    resets = () if inputs.tools is None else inputs.tools.resets
    return {inputs.sample[reset.row]: reset.added for reset in resets if not reset.error}


def _behind(prompt: Any, added: str) -> Any:
    """Returns a prompt with the environment's text after the last message, as TRL adds it."""
    if not added or not is_conversational(prompt):
        return prompt
    return [*prompt[:-1], {**prompt[-1], "content": content_of(prompt[-1]) + added}]


def _look_at_rewards(inputs: Seen, data: Rows, folder: Path) -> None:
    rows = as_rewarded(data, inputs.sample)
    if inputs.tokenizer is not None and not inputs.template_problem:
        prefill = Prefill.of_plan(inputs.plan, lambda: inputs.processor or inputs.tokenizer)
        inputs.prefills = prefill([row["prompt"] for row in rows])
    columns, user = list(inputs.plan.data.columns), folder / "worker" / "user"
    made = trials(rows, columns, inputs.plan.rewards, inputs.options.seed, inputs.prefills, user)
    made.texts.update({case: [_cut(inputs, text) for text in made.texts[case]] for case in (WORDS, NOISE)})
    inputs.gold, inputs.reference, inputs.trial_texts = made.gold, made.reference, made.texts
    made.texts.update(trained_texts(inputs))
    messages, own = play_rows(inputs, rows, made.texts), _with_own_tools(inputs, data)
    ids = {case: [_completion_ids(inputs, text) for text in texts] for case, texts in made.texts.items()}
    for case, of_rows in messages.items():
        each = zip(inputs.sample, rows, of_rows, strict=True)
        ids[case] = [ids_of_completion(own(index), row["prompt"], completion) for index, row, completion in each]
    inputs.played_tokens = max(map(len, ids.get(PLAYED, ())), default=0) or None
    for index, reward in enumerate(inputs.plan.rewards):
        if reward.kind == "model":  # not loaded
            inputs.rewards.append(RewardSeen(index, reward.name, reward.kind, reward.weight))
            continue
        if reward.kind == "judge":
            inputs.rewards.append(RewardSeen(index, reward.name, reward.kind, reward.weight))
            inputs.judges.append(_ask(reward, index, rows, made))
            continue
        request = replace(
            _request(inputs, reward, folder, rows, made.texts, ids), played=messages, prefills=inputs.prefills
        )
        inputs.rewards.append(_try(request, index, folder, inputs.options.memory_limit))
    judge_guess(inputs, made)
    if rows:
        inputs.untried, inputs.unknown_names = untried(inputs, rows[0], user), unknown_names(inputs, rows[0], user)


def _cut(inputs: Seen, text: str) -> str:
    """Returns as much of a text as a completion may have."""
    ids = [] if inputs.tokenizer is None else inputs.tokenizer(text, add_special_tokens=False)["input_ids"]
    most = max_completion_length(inputs)
    return str(inputs.tokenizer.decode(ids[:most])) if 0 < most < len(ids) else text


def _ask(reward: Reward, index: int, rows: list[dict[str, Any]], made: Trials) -> JudgeSeen:
    """Asks a judge about one completion, ignoring the cache; fills its prompt for every row."""
    texts = next(made.texts[case] for case in (GOLD_IN_TAGS, GOLD, WORDS) if case in made.texts)
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in KEPT_COLUMNS}
    try:
        judge = Judge(reward, remembers=False)
        question = judge.questions([row["prompt"] for row in rows], texts, columns)[0]
        (judged,) = judge.judge_all([question])
    except Refused as stopped:
        return JudgeSeen(index, reward.name, problem=stopped.findings[0])
    if judged.score is None and not judged.answer:
        problem = judge.refusal(judged.why).findings[0]
        return JudgeSeen(index, reward.name, judge.at, question, problem=problem)
    return JudgeSeen(index, reward.name, judge.at, *judged)


def _look_at_set(inputs: Seen, of_set: Evaluation, folder: Path) -> None:
    """Calls each reward that scores a set with an empty completion of its first row."""
    held_out = next((rows for rows in inputs.held_out if rows.where == of_set.section), None)
    if held_out is None or len(held_out.rows) == 0:
        return
    (row,) = as_rewarded(held_out, [0])
    inputs.rewards_of_sets[of_set.section] = [
        _try(
            _request(inputs, reward, folder, [row], {EMPTY: [""]}, {EMPTY: [[]]}),
            index,
            folder,
            inputs.options.memory_limit,
        )
        for index, reward in enumerate(inputs.plan.rewards)
        if reward.kind not in ("model", "judge") and (not of_set.rewards or reward.name in of_set.rewards)
    ]


def _request(
    inputs: Seen,
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
        group=inputs.options.batch.num_generations,
        passed=names_from_trl(),
        kept=KEPT_COLUMNS,
        time_limit=inputs.options.time_limit,
        state={"max_steps": inputs.options.max_steps or 0},
    )


def _completion_ids(inputs: Seen, text: str) -> list[int]:
    if inputs.tokenizer is None:
        return []
    end = inputs.ends.tokens[:1] if inputs.ends is not None else ()
    return [*inputs.tokenizer(text, add_special_tokens=False)["input_ids"], *end]


def _try(request: Request, index: int, folder: Path, memory_limit: int | None) -> RewardSeen:
    """Calls one reward and returns the results. folder: for the exchanged files."""
    paths = [folder / f"reward-{index}.{kind}" for kind in ("request", "events", "trace")]
    outcome = run_part("preflight.host", request, paths, request.user, request.time_limit, memory_limit)
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
