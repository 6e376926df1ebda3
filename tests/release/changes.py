"""What a release changes for a recipe and for the worker, read from the sources of two wheels, without imports."""

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from grpo_recipes.contract.seams import SEAMS, VALUES
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.source.field import Field, to_json_value
from grpo_recipes.facts.source.package_facts import PackageFacts

ROOT = Path(__file__).resolve().parents[2]
# Where a package has the classes whose methods are seams.
MEMBERS = {
    "trl": (
        "trl/trainer/grpo_trainer.py",
        "trl/trainer/base_trainer.py",
        "trl/generation/vllm_generation.py",
        "trl/generation/vllm_client.py",
    ),
    "transformers": ("transformers/trainer.py", "transformers/generation/utils.py"),
    "accelerate": ("accelerate/accelerator.py",),
    "vllm": ("vllm/entrypoints/llm.py",),
}
# Files that cite sources; a citation names a package and then a file of it.
CITING = ("grpo_recipes/**/*.py", "tests/support/**/*.py")
_NAMES = "trl|transformers|peft|accelerate|datasets|bitsandbytes|deepspeed|vllm|torch"
_CITED = re.compile(rf"\b({_NAMES})\b|(?<![\w/.])([a-z_]\w*(?:/\w+)*\.py)\b", re.IGNORECASE)
_NEAR = 160


def field_changes(old: PackageFacts, new: PackageFacts) -> Iterator[str]:
    """Fields that are new, gone or different, one a line: "GRPOConfig.beta: default 0.04 -> 0.0"."""
    for owner in dict.fromkeys([*old.owners, *new.owners]):
        before, after = (facts.owners[owner].fields if owner in facts.owners else {} for facts in (old, new))
        for name in dict.fromkeys([*before, *after]):
            change = _change(before.get(name), after.get(name))
            if change:
                yield f"{owner}.{name}: {change}"


def _change(before: Field | None, after: Field | None) -> str:
    if before is None and after is not None:
        return f"new, default {after.default}"
    if before is None or after is None:
        return "gone"
    old, new = to_json_value(before), to_json_value(after)
    parts = [f"{key} {old.get(key)} -> {new.get(key)}" for key in {**old, **new} if old.get(key) != new.get(key)]
    return "; ".join(parts)


def unclassified_fields(new: PackageFacts) -> list[str]:
    """Fields of a training's configuration that classified_fields.json lacks."""
    owners = [new.owners[name] for name in ("GRPOConfig", "TrainingArguments") if name in new.owners]
    return [name for owner in owners for name in owner.fields if name not in classified_fields()]


def window_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Windows of other packages that are declared differently, one a line: "transformers: >=5.0 -> >=5.2"."""
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'any')} -> {new.get(name, 'any')}"


def member_changes(package: str, old: Path, new: Path) -> Iterator[str]:
    """Members of the table of seams that are gone, take other arguments, or have another body, one a line.

    old, new: folders in which the wheels' files were unpacked.
    """
    names = {seam.member for seam in SEAMS}
    for file in MEMBERS.get(package, ()):
        texts = [(folder / file).read_text() if (folder / file).is_file() else "" for folder in (old, new)]
        before, after = map(methods_in, texts)
        changes = [member_change(before[name], after.get(name)) for name in sorted(names & before.keys())]
        yield from (f"{file}: {change}" for change in changes if change)
        yield from (f"{file}: {name} is new" for name in sorted(names & (after.keys() - before.keys())))
        yield from (
            f"{file}: self.{name} is gone"
            for name in VALUES
            if f"self.{name}" in texts[0] and f"self.{name}" not in texts[1]
        )


def member_change(before: ast.FunctionDef, after: ast.FunctionDef | None) -> str:
    """What changed about a method, in words; "" for nothing."""
    if after is None:
        return f"{before.name} is gone"
    if change := _argument_change(before.args, after.args):
        return f"{before.name} {change}"
    return "" if _body(before) == _body(after) else f"{before.name} has another body"


def methods_in(text: str) -> dict[str, ast.FunctionDef]:
    """The methods of a module's classes, by name."""
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: node for each in classes for node in each.body if isinstance(node, ast.FunctionDef)}


def _body(method: ast.FunctionDef) -> list[str]:
    """The statements without the docstring."""
    return [ast.dump(statement) for statement in method.body[ast.get_docstring(method) is not None :]]


def _argument_change(before: ast.arguments, after: ast.arguments) -> str:
    """What a method takes otherwise, "" for nothing; annotations do not count."""
    old, new = _arguments(before), _arguments(after)
    if [*old.items()] == [*new.items()]:
        return ""
    parts = [f"takes no {name}" for name in old if name not in new]
    parts += [f"takes {name}" for name in new if name not in old]
    return "; ".join(parts) or "takes its arguments in another order or with other defaults"


def _arguments(given: ast.arguments) -> dict[str, str]:
    """Argument -> its kind and default, in their order."""
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + [*given.defaults]
    ways = [("by place", *pair) for pair in zip(places, defaults, strict=True)]
    ways += [("by name", *pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    arguments = {arg.arg: f"{way} {default and ast.unparse(default)}" for way, arg, default in ways}
    return arguments | {f"*{arg.arg}": "" for arg in (given.vararg, given.kwarg) if arg is not None}


def cited_files(package: str, texts: Iterable[str]) -> dict[str, int]:
    """The ends of the files of a package that texts cite, and how often: "trainer/utils.py" -> 3."""
    counts: dict[str, int] = {}
    for text in texts:
        last, end = "", -_NEAR
        for match in _CITED.finditer(text):
            if match[1]:
                last, end = match[1].lower(), match.end()
            elif last == package and match.start() - end < _NEAR:
                counts[match[2]] = counts.get(match[2], 0) + 1
                end = match.end()
    return counts


def citing_texts() -> Iterator[str]:
    """The comments and docstrings of the product, without line ends."""
    for pattern in CITING:
        for file in sorted(ROOT.glob(pattern)):
            lines = file.read_text(encoding="utf-8").splitlines()
            yield " ".join(line.strip().lstrip("# ") for line in lines if not line.startswith(("import ", "from ")))


def path_in_wheel(cited: str, names: Iterable[str]) -> str | None:
    """The file of a wheel that a citation means: the one that is least deep, None without one."""
    ends = [name for name in names if name == cited or name.endswith(f"/{cited}")]
    return min(ends, key=lambda name: (name.count("/"), len(name)), default=None)


def source_changes(cited: Mapping[str, int], old: Path, new: Path) -> Iterator[str]:
    """Cited files that differ, those with the most changed lines first. cited: path in the wheel -> citations."""
    rows = []
    for path, count in cited.items():
        before, after = (_lines(folder / path) for folder in (old, new))
        if before and not after:
            rows.append((10**9, f"{path}: gone; cited {count} times"))
        elif before != after:
            marks = [line[0] for line in difflib.ndiff(before, after) if line[0] in "+-"]
            changed = f"+{marks.count('+')} -{marks.count('-')} lines"
            rows.append((len(marks), f"{path}: {changed}; cited {count} times"))
    yield from (text for _, text in sorted(rows, reverse=True))


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
