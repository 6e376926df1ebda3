"""A judge or a reward fails on many completions.

A completion without a judge's score, or for which a reward function raises an exception, leaves its group: it is not
trained, and has no part in the group's mean and deviation. The usual causes are an endpoint that is down or overloaded,
a rate limit, answers without a score or with a score outside of judge.scale, and completions that a function cannot
read. A function that raises for all completions of a call ends the run with its exception.

Threshold: guards.failing_judge_share, 0.5 by default, of the completions of a logged step, after all retries. Signals:
judge/failed, the share of the completions that a judge was asked about, and completions/failed, the share of all, over
all processes.

Action: stop; below the threshold a note, so the end of the run reports that scores were missing. The log has the
reason, as "reward judge: no score for 3 of 16 completions" or "reward mine: raised for 3 of 16 completions".
What to do: repair the endpoint and resume the run; answers that it already gave are cached. Raise judge.retries or
judge.timeout, lower judge.concurrency, or change judge.prompt so that each answer has a score. Let the function return
0.0 for a completion that is wrong.
"""

from grpo_recipes.contract.metric_names import COMPLETIONS_FAILED, JUDGE_FAILED
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, figure

ID = "GRD014"
NAME = "failing_judge"


class FailingJudge(Guard):
    """Looks at each line by itself."""

    def __init__(self, guards: Guards) -> None:
        self._share = guards.failing_judge_share
        self.seen = True  # completions/failed is logged only after a failure

    def look(self, line: Line) -> Alarm | None:
        """Alarms at each line whose share of completions without a score reaches the threshold; notes any other."""
        shares = {
            line.figures.get(COMPLETIONS_FAILED, 0.0): "a reward raised an exception for",
            line.figures.get(JUDGE_FAILED, 0.0): "the judge gave no score to",
        }
        failed = max(shares)
        if not failed:
            return None
        return Alarm.of(
            failed,
            f"{shares[failed]} {figure(100 * failed)} % of the completions",
            "they leave their groups and are not trained; the log has the reason",
            "repair the judge's endpoint, and resume: answers that it already gave are cached",
            is_note=failed < self._share,
        )
