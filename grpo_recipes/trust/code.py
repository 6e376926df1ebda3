"""Lists the code of a plan that is not part of the installed packages, and records the user's consent."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.regular_file import files_sha256
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import CODE_OF, Model, Plan, Reward
from grpo_recipes.contract.plan_sections import Package, ScriptedTurn
from grpo_recipes.trust.environment import is_harmless, names_a_place
from grpo_recipes.trust.remembered import allow, is_allowed
from grpo_recipes.trust.user_code import files_of_tools, user_files
from grpo_recipes.user_files.digests import code_files, repositories_in
from grpo_recipes.user_files.model_config import snapshot_in_cache

SHORTEST_PREFIX = 32
SHOWN_DIGITS = 12
MOST_NAMES = 4
VARIABLE = "environment variable"
OF_FILES = {
    "reward": ("python reward", "file imported by a reward"),
    "tool": ("tool", "file imported by a tool"),
    "environment": ("environment", "file imported by an environment"),
    "rollout": ("rollout", "file imported by a rollout"),
}
"""The names of a user's file, and of one that it imports."""
WITHOUT_SANDBOX, TURNS, JUDGE = "launch.sandbox", "preflight.turns", "rewards.judge"
CONTAINER = "container image"
OF_THE_RECIPE = (WITHOUT_SANDBOX, TURNS, JUDGE)
VALUES = (VARIABLE, *OF_THE_RECIPE)
"""Kinds that are not code by themselves."""
KNOWN_MODULES = ("trl.rewards",)
RUNS_CODE = ("code_tests",)
"""Shipped rewards that run model-written code."""
# Starts the run's vLLM server, see facts/data/vllm_server.json.
SET_BY_GRPO_RUN = (("VLLM_SERVER_DEV_MODE", "1"), ("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1"))


@dataclass(frozen=True, slots=True)
class CodePart:
    """One piece of foreign code.

    kind: one of OF_FILES, "package reward", "remote code", "attention kernel", CONTAINER,
    "environment variable", or the key of a recipe that has allowed code do more. what: it is, in words.
    is_fixed: the digest covers all of it; anything else may differ next time, so it needs consent each time.
    """

    kind: str
    what: str
    sha256: str
    is_fixed: bool = True


def code_parts(plan: Plan) -> list[CodePart]:
    """Every piece of foreign code that the plan would run, each digest once."""
    parts: dict[str, CodePart] = {}
    for file in user_files(plan):
        if file.sha256 is not None:
            parts.setdefault(file.sha256, CodePart(OF_FILES[file.kind][0], file.path, file.sha256))
            for name, sha256 in file.imports.items():
                beside = os.path.join(os.path.dirname(file.path), name)
                parts.setdefault(sha256, CodePart(OF_FILES[file.kind][1], beside, sha256))
    for reward in plan.rewards:
        if (package := reward.package) is not None and not is_known(reward):
            part = _package_part(reward.target, package, reward.kwargs)
            parts.setdefault(part.sha256, part)
    running = [reward.target for reward in plan.rewards if reward.kind == "shipped" and reward.target in RUNS_CODE]
    if plan.sandbox == "none" and (parts or running):
        words = "none, which gives code that the model writes your rights,"
        part = CodePart(WITHOUT_SANDBOX, words, _sha256(f"without a sandbox {' '.join([*sorted(parts), *running])}"))
        parts[part.sha256] = part
    if brings_remote_code(plan):
        for part in _remote_code(plan):
            parts.setdefault(part.sha256, part)
    kernel = str(plan.arguments.model_init_kwargs.get("attn_implementation"))
    if "/" in kernel:
        part = CodePart("attention kernel", f"{kernel} of the hub", _sha256(f"kernel {kernel}"))
        parts.setdefault(part.sha256, part)
    for part in (*_container_parts(plan), *environment_parts(plan), *_judge_parts(plan)):
        parts.setdefault(part.sha256, part)
    return list(parts.values())


def _container_parts(plan: Plan) -> Iterator[CodePart]:
    """The container image of a job, with its mounts. A file is identified by size and time, since hashing it takes
    long.

    A folder, or a registry name without a digest, may be something else tomorrow.
    """
    container = plan.job.get("container")
    if isinstance(container, dict):
        image, file = str(container.get("image")), ""
        if os.path.isfile(image):
            status = os.stat(image)
            file = f"{status.st_size} {status.st_mtime_ns}"
        text = f"container {json.dumps(container, sort_keys=True)} {file}"
        yield CodePart(CONTAINER, image, _sha256(text), bool(file) or "@sha256:" in image)


