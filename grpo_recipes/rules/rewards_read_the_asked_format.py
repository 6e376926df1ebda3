"""Rewards read the format that the prompt asks for.

`tag_format` gives 0 to every completion in other tags than its own, and `exact_match` gives 0 to an answer in
`\\boxed{}`, because it compares the whole completion. If the prompt or the system prompt asks for such a format, the
reward is 0 for a model that follows the prompt. Tags around a column, as in `<question>{{ question }}</question>`, are
not a format for the answer.
"""

import re
from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "RWD014"
_PAIR = r"<([A-Za-z_][\w-]*)>([^<{]{0,80})</\1>"


def check(context: Context) -> Iterator[Finding]:
    asked = "\n".join(str(context.value(f"dataset.{key}") or "") for key in ("system_prompt", "prompt"))
    named = list(dict.fromkeys(tag for tag, _ in re.findall(_PAIR, asked))) if "</" in asked else []
    rewards = context.items("rewards")
    reads_boxes = any(reward.get("name") in ("accuracy", "cosine_scaled") for reward in rewards)
    for index, reward in enumerate(rewards):
        if reward.get("name") == "tag_format":
            tags = _tags(reward)
            if set(named) - set(tags) and set(tags) - set(named):
                what = f"tag_format looks for {_join_tags(tags)}, but the prompt asks for {_join_tags(named)}"
                because = "a completion in other tags gets 0"
                yield _finding(context, index, what, because, f"options: {{tags: [{', '.join(named)}]}}")
        elif reward.get("name") == "exact_match" and r"\boxed" in asked and not reads_boxes:
            what = r"exact_match compares the whole completion, but the prompt asks for \boxed{}"
            because = r"\boxed{42} is not 42, so an answer as asked gets 0"
            yield _finding(context, index, what, because, "name: accuracy, which reads the box")


def _tags(reward: Mapping[str, object]) -> list[str]:
    options = reward.get("options")
    tags = options.get("tags") if isinstance(options, dict) else None
    return [str(tag) for tag in tags] if isinstance(tags, list) else ["think", "answer"]


def _join_tags(tags: list[str]) -> str:
    return " and ".join(f"<{tag}>" for tag in tags)


def _finding(context: Context, index: int, message: str, because: str, fix: str) -> Finding:
    mark = context.source.mark(("rewards", index))
    return context.finding(message, "rewards", because, fix=fix, severity="warning", mark=mark)
