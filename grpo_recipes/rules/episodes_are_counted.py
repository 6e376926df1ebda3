"""An environment that owns its data has a known number of episodes.

Without `dataset.path` the rows are episodes: each has its number in the column `episode`, which `reset` can take, and
an empty prompt, to which TRL adds what `reset` returns. There is one episode for each prompt that `max_steps` draws, at
most 100,000, after which they repeat; `dataset.max_rows` sets a different number. `evaluation.max_rows` is the number
of held-out episodes, numbered from 1,000,000,000. If nothing sets the number, TRL raises ValueError.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import ACCUMULATION, FEEDS, ITERATIONS, MICRO_BATCH, micro_batches_fed
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import are_episodes, held_out_sets
from grpo_recipes.rules.data_fills_a_generation import prompts_of_a_generation

ID = "DAT007"
PROMPT, ROWS, HELD_OUT = "dataset.prompt", "dataset.max_rows", "evaluation.max_rows"
STEPS = "GRPOConfig.max_steps"
OWNS = (PROMPT, ROWS)
READS = (ACCUMULATION, FEEDS, MICRO_BATCH, "world.num_processes")
MOST = 100_000
SOME = 100


def decide(context: Context) -> Iterator[Setting]:
    if not are_episodes(context):
        return
    if context.value(PROMPT) is None:
        yield rule_setting(PROMPT, "", "reset returns the prompt")
    steps = context.value(STEPS)
    if context.value(ROWS) is None and isinstance(steps, int) and steps > 0:
        fed, taken = micro_batches_fed(context) * context.whole(ITERATIONS), steps * context.whole(ACCUMULATION)
        generations, prompts = -(-taken // max(1, fed)), prompts_of_a_generation(context)
        why = f"{generations} generations of {prompts} prompts"
        yield rule_setting(ROWS, min(MOST, generations * prompts), why)


def check(context: Context) -> Iterator[Finding]:
    if not are_episodes(context):
        return
    if context.value(ROWS) is None:
        message = "neither max_steps nor dataset.max_rows sets the number of episodes"
        because = "an environment that owns its data never runs out of rows; TRL raises ValueError without max_steps"
        yield context.finding(
            message, STEPS, because, fix="max_steps: 1000; or dataset.max_rows, the number of episodes in an epoch"
        )
    for name, of_set in held_out_sets(context):
        if of_set.value("evaluation.path") is None and of_set.value(HELD_OUT) is None:
            message = f"{name or 'evaluation'} has no number of episodes"
            because = "the environment owns the data and never runs out of rows"
            yield of_set.wrong(message, HELD_OUT, because, SOME)
