"""A reward that asks a model behind an endpoint: the recipe's `judge`."""

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import StrictUndefined

from grpo_recipes.contract.files.own_cache import cache_folder
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.chat_client import CUT, EMPTY, WRONG_KEY, WRONG_NAME, ChatClient, NoAnswer
from grpo_recipes.worker._shared.inputs import answer_text, prompt_text
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.limits import TooMuch, limit_block
from grpo_recipes.worker.data.templates import Sandbox, compile_template, refuse_null

# The values that TRL passes besides the columns of the rows.
_NO_COLUMNS = ("prompts", "completions", "completion_ids")
_NUMBER = re.compile(r"(?:(?<![\w.,])[-+])?(?:[0-9]+(?:[.,][0-9]+)*|(?<!\w)\.[0-9]+)")
"""A number, including ones with ambiguous commas or points."""
_OF = re.compile(
    rf"(?<![\w.,/])({_NUMBER.pattern})[*_\s]*(?:/|\bout of\b|\bof\b|\((?:out )?of\b)[*_\s]*[0-9]+(?:\.[0-9]+)?"
    r"[\s*_.!)\]\"'`]*\Z"
)
"""The end of an answer such as 7/10, 7 out of 10, 7 (of 10) or **7**/10."""
_CLIENT = ("key_variable", "timeout", "retries", "concurrency")


class Judged(NamedTuple):
    """The judge's answer about a completion. answer: its text or ""; why: the reason for a missing score or ""."""

    question: str
    answer: str
    score: float | None
    why: str


