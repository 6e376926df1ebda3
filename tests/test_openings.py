"""What deals with run folders opens, writes and removes files through folder_files, but for the places named here."""

import ast
from pathlib import Path

import pytest

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent
# Modules and parts that deal with run folders. What they import of libraries is not seen here; run_entries looks first.
LOOKED_AT = (
    "contract/files/folder_lock.py",
    "contract/files/bounded_json.py",
    "contract/files/run_entries.py",
    "contract/host/processes.py",
    "contract/run_record.py",
    "engines",
    "launch",
    "lock",
    "render",
    "sweep",
    "contract/secrets/redacted_file.py",
    "worker",
    "cli/rerun.py",
    "cli/launching.py",
    "cli/resume.py",
    "cli/verify.py",
    "cli/commands/run.py",
    "cli/commands/diff.py",
    "cli/sweeps",
    "cli/commands/sweep.py",
    "cli/commands/diff.py",
)
# Functions by their last name, whatever stands before it.
METHODS = {
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "touch",
    "unlink",
    "mkdir",
    "rmdir",
    "symlink_to",
    "hardlink_to",
    "rmtree",
    "makedirs",
    "removedirs",
    "copyfile",
    "copytree",
    "copy2",
    "truncate",
    "mkfifo",
    "mknod",
    "chmod",
    "fdopen",
}
# Of a module alone, since texts, lists and sets have methods of these names.
OF_MODULES = {
    ("os", "open"),
    ("os", "replace"),
    ("os", "rename"),
    ("os", "remove"),
    ("os", "link"),
    ("os", "symlink"),
    ("io", "open"),
    ("shutil", "move"),
    ("shutil", "copy"),
    ("tempfile", "NamedTemporaryFile"),
}
# Their functions have names that are among those above.
BOUNDED = ("grpo_recipes.contract.files.folder_files", "grpo_recipes.contract.files.regular_file")
# Place -> why it may. Prefixes of "module.py:function".
ALLOWED = {
    "contract/host/processes.py": "/proc alone",
    "render/": "writes a new folder under a name that nobody knows, then renames it",
    "worker/data/image_files.py": "bytes, which Pillow decodes",
    "worker/data/images.py": "an image beside the user's data",
    "worker/preflight/": "a temporary folder of this user's own, removed afterwards",
    "worker/export/texts.py": (
        "a new folder under a name that nobody knows, then renamed; no run folder;"
        " writes into that folder; what it reads of a run folder it reads by folder_files"
    ),
    "launch/worker_part.py": "a temporary folder of this user's own, removed afterwards",
    "launch/local.py:_end": "/proc alone",
    "worker/answering/start.py": "its own stdin, and /dev/null",
    "worker/_shared/chat_client.py:_send": "an address, not a file",
    "worker/serving/health.py": "an address, not a file; config.json of the model that a server names",
    "worker/data/limits.py": "/proc alone",
    "worker/memory/phase_peaks.py": "/proc alone",
    "worker/user_code/user_modules.py": "the bytes of a reward file are held against its digest",
    "worker/user_code/model_code.py": "the folder of this user in which transformers keeps the code of models",
    "worker/user_code/isolation.py:_look": "the working folder itself, to come back to it; no file is opened",
    "worker/data/dataset.py": "the cache of datasets, which writes by paths; run_entries looked before",
    "worker/checkpoints/checkpoint.py": "a checkpoint that this run has just written, or that run_entries looked at",
    "worker/resume/run_state.py": "a checkpoint whose manifest was checked",
    "worker/model/build_trainer.py": "the plan's chat template",
    "worker/model/generation_file.py": "beside the weights that transformers writes",
}


def _last_name(node: ast.expr) -> tuple[str, str]:
    """The name that is called, and what stands right before it, "" for more than a name."""
    if isinstance(node, ast.Attribute):
        return node.attr, node.value.id if isinstance(node.value, ast.Name) else ""
    return (node.id, "") if isinstance(node, ast.Name) else ("", "")


