"""A judge gives no score to many completions.

TRL leaves a missing score out of a completion's reward, which is then the sum of the other rewards; if there are none,
the completion teaches nothing. The usual causes are an endpoint that is down or overloaded, a rate limit, and answers
without a score or with a score outside of judge.scale.

Threshold: guards.failing_judge_share, 0.5 by default, of the completions of a logged step, after all retries. Signal:
judge/failed, over all processes.

Action: stop; below the threshold a note, so the end of the run reports that scores were missing. The log has the
reason, as "reward judge: no score for 3 of 16 completions".
What to do: repair the endpoint and resume the run; answers that it already gave are cached. Raise judge.retries or
judge.timeout, lower judge.concurrency, or change judge.prompt so that each answer has a score.
"""

from grpo_recipes.contract.metric_names import JUDGE_FAILED
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, shown

ID = "GRD014"
NAME = "failing_judge"


class FailingJudge(Guard):
    """Looks at each line by itself."""

    def __init__(self, guards: Guards) -> None:
        self._share = guards.failing_judge_share

    def look(self, line: Line) -> Alarm | None:
        """Alarms at each line whose share of completions without a score reaches the threshold; notes any other."""
        failed = line.figures.get(JUDGE_FAILED)
        self.seen |= failed is not None
        if not failed:
            return None
        return Alarm.of(
            failed,
            f"the judge gave no score to {shown(100 * failed)} % of the completions",
            "their reward is the sum of the other functions; the log has the reason",
            "repair the judge's endpoint, and resume: answers that it already gave are cached",
            is_note=failed < self._share,
        )
