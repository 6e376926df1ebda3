"""Imports point downwards, and reading a recipe brings in nothing heavy."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.sources import nodes_of

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent
ROOT = PACKAGE.parent

# Lowest first; each part may import itself and what stands before it.
LAYERS = (
    "contract",
    "stack",
    "yaml",
    "facts",
    "user_files",
    "schemas",
    "memory",
    "trust.environment",
    "rules",
    "trust",
    "render",
    "resolve",
    "record",
    "lock",
    "compare",
    "launch",
    "engines",
    "explain",
    "takeover",
    "report",
    "sweep",
    "cli",
    "api",
)
# Rooms of a part that has several, lowest first: each imports of its part itself and what stands before it.
ROOMS = {
    "contract": (
        "contract.findings",
        "contract.host",
        "contract.tasks",
        "contract.files",
        "contract.secrets",
        "contract.integrity",
        "contract",
        "contract.sandbox",
    ),
    "facts": ("facts.source", "facts.released", "facts"),
    "resolve": ("resolve.planning", "resolve.unknown_keys", "resolve", "resolve.fixes", "resolve.variants"),
    "user_files": ("user_files", "user_files.functions"),
    "rules": ("rules._shared", "rules"),
    "takeover": ("takeover.basis", "takeover.formats", "takeover.sections", "takeover.own_data", "takeover"),
    "report": ("report.runs", "report", "report.html"),
    "cli": ("cli", "cli.sweeps", "cli.commands"),
    "worker": (
        "worker._shared",
        "worker.trainer",
        "worker.checkpoints",
        "worker.guards",
        "worker.proofs",
        "worker.ends",
        "worker.completions",
        "worker.data",
        "worker.proofs.before_training",
        "worker.proofs.of_turns",
        "worker.serving",
        "worker.user_code",
        "worker.tools",
        "worker.memory",
        "worker.survival",
        "worker.shims",
        "worker.preflight._shared",
        "worker.vllm",
        "worker.preflight.checks",
        "worker.model",
        "worker.preflight",
        "worker.callbacks",
        "worker.resume",
        "worker.answering",
        "worker.export",
        "worker",
        "worker.profile",
    ),
}
# Leaves: they import themselves and the contract alone, and nobody imports them.
LEAVES = ("rewards", "worker")
ALLOWED = {
    ("rules", "rewards.catalog"): "reads the sources of the shipped rewards, and calls one with its options alone",
    ("rules", "rewards.ranges"): "what a reward can give, next to the rewards",
    ("resolve.planning", "rewards.catalog"): "which options of a reward the longest completion sets",
    ("report.html", "rewards.ranges"): "the same for the bands of its charts",
    ("worker.guards", "rewards.ranges"): "which rewards only take away",
    ("sweep", "rewards.ranges"): "reads the limits of the shipped rewards, which it does not import",
    ("explain", "rewards.catalog"): "reads the sources of the shipped rewards, which it does not import",
    ("schemas.export", "rewards.catalog"): "reads the sources of the shipped rewards, which it does not import",
}
MOST_LINES = 300
MOST_MODULES = 15
# Folders with one unit of a kind in each file, however many there are.
ONE_UNIT_A_FILE = ("worker.proofs", "cli.commands", "rewards", "rules", "worker.preflight.checks", "worker.shims")
# What validate makes as dataclasses: what is changed in place, or keeps what it found.
CHANGING = {
    "facts.facts.Facts",
    "yaml.nodes.Node",
    "yaml.nodes.Reader",
    "yaml.nodes._Open",
}
HEAVY = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "numpy",
    "pandas",
    "vllm",
    "deepspeed",
    "bitsandbytes",
)


def _module(path: Path) -> str:
    """ "rules.context" for grpo_recipes/rules/_shared/context.py, "" for the package itself."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