def openings(source: str) -> list[tuple[str, int, str]]:
    """Where a module opens, writes or removes a file by its path: the function, the line, what is called."""
    tree = ast.parse(source)
    inside: dict[ast.AST, str] = {}
    own = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in BOUNDED
        for alias in node.names
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside |= dict.fromkeys(ast.walk(function), function.name)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, before = _last_name(node.func)
        if isinstance(node.func, ast.Name) and name in own:
            continue
        is_method = isinstance(node.func, ast.Attribute) and name == "open" and before not in ("os", "webbrowser")
        is_builtin = isinstance(node.func, ast.Name) and name == "open" and not _is_descriptor(node)
        if name in METHODS or (before, name) in OF_MODULES or is_method or is_builtin:
            found.append((inside.get(node, ""), node.lineno, ast.unparse(node.func)))
    return found


def _is_descriptor(call: ast.Call) -> bool:
    """Whether open() is given what open_to_append, or a function that ends in it, gave."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Call) and _last_name(first.func)[0] in ("open_to_append", "stacks_file")


def _modules() -> list[Path]:
    found: list[Path] = []
    for name in LOOKED_AT:
        place = PACKAGE / name
        assert place.exists(), name
        found += [place] if place.is_file() else sorted(place.rglob("*.py"))
    return found


def _allowing(place: str) -> str | None:
    return next((entry for entry in ALLOWED if place.startswith(entry)), None)


def _found() -> list[tuple[str, int, str]]:
    """All openings: place, line, call."""
    return [
        (f"{path.relative_to(PACKAGE)}:{function}", line, call)
        for path in _modules()
        for function, line, call in openings(path.read_text(encoding="utf-8"))
    ]


def test_a_run_folders_files_are_opened_by_folder_files_alone() -> None:
    wrong = [f"{place} line {line}: {call}" for place, line, call in _found() if _allowing(place) is None]
    assert wrong == [], "use folder_files, or say in ALLOWED why not"


def test_every_exception_is_used() -> None:
    used = {_allowing(place) for place, _, _ in _found()}
    assert set(ALLOWED) - used == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "open(path, 'w')",
        "io.open(path)",
        "os.open(path, os.O_RDONLY)",
        "path.open('a')",
        "Path(folder, 'run.json').read_text(encoding='utf-8')",
        "(folder / 'run.json').read_bytes()",
        "(folder / 'run.json').write_text('')",
        "path.write_bytes(b'')",
        "path.with_name('x').unlink(missing_ok=True)",
        "path.touch()",
        "path.parent.mkdir(parents=True)",
        "os.mkdir(path)",
        "os.makedirs(path)",
        "os.unlink(path)",
        "os.remove(path)",
        "os.rename(a, b)",
        "os.replace(a, b)",
        "shutil.rmtree(path)",
        "shutil.move(a, b)",
        "shutil.copytree(a, b)",
        "os.truncate(path, 0)",
        "path.symlink_to(a)",
        "os.chmod(path, 0o777)",
    ],
)
def test_an_opening_that_is_added_is_found(line: str) -> None:
    assert openings(f"def f(path, folder, a, b):\n    return {line}\n")[0][:2] == ("f", 2)


@pytest.mark.parametrize(
    "line",
    [
        "text.replace(a, b)",
        "names.remove(a)",
        "open(open_to_append(folder, 'x'), 'ab')",
        "open_to_read(folder, 'x')",
        "subprocess.Popen(a)",
        "urlopen(a)",
    ],
)
def test_what_opens_no_path_is_not_found(line: str) -> None:
    assert openings(f"def f(path, folder, a, b):\n    return {line}\n") == []


def test_the_functions_of_folder_files_are_known_by_their_import() -> None:
    imported = "from grpo_recipes.contract.files.folder_files import read_bytes\n"
    assert openings(imported + "read_bytes(folder, 'x')\n") == []
    assert len(openings(imported + "path.read_bytes()\n")) == 1
