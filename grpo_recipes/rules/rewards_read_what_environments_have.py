"""A reward reads attributes that the environment's objects have.

A function with the parameter `environments` gets the object of each completion. `env.solved` raises AttributeError at
the first reward if neither the class nor a method sets `solved`; `getattr(env, "solved", False)` is False for every
completion, so the reward is always 0. The same holds for what the class's own methods read of `self`. The rule reads
the files of the class and of the rewards, and is silent if they use setattr, vars or __getattr__, or if a base class is
not in the file.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import read_environment
from grpo_recipes.rules.reward_columns_exist import OBJECTS, reward_function
from grpo_recipes.user_files.functions.definitions import Definition, definition

if TYPE_CHECKING:
    from grpo_recipes.user_files.functions.object_attributes import Lookup

ID = "RWD017"


def check(context: Context) -> Iterator[Finding]:
    environment = read_environment(context)
    if environment is None or environment[1].is_open:
        return
    from grpo_recipes.user_files.functions.object_attributes import attributes_set, read_of_elements, read_of_self

    code, environment_class = environment
    target = definition(code.path, code.name)
    assert isinstance(target, Definition)
    reads = [(code.place, target, read_of_self(target))]
    for index, reward in enumerate(context.items("rewards")):
        if (function := reward_function(context, index, reward)) is not None:
            reads.append((("rewards", index, "python"), function, read_of_elements(function.node, OBJECTS)))
    known = {*environment_class.methods, *environment_class.others}
    for tree in {of.path: of.tree for _, of, _ in reads}.values():
        if (names := attributes_set(tree)) is None:
            return
        known |= names
    for key_path, of, of_function in reads:
        unknown = {read.name: read for read in of_function if read.name not in known and not read.name.startswith("__")}
        for read in unknown.values():
            yield _finding(context, key_path, of, environment_class.name, known, read)


def _finding(context: Context, key_path: Path, of: Definition, owner: str, known: set[str], read: "Lookup") -> Finding:
    file = of.path.rpartition("/")[2]
    own = sorted(name for name in known if not name.startswith("_"))
    near = nearest_words(read.name, own, cutoff=0.6) or [name for name in own if read.name in name]
    return context.finding(
        f"{file}:{read.line}: {owner} has no attribute {read.name}",
        ".".join(map(str, key_path[:2])) if key_path[0] == "environment" else "rewards",
        [
            "Python raises AttributeError there" if read.raises else "the object of every completion lacks it",
            f"{owner} and the files that use it set {', '.join(own)}",
        ],
        fix=near[0] if near else f"set self.{read.name} in {owner}.reset",
        severity="error" if read.raises else "warning",
        mark=context.source.mark(key_path),
    )
