"""Code of a plan that is not grpo-run's own.

What completions are made with beside the model: tools that it calls, an environment that answers it, a rollout; what a
preflight says in its place; and the packages that rewards come from.

Their files are pinned as those of a Reward of kind "python" are: target is "file.py:name", the file is in worker/user/
of the run folder, sha256 is its digest, path its absolute place when the plan was made. imports: files beside it that
it imports, by name with their digests; they are in worker/user/ too.
"""

from dataclasses import dataclass, field

SANDBOX_VARIABLE = "GRPO_RUN_SANDBOX"
"""Hands `launch.sandbox: none` to the processes of a run; a recipe cannot set it, and launch.sh clears it before."""


@dataclass(frozen=True, slots=True)
class Package:
    """The installed package of a reward. name, release: None where the stack of the plan did not say.

    is_factory: whether what the target names is called once, with the kwargs, and gives the reward; None where its
    source was not there to say, and the worker asks its signature.
    """

    name: str | None
    release: str | None
    is_factory: bool | None


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the model can call, by its own name.

    is_async: defined with `async def`; None where its source does not say. timeout: seconds that a call may take.
    """

    name: str
    target: str
    path: str
    sha256: str
    imports: dict[str, str] = field(default_factory=dict)
    is_async: bool | None = False
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class EnvironmentClass:
    """The class whose methods the model can call, one object for each completion. config: keywords it is made with.

    timeout: seconds that making it, a reset or a call may take.
    """

    name: str
    target: str
    path: str
    sha256: str
    imports: dict[str, str] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """The function that makes the completions instead of TRL."""

    name: str
    target: str
    path: str
    sha256: str
    imports: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """What a preflight says in the place of the model: a call of a tool, or where tool is None an answer."""

    tool: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    answer: str | None = None
