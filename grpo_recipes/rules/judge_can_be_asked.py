"""A judge gets the completion, and its answer has a readable score.

`judge.prompt` is a jinja2 template, and has to use `completion`; otherwise every completion of a row gets the same
score. `judge.score` is a regular expression with one group, the number; without it the answer has to contain one
number, or end with one, as in "7/10". A pattern that reads the 10 there gives every completion the highest score. grpo-
run sets model, messages, stream and n, so `judge.request` cannot. The key of an endpoint is never in a recipe:
`judge.key_variable` names an environment variable whose name marks a secret, because grpo-run hides the values of these
variables in everything that it writes. RWD002 checks the other columns that the template reads.
"""

import re
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.template import TemplateProblem, template_variables

ID = "RWD009"
OF_THE_COMPLETION = ("completion", "prompt")
"""Variables of a judge's template in addition to the columns of the row."""
_OWN = ("model", "messages", "stream", "n")
_LOOPBACK = r"https://.*|http://(localhost|127\.[0-9.]+|\[::1\])([:/].*)?"


def judge_columns(judge: dict[str, Any]) -> list[str]:
    """The columns that a judge's template reads; empty if the template has a syntax error."""
    try:
        return sorted(template_variables(judge["prompt"]).difference(OF_THE_COMPLETION))
    except TemplateProblem:
        return []


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        if isinstance(judge := reward.get("judge"), dict):
            yield from _judge(context, ("rewards", index, "judge"), judge)
            if reward.get("options"):
                path: Path = ("rewards", index, "options")
                because = "options are keywords of a function; a judge has its own keys, such as request"
                yield _at(context, path, "a judge has no options", because, patch=Patch(path, remove=True))


def _at(
    context: Context, path: Path, message: str, because: str, fix: str | None = None, patch: Patch | None = None
) -> Finding:
    mark = context.source.mark(path)
    return context.finding(message, "rewards", because, fix=fix, patch=[] if patch is None else [patch], mark=mark)


def _judge(context: Context, path: Path, judge: dict[str, Any]) -> Iterator[Finding]:
    template, address = (*path, "prompt"), (*path, "base_url")
    try:
        if "completion" not in template_variables(judge["prompt"]):
            because = "without {{ completion }} all completions of a row get the same score"
            yield _at(context, template, "judge.prompt has no {{ completion }}", because, fix="add {{ completion }}")
    except TemplateProblem as problem:
        because = "jinja2 raises TemplateSyntaxError before the model is loaded"
        fix = 'two braces on each side for a variable, "{{ completion }}", and single ones for text, "{}"'
        yield _at(context, template, f"the judge's prompt cannot be read: {problem}", because, fix=fix)
    url, key, scale = str(judge["base_url"]), judge["key_variable"], judge["scale"]
    if (whole := url.rstrip("/")).endswith("/chat/completions"):
        better = whole.removesuffix("/chat/completions")
        because = "grpo-run adds /chat/completions to base_url"
        yield _at(
            context, address, "base_url must not end with /chat/completions", because, patch=Patch(address, better)
        )
    if key is not None:
        from grpo_recipes.contract.secrets.known_secrets import names_a_secret

        if not names_a_secret(key):
            because = "grpo-run hides the values of variables whose names contain a word such as KEY or TOKEN"
            fix = "the name of a variable, e.g. JUDGE_API_KEY, and never the key itself"
            yield _at(context, (*path, "key_variable"), "key_variable does not name a secret", because, fix=fix)
        elif not re.fullmatch(_LOOPBACK, url):
            because = "base_url begins with http, so anyone on the way can read the key and the texts"
            message = "the judge's key would travel unencrypted"
            yield _at(context, address, message, because, fix="https, if the endpoint supports it")._replace(
                severity="warning"
            )
    for name in (name for name in _OWN if name in judge["request"]):
        own, fix = (*path, "request", name), "judge.model" if name == "model" else "judge.prompt"
        because = "grpo-run sends one message and reads one whole answer"
        fix = f"remove it{f', and use {fix}' if name in ('model', 'messages') else ''}"
        yield _at(context, own, f"judge.request cannot set {name}", because, fix=fix, patch=Patch(own, remove=True))
    if judge["score"] is not None and (wrong := _not_one_group(judge["score"])):
        because = "the group is the number, e.g. score: 'Score: ([0-9.]+)'"
        yield _at(context, (*path, "score"), f"judge.score {wrong}", because, fix="put only the number in ( )")
    elif judge["score"] is not None and (asked := _scale_read_as_score(judge["score"], str(judge["prompt"]))):
        because = "judge.score takes the last match, so every completion gets the highest score"
        fix = "score: '([0-9.]+)/[0-9]+'"
        message = f"judge.score reads the scale's end in {asked}, the form that the prompt asks for"
        yield _at(context, (*path, "score"), message, because, fix=fix)._replace(severity="warning")
    if scale is not None and not scale[0] < scale[1]:
        because = "its first number is the lowest score, which becomes 0, and its second the highest, which becomes 1"
        yield _at(
            context,
            (*path, "scale"),
            f"judge.scale [{scale[0]:g}, {scale[1]:g}] does not increase",
            because,
            patch=Patch((*path, "scale"), scale[::-1]) if scale[0] > scale[1] else None,
            fix=None if scale[0] > scale[1] else "scale: [0, 10]",
        )


def _scale_read_as_score(pattern: str, prompt: str) -> str:
    """A score as the prompt asks for it, such as "7/10", in which the pattern reads the 10; "" if it reads the 7."""
    for _, most in re.findall(r"(\w+|[>}\])])\s*/\s*([0-9]+)", prompt):
        read = re.findall(pattern, f"Score: 7/{most}")[-1:]
        if read == [most]:
            return f"7/{most}"
    return ""


def _not_one_group(pattern: str) -> str:
    """What is wrong with a pattern, in words that follow its key; "" for one with one group."""
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, ValueError, RecursionError) as problem:
        return f"is not a regular expression: {problem}"
    return "" if groups == 1 else f"has {groups or 'no'} group{'' if groups == 1 else 's'}"
