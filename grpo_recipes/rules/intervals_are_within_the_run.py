"""Something that happens every so many steps happens during the run.

An interval above the number of optimizer steps is accepted, and then nothing happens: no line of metrics, no evaluation
between the first and the last step, and a reference model that is never synchronized. Without max_steps the rule
counts the rows of a local file. Checkpoints are not judged: the end of a run writes the trained model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.data_fills_a_generation import steps_at_most

ID = "TRN012"
EVALUATES, LOGS, SYNCS = "evaluation.every_steps", "GRPOConfig.logging_steps", "GRPOConfig.ref_model_sync_steps"
WITHOUT = {
    EVALUATES: "held-out rows are evaluated only before the first and after the last step",
    LOGS: "no step writes its metrics",
    SYNCS: "the reference model never changes",
}


def check(context: Context) -> Iterator[Finding]:
    for key, happens in WITHOUT.items():
        if key == EVALUATES and not _is_evaluated(context):
            continue
        if key == SYNCS and context.value("GRPOConfig.sync_ref_model") is not True:
            continue
        every = context.value(key)
        bound = steps_at_most(context) if isinstance(every, int) and every > 1 else None
        if bound is None or not isinstance(every, int) or every <= bound[0]:
            continue
        name, steps = key.partition(".")[2], bound[0]
        better = max(1, steps // 10)
        because = [f"{happens}", f"the run has {steps} steps: {bound[1]}"]
        message = f"{name} is {every}, but the run ends after {steps} steps"
        yield context.wrong(message, key, because, better, severity="warning")


def _is_evaluated(context: Context) -> bool:
    """Whether evaluations are only for the log; EVL005 judges those that choose a checkpoint or end the run."""
    chooses = any(context.value(f"evaluation.{key}") for key in ("keep_best", "stop_after"))
    return context.has_section("evaluation") and not chooses
