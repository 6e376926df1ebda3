"""The reward reasoning_gym knows where to look for the answer.

`answer_in` is completion, last_line or answer_tag. Any other word raises ValueError at the first reward, after the
first generation.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import flow, nearest_words
from grpo_recipes.contract.tasks import ANSWER_IN
from grpo_recipes.rules._shared.context import Context

ID = "RWD012"


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        options = reward.get("options")
        answer_in = options.get("answer_in", ANSWER_IN[0]) if isinstance(options, dict) else ANSWER_IN[0]
        if reward.get("name") == "reasoning_gym" and answer_in not in ANSWER_IN:
            near = nearest_words(str(answer_in), ANSWER_IN, cutoff=0.5)
            path = ("rewards", index, "options", "answer_in")
            yield context.finding(
                f"answer_in is {flow(answer_in)}, which the reward does not know",
                "rewards",
                f"the reward looks for an answer in {', '.join(ANSWER_IN)}",
                fix=f"answer_in: {near[0] if near else ANSWER_IN[0]}",
                patch=[Patch(path, near[0])] if near else [],
                mark=context.source.mark(path),
            )
