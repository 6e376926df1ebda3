"""Lists the files of user code that a plan names: rewards, tools, environments and rollouts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from grpo_recipes.contract.plan import Plan


class UserFile(NamedTuple):
    """One function or class of a file of the user's.

    kind: "reward", "tool", "environment" or "rollout". part: its name in messages, "rewards.brevity". key: the recipe's
    key that names it. target, path, sha256 and imports: as in a planned Reward of kind "python".
    """

    kind: str
    part: str
    key: tuple[str | int, ...]
    target: str
    path: str
    sha256: str | None
    imports: Mapping[str, str]

    @property
    def name(self) -> str:
        """The function or class in its file."""
        return self.target.rpartition(":")[2]

    @property
    def digests(self) -> dict[str, str | None]:
        """The digests of the file and of the files next to it that it imports, by name."""
        return {self.target.rpartition(":")[0]: self.sha256, **self.imports}


def user_files(plan: Plan) -> Iterator[UserFile]:
    """Every function and class of user code that the plan names, in the order of the recipe."""
    for index, reward in enumerate(plan.rewards):
        if reward.kind == "python":
            # A plan without a path still counts: its run folder may have the file.
            own = (reward.target, str(reward.path), reward.sha256, reward.imports)
            yield UserFile("reward", f"rewards.{reward.name}", ("rewards", index, "python"), *own)
    yield from files_of_tools(plan)


def with_changed(plan: Plan, changes: Callable[[UserFile], Mapping[str, Any]]) -> Plan:
    """The plan with fields changed in the entry of each of its user_files."""
    new = {file.part: changes(file) for file in user_files(plan)}
    environment, rollout = plan.environment_class, plan.rollout
    several = {name: replace(each, **new[f"environments.{name}"]) for name, each in plan.environment_classes.items()}
    return replace(
        plan,
        rewards=tuple(replace(reward, **new.get(f"rewards.{reward.name}", {})) for reward in plan.rewards),
        tools=tuple(replace(tool, **new[f"tools.{tool.name}"]) for tool in plan.tools),
        environment_class=None if environment is None else replace(environment, **new.get("environment", {})),
        environment_classes=several,
        rollout=None if rollout is None else replace(rollout, **new["rollout"]),
    )


def files_of_tools(plan: Plan) -> Iterator[UserFile]:
    """The files of tools, environment and rollout, as in user_files."""
    for index, tool in enumerate(plan.tools):
        key = ("tools", index, "python")
        yield UserFile("tool", f"tools.{tool.name}", key, tool.target, tool.path, tool.sha256, tool.imports)
    for index, (name, each) in enumerate(plan.environment_classes.items()):
        own = (each.target, each.path, each.sha256, each.imports)
        yield UserFile("environment", f"environments.{name}", ("environments", index, "python"), *own)
    for kind, code in (("environment", plan.environment_class), ("rollout", plan.rollout)):
        if code is not None and code.path:
            yield UserFile(kind, kind, (kind, "python"), code.target, code.path, code.sha256, code.imports)
