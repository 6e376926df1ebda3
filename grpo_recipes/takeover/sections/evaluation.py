"""Takes over the trainer's evaluation: the same rewards on the split that TRL's script evaluates."""

from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.read import table_of, whole_steps
from grpo_recipes.takeover.basis.trl_values import is_true

STRATEGY = "eval_strategy"
KEYS = (STRATEGY, "eval_steps", "eval_on_start", "dataset_test_split")
OFF = "no evaluation without eval_strategy"
BEST, METRIC, GREATER = "load_best_model_at_end", "metric_for_best_model", "greater_is_better"
KEEP, EVERY, SAVES = "evaluation.keep_best", "evaluation.every_steps", "save_steps"
BY_REWARD = f"{KEEP} uses the held-out reward, where greater is better"


def take_evaluation(situation: Situation) -> None:
    """Takes over all keys about the evaluation during training, and about its best result."""
    given = situation.given
    given.rename("evaluation_strategy", STRATEGY)
    strategy = given.values.get(STRATEGY, "no")
    if strategy in ("steps", "epoch"):
        _take_strategy(situation, str(strategy))
    elif strategy not in ("no", False, None):
        given.refuse_key(STRATEGY, "it must be no, steps or epoch", "evaluation")
    for name in KEYS:
        if name in given:
            given.map_key(name, because="no `evaluation`" if name == STRATEGY else OFF)
    if is_true(given.values.get(BEST)):
        _take_best(situation)


def _take_strategy(situation: Situation, strategy: str) -> None:
    given, draft = situation.given, situation.draft
    if "dataset_test_split" in given:
        given.map_key("dataset_test_split", "evaluation.split", str(given.values["dataset_test_split"]))
    else:
        draft.put("evaluation.split", "test", "TRL's own default")
    draft.put("evaluation.greedy", False, "like TRL, which samples")
    if strategy == "epoch":
        given.emulate_key(STRATEGY, "grpo-run evaluates by steps: here after the last one", EVERY, 0)
        if "eval_steps" in given:
            given.map_key("eval_steps", because="not read with eval_strategy epoch")
    else:
        given.emulate_key(STRATEGY, "grpo-run measures the same rewards; one completion for each prompt")
        _take_steps(situation)
    if "eval_on_start" in given:
        given.map_key("eval_on_start", "evaluation.at_start", is_true(given.values["eval_on_start"]))
    else:
        draft.put("evaluation.at_start", False, "TRL's own default")


def _take_steps(situation: Situation) -> None:
    given = situation.given
    steps = given.values.get("eval_steps") or given.values.get("logging_steps")
    steps = whole_steps({**given.taken, **given.values}, steps) or steps
    if not isinstance(steps, int | float) or not float(steps).is_integer() or steps < 1:
        given.values.setdefault("eval_steps", steps)
        reason = "a share of all steps; choose their number" if steps else "TRL's own default is logging_steps"
        given.emulate_key("eval_steps", reason, EVERY, 0)
    elif "eval_steps" in given:
        given.map_key("eval_steps", EVERY, int(steps))
    else:
        situation.draft.put(EVERY, int(steps), "TRL takes logging_steps")


def _take_best(situation: Situation) -> None:
    """Takes over the best checkpoint; TRL can use any logged figure, a recipe only the held-out reward."""
    given, draft = situation.given, situation.draft
    figure = str(given.values.get(METRIC) or "loss")
    metric, greater = figure.removeprefix("eval_"), given.values.get(GREATER)
    is_greater = not metric.endswith("loss") if greater is None else is_true(greater)
    every = draft.values.get(EVERY, 0)
    if not isinstance(every, int) or every == 0:
        given.refuse_key(BEST, f"it needs evaluations by steps: write {EVERY} with {KEEP}", KEEP)
    elif metric != "reward" or not is_greater:
        given.refuse_key(BEST, f"it takes the {'greatest' if is_greater else 'least'} {figure}; {BY_REWARD}", KEEP)
    else:
        given.map_key(BEST, KEEP, True)
        saves = given.values.get(SAVES)
        if isinstance(saves, int) and saves > 0 and every % saves:
            given.emulate_key(SAVES, f"{KEEP} has a checkpoint at each evaluation", f"training.{SAVES}", every)
    for name in (METRIC, GREATER):
        if name in given and KEEP in draft.values:
            given.map_key(name, because=BY_REWARD)
        elif name in given:
            given.refuse_key(name, BY_REWARD, KEEP)


def take_generation(situation: Situation) -> None:
    """Takes over the keys inside generation_kwargs, which override those of the configuration."""
    given = situation.given
    if "generation_kwargs" not in given:
        return
    inside = situation.block("generation_kwargs", "generation")
    table = table_of("trl")["generation_kwargs"]
    for key in list(inside.values):
        if "home" in table.get(key, {}) and str(key) in given and "fate" not in table[key]:
            given.emulate_key(str(key), f"generation_kwargs.{key} wins")
        inside.answer(key, table.get(key, table["unknown"]))
