"""Findings for other programs' names of keys and sections."""

from collections.abc import Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, path_text
from grpo_recipes.contract.findings.wording import flow
from grpo_recipes.rules._shared.context import finding_at
from grpo_recipes.schemas.fast_accept import section_keys
from grpo_recipes.schemas.other_names import Row, algorithm_row, home_of, key_row, other_names, value_here
from grpo_recipes.yaml.compose import Source

PROMPTS: Path = ("training", "prompts_per_step")
# Keys that follow from the prompts per step, and are written under `trl` only without them.
DERIVED = {
    "gradient_accumulation_steps": "the accumulation, with the processes and the micro-batch",
    "steps_per_generation": "the generations, with grpo.optimizer_steps_per_generation",
    "generation_batch_size": "the generations, with grpo.optimizer_steps_per_generation",
}
_APART = ("environment", "environments", "evaluation", "preflight", "rewards", "rollout", "tools", "warm_start")
"""Sections that are not about how GRPO trains the policy."""
_TRACKERS: Path = ("logging", "report_to")


def finding_of_other_program(path: Path, value: object, message: str, rule: str, source: Source) -> Finding | None:
    """The finding for another program's key, feature or algorithm; None for any other name."""
    section, name = path_text(path[:-1]), str(path[-1])
    row = key_row("generation" if is_verls_rollout(path, source) else section, name)
    is_algorithm = name in other_names()["algorithm_keys"] and isinstance(value, str)
    algorithm = algorithm_row(value) if is_algorithm else None
    finding = finding_at(source, rule, path, message)
    if algorithm is not None:
        because, fix, patch = algorithm_answer(path, algorithm, source)
        return finding._replace(because=because, fix=fix, patch=patch)
    if row is None or (name in other_names()["sections"] and isinstance(value, dict)):
        return None
    if "home" in row:
        return _finding_with_home(path, row, value, finding, source)
    is_removed = row["instead"].startswith("remove ")
    fix = row["instead"].replace("remove it", f"remove {name}", 1)
    return finding._replace(because=(row["because"],), fix=fix, patch=(Patch(path, remove=True),) if is_removed else ())


def _finding_with_home(path: Path, row: Row, value: object, finding: Finding, source: Source) -> Finding:
    home = row["home"]
    section, last = path_text(path[:-1]), home.rpartition(".")[2]
    home = f"{section}.{last}" if section and last in section_keys().get(section, ()) else home
    home_path = tuple(home.split("."))
    is_override = source.is_override(path)
    over = source.what_it_overrides(path, home_path)
    is_taken = value_written_at(source, home_path) is not None and not is_override and not over
    here = value_here(row, value)
    if is_apart(path, home_path, source):
        return not_meant(finding, path, home)
    because = [f"the format has {home}" + (", which is written too" if is_taken else "")]
    because += [reason for reason in (over, row.get("differs")) if reason]
    patch = [Patch(path, remove=True), Patch(home_path, here)]
    fix = f"write it as {home}" if here == value else f"write it as {home}: {flow(here)}"
    if "tracker" in row and value_written_at(source, _TRACKERS) in (None, []):
        patch.append(Patch(_TRACKERS, [row["tracker"]]))
        fix += f", with {path_text(_TRACKERS)}: [{row['tracker']}]"
    if (isinstance(value, dict) and len(home_path) > 1) or (home_path[-1] == "name" and not isinstance(value, str)):
        patch = []  # the value does not fit this key
    if is_taken:
        fix, patch = f"keep one of the two, as {home}", []
    return finding._replace(because=tuple(because), fix=fix, patch=() if is_override else tuple(patch))


def is_apart(path: Path, target: Path, source: Source) -> bool:
    """Whether a key would mean something else at the format's place: a judge's temperature is not the policy's."""
    if is_verls_rollout(path, source) and target[0] in ("generation", "grpo"):
        return False
    return (path[0] in _APART and target[0] != path[0]) or path == ("dataset", "seed")


def is_verls_rollout(path: Path, source: Source) -> bool:
    """Whether a key is in verl's `rollout`, which configures the policy's generation and names no function."""
    rollout = source.values.get("rollout")
    return path[0] == "rollout" and len(path) > 1 and isinstance(rollout, dict) and "python" not in rollout


def not_meant(finding: Finding, path: Path, home: str) -> Finding:
    """The finding for a key whose name has a different meaning in the format; the intended one is unknown."""
    section = home if "." in home else f"the recipe's {home}"
    because = f"`{path[0]}` has no such key, and {section} configures training"
    return finding._replace(because=(because,), fix=f"remove {path[-1]}, or write {section} for training", patch=())


def algorithm_answer(path: Path, row: Row, source: Source) -> tuple[tuple[str, ...], str, tuple[Patch, ...]]:
    """Why an algorithm's name is not a value at a path, the keys that define it in a recipe, and the patches."""
    name = path_text(path[-1:])
    if "set" not in row:
        return (row["because"],), f"the nearest is {row['nearest']}", ()
    places = {("grpo", key): value for key, value in row["set"].items()}
    if not places and path[-1] == "loss_type":
        places = {("grpo", "loss_type"): row["names"][0]}  # always trained, and a loss too
    new = {
        target: value for target, value in places.items() if target == path or value_written_at(source, target) is None
    }
    patch = [Patch(target, value) for target, value in new.items()]
    if path not in places:
        patch.insert(0, Patch(path, remove=True))
    other = {key[-1]: value_written_at(source, key) for key, value in places.items() if key not in new}
    because = (row["because"], *(f"the recipe has {key} {flow(value)}, which stays" for key, value in other.items()))
    shown = flow({key[-1]: value for key, value in new.items()})
    fix = f"write grpo: {shown}" if new else f"remove {name}"
    if new and path not in places:
        fix += f" instead of {name}"
    return because, fix, tuple(patch)


def names_it_too(patches: Sequence[Patch]) -> bool:
    """Whether patches move another program's key or section to the equivalent one of the format."""
    removed = [patch.path for patch in patches if patch.remove]
    new = [path_text(patch.path) for patch in patches if not patch.remove]
    if len(removed) != 1 or len(new) != 1:
        return False
    old = removed[0]
    section = other_names()["sections"].get(old[0]) if len(old) == 1 else None
    return new[0] in (home_of(path_text(old[:-1]), str(old[-1])), section)


def value_written_at(source: Source, path: Path) -> object:
    """The value written at a path, None without one."""
    node: object = source.values
    for part in path:
        node = node.get(str(part)) if isinstance(node, dict) else None
    return node
