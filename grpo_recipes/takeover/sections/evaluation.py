"""Takes over the trainer's evaluation: the same rewards on the split that TRL's script evaluates."""

from collections.abc import Mapping

from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.read import WORDS, Unreadable, as_trl_reads, whole_steps

STRATEGY = "eval_strategy"
KEYS = (STRATEGY, "eval_steps", "eval_on_start", "dataset_test_split")
OFF = "no evaluation without eval_strategy"
BEST, METRIC, GREATER = "load_best_model_at_end", "metric_for_best_model", "greater_is_better"
KEEP, EVERY, SAVES = "evaluation.keep_best", "evaluation.every_steps", "save_steps"
BY_REWARD = f"{KEEP} uses the held-out reward, where greater is better"


def take_evaluation(situation: Situation) -> None:
    """Takes over all keys about the evaluation during training, and about its best result."""
    _take_strategy(situation)
    best = situation.given.values.get(BEST)
    if best is True or WORDS.get(str(best).lower(), False):
        _take_best(situation)


def _take_strategy(situation: Situation) -> None:
    given = situation.given
    if "evaluation_strategy" in given and STRATEGY not in given:
        given.values[STRATEGY] = given.values.pop("evaluation_strategy")
        given.names[STRATEGY] = "evaluation_strategy"
    strategy = given.values.get(STRATEGY, "no")
    if strategy in ("no", False, None):
        _without(situation)
        return
    if strategy not in ("steps", "epoch"):
        given.refused(STRATEGY, "it must be no, steps or epoch", "evaluation")
        _without(situation)
        return
    split = given.values.get("dataset_test_split", "test")
    if "dataset_test_split" in given:
        given.mapped("dataset_test_split", "evaluation.split", str(split))
    else:
        situation.draft.put("evaluation.split", str(split), "TRL's own default")
    situation.draft.put("evaluation.greedy", False, "like TRL, which samples")
    _when(situation, str(strategy))


def _without(situation: Situation) -> None:
    given = situation.given
    for name in KEYS:
        if name in given:
            given.mapped(name, None, because="no `evaluation`" if name == STRATEGY else OFF)


def _when(situation: Situation, strategy: str) -> None:
    given = situation.given
    steps = given.values.get("eval_steps") or given.values.get("logging_steps")
    steps = whole_steps({**given.taken, **given.values}, steps) or steps
    if strategy == "epoch":
        given.emulated(STRATEGY, "evaluation.every_steps", 0, "grpo-run evaluates by steps: here after the last one")
        if "eval_steps" in given:
            given.mapped("eval_steps", None, because="not read with eval_strategy epoch")
    else:
        given.emulated(STRATEGY, None, None, "grpo-run measures the same rewards; one completion for each prompt")
        whole = isinstance(steps, int | float) and float(steps).is_integer() and steps >= 1
        if not whole:
            given.values.setdefault("eval_steps", steps)
            reason = "a share of all steps; choose their number" if steps else "TRL's own default is logging_steps"
            given.emulated("eval_steps", "evaluation.every_steps", 0, reason)
        elif "eval_steps" in given:
            given.mapped("eval_steps", "evaluation.every_steps", int(float(str(steps))))
        else:
            situation.draft.put("evaluation.every_steps", int(float(str(steps))), "TRL takes logging_steps")
    start = given.values.get("eval_on_start", False)
    begins = start is True or WORDS.get(str(start).lower(), False)
    if "eval_on_start" in given:
        given.mapped("eval_on_start", "evaluation.at_start", begins)
    else:
        situation.draft.put("evaluation.at_start", False, "TRL's own default")


def _take_best(situation: Situation) -> None:
    """Takes over the best checkpoint; TRL can use any logged figure, a recipe only the held-out reward."""
    given, draft = situation.given, situation.draft
    said = str(given.values.get(METRIC) or "loss")
    metric = said.removeprefix("eval_")
    greater = given.values.get(GREATER)
    is_greater = not metric.endswith("loss") if greater is None else WORDS.get(str(greater).lower(), False)
    every = draft.values.get(EVERY, 0)
    if not isinstance(every, int) or every == 0:
        given.refused(BEST, f"it needs evaluations by steps: write {EVERY} with {KEEP}", KEEP)
    elif metric != "reward" or not is_greater:
        given.refused(BEST, f"it takes the {'greatest' if is_greater else 'least'} {said}; {BY_REWARD}", KEEP)
    else:
        given.mapped(BEST, KEEP, True)
        saves = given.values.get(SAVES)
        if isinstance(saves, int) and saves > 0 and every % saves:
            given.emulated(SAVES, f"training.{SAVES}", every, f"{KEEP} has a checkpoint at each evaluation")
    for name in (METRIC, GREATER):
        if name in given:
            given.mapped(name, None, because=BY_REWARD) if KEEP in draft.values else given.refused(
                name, BY_REWARD, KEEP
            )


NAME = "generation_kwargs"
HOMES = {name: f"generation.{name}" for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
HOMES |= {"stop": "generation.stop", "stop_strings": "generation.stop", "stop_token_ids": "generation.stop_token_ids"}
HOMES |= {"max_new_tokens": "generation.max_completion_length", "max_tokens": "generation.max_completion_length"}
HOMES |= {"min_new_tokens": "generation.min_tokens", "min_tokens": "generation.min_tokens"}


def take_generation(situation: Situation) -> None:
    """Takes over the keys inside generation_kwargs, with one row for each."""
    given = situation.given
    if NAME not in given:
        return
    try:
        block = as_trl_reads(given.take(NAME), "dict | str | None")
    except Unreadable as problem:
        given.refused(NAME, f"TRL cannot take it: {problem}", "generation")
        return
    if not block:
        given.mapped(NAME, None)
        return
    if not isinstance(block, Mapping):
        given.refused(NAME, "it must be a map", "generation")
        return
    for key, value in block.items():
        spelled = f"{NAME}.{key}"
        given.taken[spelled], given.names[spelled] = value, f"{given.name(NAME)}.{key}"
        where = HOMES.get(str(key))
        if where is None:
            given.refused(spelled, "no release-independent key of `generation` has this meaning", "generation")
        elif where in ("generation.stop", "generation.stop_token_ids"):
            listed = value if isinstance(value, list) else [value]
            given.emulated(spelled, where, listed, "on every backend; the token that completes it stays")
        else:
            if str(key) in given:
                given.emulated(str(key), None, None, f"{spelled} wins")
            given.mapped(spelled, where, value)