class Judge:
    """Scores completions with a judge; None if the judge gave no score, which TRL leaves out of the sum.

    remembers: use cached answers. at: the judge's model and address. Raises Refused for a prompt that cannot be parsed,
    and for a missing key.
    """

    def __init__(self, reward: Reward, *, remembers: bool = True) -> None:
        how = reward.kwargs
        self._name, self._how, self._failed, self._told = reward.name, how, 0, False
        self._path = (f"reward {reward.name}", "judge", "prompt")
        sandbox = Sandbox(
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            finalize=refuse_null,
            optimized=False,
        )
        text = str(how["prompt"])
        self._template = compile_template(functools.partial(sandbox.from_string, text), self._path, text)
        self._score = None if how["score"] is None else re.compile(str(how["score"]))
        client: dict[str, Any] = {name: how[name] for name in _CLIENT}
        self._client = ChatClient(reward.target, **client, remembers=remembers)
        self.at = f"{how['model']} at {reward.target}"

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        columns = {name: values for name, values in given.items() if isinstance(values, list)}
        judged = self.judge_all(self.questions(prompts, completions, columns))
        reasons = Counter(answer.why for answer in judged if answer.score is None)
        if reasons:
            before, self._failed = self._failed, self._failed + reasons.total()
            if len(str(before)) < len(str(self._failed)) or not before:  # the first time, and at 10, 100, ...
                print(
                    f"reward {self._name}: no score for {reasons.total()} of {len(judged)} "
                    f"completion{'s' * (len(judged) != 1)}, "
                    f"{self._failed} so far: {reasons.most_common(1)[0][0]}",
                    flush=True,
                )
        if self._client.forgets and not self._told:
            self._told = True
            print(
                f"reward {self._name}: the judge's answers cannot be cached in {cache_folder()}; "
                "a resumed or a second run asks, and pays, again",
                flush=True,
            )
        return [answer.score for answer in judged]

    def questions(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Sequence[Any]]
    ) -> list[str]:
        """Returns the message for each completion. Raises Refused for a row that cannot fill the template."""
        names = [name for name in columns if name not in _NO_COLUMNS]
        made: list[str] = []
        try:
            with limit_block() as restart_limits:
                for index, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
                    restart_limits()
                    row = {name: columns[name][index] for name in names}
                    texts = {"prompt": prompt_text(prompt), "completion": answer_text(completion)}
                    made.append(self._template.render(row | texts))
        except (Exception, TooMuch) as problem:  # a template may raise anything
            because = [str(problem), f"the row has the columns {', '.join(sorted(names)) or 'none'}"]
            because.append(f"the prompt of the row is {prompt_text(prompts[len(made)])[:100]!r}")
            message = f"reward {self._name}: a row cannot fill the judge's prompt"
            raise Refused(mistake(message, because=because, path=self._path)) from problem
        return made

    def judge_all(self, questions: Sequence[str]) -> list[Judged]:
        """Returns the judge's answer to each question.

        Raises Refused if the endpoint rejects the key, or if it never answered and does not know the model.
        """
        how = self._how
        options = {name: how[name] for name in ("temperature", "max_tokens") if how[name] is not None}
        more: dict[str, Any] = {"model": how["model"], **options, **dict(how["request"])}  # type: ignore[call-overload]
        asked = [{**more, "messages": [{"role": "user", "content": question}]} for question in questions]
        judgments = []
        for question, answer in zip(questions, self._client.answers(asked, self._has_score), strict=True):
            if not isinstance(answer, NoAnswer):
                judgments.append(Judged(question, answer, *self._read_score(answer)))
            elif answer.status in WRONG_KEY or (answer.status == WRONG_NAME and not self._client.has_answered):
                raise self.refusal(answer)
            else:
                judgments.append(Judged(question, "", None, str(answer)))
        return judgments

    def refusal(self, problem: NoAnswer | str) -> Refused:
        """Returns the refusal for a judge that does not answer: its message, and a fix."""
        status = getattr(problem, "status", None)
        key = self._how["key_variable"]
        of_the_key = "name the variable with its key in judge.key_variable"
        if key is not None:
            of_the_key = f"check the endpoint's key in {key}; a run that has begun can be resumed"
        name = "check judge.model, the endpoint's name for it, and judge.base_url, which usually ends with /v1"
        wrong = {401: of_the_key, 403: of_the_key, 404: name}
        failure, fix = "cannot be asked", wrong.get(status or 0, "check judge.base_url, and whether the endpoint runs")
        if str(problem) in (CUT, EMPTY):
            failure, fix = "gives no answer", "raise judge.max_tokens, which includes the judge's thinking"
        return Refused.of(
            f"reward {self._name}: {self.at} {failure}",
            because=[str(problem), *([] if key is not None or status not in (401, 403) else ["no key was sent"])],
            fix=fix,
        )

    def _has_score(self, answer: str) -> bool:
        return self._read_score(answer)[0] is not None

    def _read_score(self, answer: str) -> tuple[float | None, str]:
        """Returns the score in an answer as a reward, or why it has no score."""
        answer = answer.replace("\u2212", "-")  # the minus of mathematics
        try:
            with limit_block():
                texts = _numbers(answer) if self._score is None else self._score.findall(answer)[-1:]
        except TooMuch as problem:
            message, fix = f"reward {self._name}: judge.score exceeds its limits", "judge.score: a simpler expression"
            raise Refused.of(message, because=str(problem), fix=fix) from None
        shown = f"in {answer.strip()[-80:]!r}"
        if len(texts) > 1:
            return None, f"several numbers; write judge.score, {shown}"
        try:
            number = float(texts[0])
        except (IndexError, ValueError):
            return None, f"no score {shown}" if answer.strip() else "the answer is empty"
        if not math.isfinite(number):
            return None, f"the score is {number} {shown}"
        scale = self._how["scale"]
        if scale is None:
            return number, ""
        low, high = (float(bound) for bound in scale)  # type: ignore[attr-defined]
        if not low <= number <= high:
            return None, f"the score {number:g} is not between {low:g} and {high:g}, {shown}"
        return (number - low) / (high - low), ""


def _numbers(answer: str) -> list[str]:
    """Returns the number that the answer ends with, as in "7/10"; otherwise the different numbers in it."""
    if (end := _OF.search(answer)) is not None:
        return [end[1]]
    return list(dict.fromkeys(_NUMBER.findall(answer)))