def _judge_parts(plan: Plan) -> Iterator[CodePart]:
    """The endpoints that text is sent to, and the variable whose value each gets; consent ignores all other options."""
    for reward in plan.rewards:
        if reward.kind == "judge":
            key = reward.kwargs.get("key_variable")
            gets = "prompts, completions and columns of the rows" + (f", and the value of {key}" if key else "")
            yield CodePart(JUDGE, f"{reward.target}, which gets {gets},", _sha256(f"judge {reward.target} {key}"))


def is_known(reward: Reward) -> bool:
    """Whether a reward is from a package that every training imports, and is meant to be used as one."""
    module, _, name = reward.target.rpartition(":")
    is_of_trl = reward.package is not None and reward.package.name == "trl"
    return is_of_trl and module in KNOWN_MODULES and not name.startswith("_")


def _package_part(target: str, package: Package, given: dict[str, object]) -> CodePart:
    """A target in a package, with its options: a recipe may name any callable, so consent covers both."""
    options = json.dumps(given, sort_keys=True)
    of = f"{package.name or 'a package that is not installed here'} {package.release or 'of any release'}"
    text = f"package {package.name}=={package.release} {target} {options}"
    return CodePart("package reward", f"{target} of {of} with {options}", _sha256(text), bool(package.release))


def environment_parts(plan: Plan) -> list[CodePart]:
    """The variables not known to be harmless, for the training and the server that it starts."""
    server = None if plan.vllm is None else plan.vllm.server
    given = [*plan.environment.items(), *([] if server is None else server.environment.items())]
    return [
        CodePart(VARIABLE, f"{name}={value}", _sha256(f"environment {name}={value}"), not names_a_place(value))
        for name, value in given
        if not is_harmless(name, value) and (name, value) not in SET_BY_GRPO_RUN
    ]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _whole_sha256(files: dict[str, str]) -> str:
    return files_sha256(sorted(files.items()), errors="surrogateescape")


def brings_remote_code(plan: Plan) -> bool:
    """Whether the model's own code may run."""
    arguments = (plan.arguments.model_init_kwargs, plan.arguments.GRPOConfig)
    return any(keywords.get("trust_remote_code") for keywords in arguments)


def _remote_code(plan: Plan) -> list[CodePart]:
    """The model's own code: a folder by its whole content, the hub by its commit; then code of other repositories."""
    model = plan.model
    if model.source == "hub":
        own, folder = _hub_code(model.path, model.commit, model.revision), snapshot_in_cache(model.path, model.commit)
    else:
        own, folder = _folder_code(model), Path(model.path)
    others = [] if folder is None else [name for name in repositories_in(str(folder)) if name != model.path]
    pinned = [(name, plan.verified.get(f"{CODE_OF}{name}")) for name in others]
    return [
        own,
        *(_hub_code(name, commit if isinstance(commit, str) else None, None, model) for name, commit in pinned),
    ]


def _folder_code(model: Model) -> CodePart:
    """The digest of the whole folder; if the plan records something else, also of that."""
    try:
        files = code_files(model.path)
    except OSError as problem:
        raise Refusal.of(f"{problem.filename} cannot be read", because=str(problem.strerror or problem)) from None
    other = {name: digest for name, digest in model.files.items() if files.get(name) != digest}
    text = f"remote code {_whole_sha256(files)}" + (f" planned {_whole_sha256(other)}" if other else "")
    return CodePart("remote code", model.path, _sha256(text))


def _hub_code(name: str, commit: str | None, revision: str | None, of: Model | None = None) -> CodePart:
    """Without a commit, the code may be something else tomorrow."""
    at = commit or revision
    words = f"{name}, " + (f"revision {at}" if at else "whatever its newest revision is")
    if of is not None:
        words += f", which {of.path} names"
    return CodePart("remote code", words, _sha256(f"{name}@{at}"), commit is not None)


