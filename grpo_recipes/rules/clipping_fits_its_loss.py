"""Clipping bounds let the policy learn, and the loss reads them.

A completion that the policy just wrote has the ratio 1. A delta below 1 cuts that off: no completion that is better
than its group gets a gradient, and only the worse ones train. A delta should be above the upper bound, 1 +
epsilon_high; a lower one moves that bound. cispo bounds the ratio by epsilon_high itself, not by 1 + epsilon_high: the
usual 0.2 sets every ratio to 0.2, so gradients are a fifth and no token is weighted; its authors use 5.0. sapo and
vespo do not clip, and cispo reads only epsilon_high. An epsilon of 1 or more puts the lower bound at 0 or below, which
no ratio reaches, so worse completions are never clipped, and an epsilon_high of 1 or more clips better ones only where
the policy has doubled a probability. Such a value is often the bound itself, 1.2 for 0.2 and 1.28 for 0.28.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import DELTA, EPSILON, HIGH, LOSS, loss_of

ID = "LOS007"
CISPO_BOUND = 5.0


def check(context: Context) -> Iterator[Finding]:
    loss = str(context.value(LOSS))
    reads = loss_of(context).bounds
    for key in (EPSILON, HIGH, DELTA):
        if key not in reads and context.is_given(key) and context.value(key) is not None:
            name = key.partition(".")[2]
            message = f"{name} has no effect on loss_type {loss}"
            because = f"{loss} reads {'only epsilon_high' if loss == 'cispo' else 'no clipping bound'}"
            yield context.wrong(message, key, because, severity="warning")
    high = _number(context, HIGH) or _number(context, EPSILON)
    if loss == "cispo" and high is not None and high <= 1:
        yield context.wrong(
            f"loss_type cispo with epsilon_high {high} sets every ratio to {high}",
            HIGH if context.is_given(HIGH) else LOSS,
            "cispo bounds the ratio by epsilon_high itself, and a new completion has the ratio 1",
            CISPO_BOUND,
            at=("grpo", "epsilon_high"),
            severity="warning",
        )
    low = _number(context, EPSILON)
    if EPSILON in reads and low is not None and low >= 1:
        meant = round(low - 1, 6) or 0.2
        message = f"epsilon {low:g} never clips a worse completion"
        because = f"its bounds are 1 - epsilon = {1 - low:g}, which no ratio reaches, and 1 + epsilon = {1 + low:g}"
        yield context.wrong(message, EPSILON, because, meant if meant < 1 else 0.2, severity="warning")
    if loss != "cispo" and HIGH in reads and context.is_given(HIGH) and high is not None and high >= 1:
        meant = round(high - 1, 6)
        message = f"epsilon_high {high:g} clips a better completion only at {1 + high:g} times its probability"
        because = f"the upper bound is 1 + epsilon_high = {1 + high:g}"
        yield context.wrong(message, HIGH, because, meant if 0 < meant < 1 else 0.28, severity="warning")
    delta = _number(context, DELTA)
    if DELTA in reads and delta is not None and high is not None and delta <= 1 + high:
        yield _low_delta(context, delta, high)


def _number(context: Context, key: str) -> float | None:
    value = context.value(key)
    return float(value) if isinstance(value, int | float) else None


def _low_delta(context: Context, delta: float, high: float) -> Finding:
    cut = delta < 1
    return context.wrong(
        f"delta {delta:g} removes the gradient of every completion that is better than its group"
        if cut
        else f"delta {delta:g} is not above the upper bound {1 + high:g}",
        DELTA,
        ["a new completion has the ratio 1, which delta cuts off"]
        if cut
        else ["delta should limit worse completions beyond the usual clipping; here it moves the bound of better ones"],
        max(4.0, 2 * (1 + high)),
        fix="delta: 4.0, or remove it",
        severity="error" if cut else "warning",
    )
