"""What a name of a file stands for, as far as its source says it."""

import ast
from pathlib import Path

import pytest

from grpo_recipes.user_files.functions.definitions import Definition, definition

BESIDE = "def far(completions, **kwargs):\n    return []\n"
READ = {
    "def": "def r(): ...",
    "the last of two": "def r(a): ...\ndef r(): ...",
    "another name": "def f(): ...\nr = f",
    "two names further": "def f(): ...\ng = f\nr = g",
    "a lambda": "r = lambda: []",
    "with a hint": "def f(): ...\nr: object = f",
    "under if": "if True:\n    def r(): ...",
    "under try": "try:\n    def r(): ...\nfinally:\n    pass",
    "under with": "with open('x') as file:\n    def r(): ...",
    "asynchronous": "async def r(): ...",
    "imported": "from beside import far as r",
    "imported and renamed": "from beside import far\nr = far",
}
UNREAD = {
    "a call": "r = make(2.0)",
    "a partial": "import functools\nr = functools.partial(print)",
    "an attribute": "import beside\nr = beside.far",
    "a pair": "r, s = print, print",
    "a package": "from trl.rewards import think_format_reward as r",
    "a name that the file beside lacks": "from beside import near as r",
    "all names": "from beside import *",
    "either of two": "if X:\n    def r(): ...\nelse:\n    def r(a): ...",
    "bound again": "def r(): ...\nr = wrap(r)",
    "bound again under a condition": "def r(): ...\nif X:\n    r = wrap(r)",
    "a loop": "for r in (print, len):\n    pass",
    "with as": "with made() as r:\n    pass",
    "by a function": "def fill():\n    global r\n    r = print\nfill()",
    "within an expression": "print(r := len)",
    "by name": "globals()['r'] = print",
    "asked for": "def __getattr__(name): ...",
    "in a circle": "from rewards import r",
}
UNBOUND = {
    "nothing": "",
    "another name alone": "def f(): ...",
    "within a function": "def f():\n    def r(): ...",
    "within a class": "class C:\n    def r(self): ...",
    "a number": "r = 3",
    "a module": "import beside as r",
    "a hint alone": "r: object",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text(BESIDE)
    return tmp_path / "rewards.py"


@pytest.mark.parametrize("source", READ.values(), ids=READ)
def test_a_definition_is_found(source: str, file: Path) -> None:
    file.write_text(source)
    found = definition(str(file), "r")
    assert isinstance(found, Definition)
    assert isinstance(found.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    assert found.path == str(file.with_name("beside.py") if "far" in source else file)
    assert not found.node.args.args or found.path != str(file)


@pytest.mark.parametrize("source", UNREAD.values(), ids=UNREAD)
def test_what_only_running_the_file_tells_is_not_read(source: str, file: Path) -> None:
    file.write_text(source)
    assert isinstance(definition(str(file), "r"), str)


@pytest.mark.parametrize("source", UNBOUND.values(), ids=UNBOUND)
def test_a_name_that_nothing_binds_is_none(source: str, file: Path) -> None:
    file.write_text(source)
    assert definition(str(file), "r") is None


def test_what_a_checker_of_types_alone_imports_is_not_there(file: Path) -> None:
    file.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from beside import far as r")
    assert definition(str(file), "r") is None


def test_a_file_that_changed_is_read_again(file: Path) -> None:
    file.write_text("def r(): ...")
    assert definition(str(file), "r") is not None
    file.write_text("def other(): ...")
    assert definition(str(file), "r") is None