def resolve_allowed(given: Iterable[str], parts: Sequence[CodePart]) -> list[str]:
    """The full digests that `--allow-code` names, in full or by their first 32 or more digits.

    Raises Refusal for a text that is too short, matches nothing in this recipe, or is ambiguous.
    """
    full = []
    for text in given:
        wanted = text.strip().lower()
        fits = [part.sha256 for part in parts if part.sha256.startswith(wanted)]
        if len(wanted) < SHORTEST_PREFIX:
            raise Refusal.of(
                f"--allow-code {text}: at least {SHORTEST_PREFIX} digits of the sha256 are needed",
                fix="paste the whole digest that was printed, or write here for the recipe's folder",
            )
        if not fits:
            raise Refusal.of(
                f"--allow-code {text}: no code of this recipe has this sha256",
                because="a changed file has a different one; the recipe has "
                f"{', '.join(part.sha256[:SHOWN_DIGITS] for part in parts) or 'no code at all'}",
            )
        if len(fits) > 1:
            raise Refusal.of(f"--allow-code {text}: matches {len(fits)} pieces of code", fix="write the whole sha256")
        full.append(fits[0])
    return full


def not_allowed(parts: Sequence[CodePart], given: Iterable[str]) -> list[CodePart]:
    """The parts that the user has not allowed, after remembering what `--allow-code` names.

    Code without a fixed digest is never remembered: it is allowed only while it is named.
    """
    named = set(resolve_allowed(given, parts))
    allow(part.sha256 for part in parts if part.is_fixed and part.sha256 in named)
    return [part for part in parts if part.sha256 not in named and not (part.is_fixed and is_allowed(part.sha256))]


def _what_is_not_allowed(parts: Sequence[CodePart]) -> str:
    """A description of the code that is not allowed yet."""
    if all(part.kind in OF_THE_RECIPE for part in parts):
        keys = " and ".join(dict.fromkeys(part.kind for part in parts))
        return f"this recipe's {keys} {'is' if len(parts) == 1 else 'are'} not allowed yet"
    variables = sum(part.kind == VARIABLE for part in parts)
    if variables == len(parts):
        return f"this recipe sets {'a variable that is' if variables == 1 else 'variables that are'} not allowed yet"
    return f"this recipe contains code {'and variables that are' if variables else 'that is'} not allowed to run yet"


def refusal(parts: Sequence[CodePart]) -> Finding:
    """The error for code that was not allowed, with the option to paste."""
    given = " ".join(f"--allow-code {part.sha256}" for part in parts)
    each_time = [part.what for part in parts if not part.is_fixed]
    changes = "value changes" if all(part.kind in VALUES for part in parts) else "code changes"
    some = ", ".join(each_time[:MOST_NAMES])
    return Finding(
        "",
        "error",
        _what_is_not_allowed(parts),
        because=tuple(f"{part.kind} {part.what} has the sha256 {part.sha256}" for part in parts),
        fix=f"read it, then add {given}; it is remembered for you until the {changes}",
        notes=(f"needs consent each time, since its content may change: {some}",) if each_time else (),
    )


_SHOWN_CHARACTERS = 160


def turn_parts(plan: Plan) -> list[CodePart]:
    """The calls with texts, as one part; empty if there are none.

    Its digest covers the calls and the code that they call, since input that is harmless to one tool may not be to
    another.
    """
    calls = [
        turn for turn in plan.scripted_turns if turn.tool is not None and any(_texts(list(turn.arguments.values())))
    ]
    if not calls:
        return []
    code = sorted(f"{file.kind} {file.name} {file.digests}" for file in files_of_tools(plan))
    text = json.dumps([[[turn.tool, turn.arguments] for turn in calls], code], sort_keys=True)
    shown = [_call_text(turn) for turn in calls[:MOST_NAMES]]
    more = [f"and {len(calls) - MOST_NAMES} more"] if len(calls) > MOST_NAMES else []
    return [CodePart(TURNS, "; ".join([*shown, *more]), _sha256(text))]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a YAML value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _call_text(turn: ScriptedTurn) -> str:
    """A call on one line, escaped; a long one is shortened to its beginning and end."""
    text = f"{json.dumps(turn.tool)[1:-1]}({json.dumps(turn.arguments)})"
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    half = _SHOWN_CHARACTERS // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters more] {text[-half:]}"