@functools.cache
def _imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, wherever in the file, without the package's name."""
    found: set[str] = set()
    for node in nodes_of(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            names = [node.module]
            if node.module == "grpo_recipes":
                names = [f"grpo_recipes.{alias.name}" for alias in node.names if alias.name != "__version__"]
        found |= {name.removeprefix("grpo_recipes.") for name in names if name.startswith("grpo_recipes.")}
    return found


def _part(module: str) -> str:
    """The entry of the table that a module belongs to, the longest that fits."""
    entries = [entry for entry in (*LAYERS, *LEAVES) if module == entry or module.startswith(entry + ".")]
    return max(entries, key=len, default="")


def _is_allowed(importer: str, imported: str) -> bool:
    if any(
        (importer == source or importer.startswith(source + ".")) and imported == target for source, target in ALLOWED
    ):
        return True
    above, below = _part(importer), _part(imported)
    if above in LEAVES or below in LEAVES:
        return below in (above, "contract")
    return LAYERS.index(below) <= LAYERS.index(above)


def test_every_module_has_a_layer() -> None:
    modules = {_module(path) for path in PACKAGE.rglob("*.py")} - {"", "trust", "__main__"}
    assert {module for module in modules if not _part(module)} == set()


def test_imports_point_downwards() -> None:
    wrong = [
        f"{_module(path)} imports {imported}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for imported in sorted(_imports(path))
        if _module(path) and not _is_allowed(_module(path), imported)
    ]
    assert wrong == []


def _room(module: str) -> str:
    """The folder that a module lies in, and a folder itself for its own name."""
    return module if PACKAGE.joinpath(*module.split(".")).is_dir() else module.rpartition(".")[0]


def test_the_rooms_of_every_part_have_their_order() -> None:
    parts = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/*/*.py")}
    assert parts == set(ROOMS)


@pytest.mark.parametrize("part", ROOMS)
def test_the_rooms_of_a_part_look_one_way(part: str) -> None:
    modules = {_module(path) for path in (PACKAGE / part).rglob("*.py")}
    assert {_room(module) for module in modules} == set(ROOMS[part])
    place = ROOMS[part].index
    wrong = [
        f"{module} imports {imported}"
        for module in sorted(modules)
        for imported in sorted(_below(module) & modules - set(ROOMS[part]))
        if place(_room(imported)) > place(_room(module))
    ]
    assert wrong == []


def _below(module: str) -> set[str]:
    """What a module imports, with the modules of a package that it names as `from package import module`."""
    path = PACKAGE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in nodes_of(file):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grpo_recipes"):
            base = (node.module or "").removeprefix("grpo_recipes").removeprefix(".")
            found |= {f"{base}.{alias.name}".removeprefix(".") for alias in node.names} | {base}
    return found


def test_no_module_is_longer_than_a_person_reads_at_once() -> None:
    lines = {_module(path): path.read_text(encoding="utf-8").count("\n") for path in PACKAGE.rglob("*.py")}
    assert {module: count for module, count in lines.items() if count > MOST_LINES} == {}


def _banners(text: str) -> list[str]:
    """The comments at the margin between blank lines, two before and one after, which head a second topic."""
    return re.findall(r"(?<=\n\n\n)(#.*)(?:\n#.*)*\n(?=\n|\Z)", text)


def test_no_module_has_a_second_topic_under_a_banner() -> None:
    found = [
        f"{_module(path)}: {banner}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for banner in _banners(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "move the topic to a module of its own, or say it in a docstring"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n\n\n# Sums.\n\n\ndef add(): ...\n", ["# Sums."]),
        ("x = 1\n\n\n# Sums.\n#\n# Of two.\n\nY = 2\n", ["# Sums."]),
        ("x = 1\n\n\n# Sums.\n\n\n# Products.\n", ["# Sums.", "# Products."]),
        ("x = 1\n\n\n# The sum.\nY = 2\n", []),
        ("x = 1\n\n# The sum.\n\nY = 2\n", []),
    ],
)
def test_a_banner_stands_alone(text: str, found: list[str]) -> None:
    assert _banners(text) == found


def test_no_folder_holds_more_than_can_be_seen_at_once() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    count = {".".join(folder.relative_to(PACKAGE).parts): len([*folder.glob("[!_]*.py")]) for folder in folders}
    assert sorted(folder for folder, many in count.items() if many > MOST_MODULES) == sorted(ONE_UNIT_A_FILE)


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {_module(path) for path in PACKAGE.rglob("*.py")} - {""}
    below = {module: _below(module) & (modules - {module}) for module in modules}
    while free := {module for module, imported in below.items() if not imported & below.keys()}:
        below = {module: imported for module, imported in below.items() if module not in free}
    assert sorted(below) == []


def test_every_exception_to_the_layers_is_used() -> None:
    used = {(_module(path), imported) for path in PACKAGE.rglob("*.py") for imported in _imports(path)}
    unused = [
        pair
        for pair in ALLOWED
        if not any(target == pair[1] and (m == pair[0] or m.startswith(pair[0] + ".")) for m, target in used)
    ]
    assert unused == []


def _heavy_after(program: str) -> str:
    code = f"import sys\n{program}\nprint(*sorted(set(sys.modules) & set({HEAVY!r})))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return ran.stdout.splitlines()[-1]


@pytest.mark.processes
def test_the_command_line_imports_nothing_heavy() -> None:
    assert _heavy_after("import grpo_recipes.cli.main") == ""


@pytest.mark.processes
def test_validating_a_recipe_imports_nothing_heavy() -> None:
    program = (
        "from grpo_recipes.cli.main import main\n"
        "sys.argv = ['grpo-run', 'validate', 'recipes/quickstart.yaml']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code in (0, None), end.code"
    )
    assert _heavy_after(program) == ""


@pytest.mark.processes
def test_validating_a_recipe_makes_few_dataclasses() -> None:
    """Each takes half a millisecond to make, a named tuple a seventh of it; those that change, or cache, are some."""
    program = (
        "from grpo_recipes.cli.main import main\n"
        "sys.argv = ['grpo-run', 'validate', 'recipes/qwen2_lora.yaml']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code in (0, None), end.code\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    for made in vars(module).values() if name.startswith('grpo_recipes.') else ():\n"
        "        if hasattr(made, '__dataclass_fields__') and made.__module__ == name:\n"
        "            print(name.removeprefix('grpo_recipes.') + '.' + made.__name__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert set(ran.stdout.splitlines()[1:]) == CHANGING


@pytest.mark.processes
def test_the_heavy_packages_are_looked_for_by_their_module_names() -> None:
    assert _heavy_after("import types; sys.modules['torch'] = types.ModuleType('torch')") == "torch"


def test_the_contract_needs_nothing_but_the_standard_library() -> None:
    foreign = {
        f"{_module(path)} imports {name}"
        for path in sorted((PACKAGE / "contract").rglob("*.py"))
        for node in nodes_of(path)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith("grpo_recipes.contract.")
    }
    assert foreign == set()
