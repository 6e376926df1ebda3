"""Rewards of every kind become what TRL takes, under the plan's names and with the plan's keywords."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_runs import planned_reward

from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_sections import Package
from grpo_recipes.contract.sandbox import run as sandbox
from grpo_recipes.stack.stack import Stack
from grpo_recipes.user_files.functions.installed import find_installed_module, package_reward
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code import user_modules
from grpo_recipes.worker.user_code.reward_functions import check_reward_files, load_rewards

USER = """
from dataclasses import dataclass

@dataclass
class Scale:
    factor: float

def scaled(completions, *, factor=1.0, **kwargs):
    return [Scale(factor).factor * len(text) for text in completions]

async def later(completions, **kwargs):
    return [0.5 for _ in completions]
"""


def reward(target: str, **changes: Any) -> Reward:
    keys = planned_reward(target, **changes)
    del keys["path"]
    return Reward(**keys)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(USER)
    return tmp_path


def test_a_shipped_reward_has_the_name_and_keywords_of_the_plan(user: Path) -> None:
    (loaded,) = load_rewards((reward("exact_match", name="same", kwargs={"ignore_case": True}),), user)
    assert not isinstance(loaded, str)
    assert loaded.__name__ == "same"
    assert loaded(prompts=["p"], completions=["A"], solution=["a"], completion_ids=[[1]]) == [1.0]


def test_a_reward_that_runs_code_is_not_loaded_without_a_sandbox(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "grpo_recipes.rewards.code_tests", raising=False)
    monkeypatch.setattr(sandbox, "available", lambda: None)
    with pytest.raises(sandbox.NoSandbox) as raised:
        load_rewards((reward("code_tests"),), user)
    assert raised.value.__notes__ == ["raised in reward code_tests"]


def test_a_column_of_the_data_does_not_win_over_the_recipe(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    keys = {"kind": "python", "name": "s", "sha256": sha256_of_text(USER)}
    (loaded,) = load_rewards((reward("mine.py:scaled", **keys, kwargs={"factor": 2.0}),), user)
    assert not isinstance(loaded, str)
    assert loaded(completions=["abc"], factor=[100.0]) == [6.0]


def test_an_asynchronous_reward_stays_asynchronous(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    keys = {"kind": "python", "name": "slow", "sha256": sha256_of_text(USER)}
    (loaded,) = load_rewards((reward("dir/mine.py:later", **keys),), user)
    assert asyncio.iscoroutinefunction(loaded)
    assert loaded.__name__ == "slow"
    assert asyncio.run(loaded(completions=["abc"])) == [0.5]


BOUND = """
import functools

class Judge:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, completions, **kwargs):
        return [self.scale * len(text) for text in completions]

def lengths(completions, scale=1.0, **kwargs):
    return [scale * len(text) for text in completions]

def doubling(function):
    @functools.wraps(function)
    def doubled(**given):
        return [2 * value for value in function(**given)]
    return doubled

again = lengths
made = Judge(0.5)
part = functools.partial(lengths, scale=3.0)
short = lambda completions, **kwargs: [float(len(text) < 3) for text in completions]
if True:
    def conditional(completions, **kwargs):
        return lengths(completions)
wrapped = doubling(lengths)
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [("again", 4.0), ("made", 2.0), ("part", 12.0), ("short", 0.0), ("conditional", 4.0), ("wrapped", 8.0)],
)
def test_whatever_can_be_called_is_a_reward(
    name: str, value: float, tmp_path: Path, sha256_of_text: Callable[[str], str]
) -> None:
    (tmp_path / "bound.py").write_text(BOUND)
    keys = {"kind": "python", "name": "first", "sha256": sha256_of_text(BOUND)}
    (loaded,) = load_rewards((reward(f"bound.py:{name}", **keys),), tmp_path)
    assert not isinstance(loaded, str)
    assert loaded(completions=["abcd"], prompts=["p"]) == [value]


def test_an_object_with_an_asynchronous_call_is_awaited(tmp_path: Path, sha256_of_text: Callable[[str], str]) -> None:
    source = "class Judge:\n    async def __call__(self, completions, **kwargs):\n        return [0.5]\nj = Judge()\n"
    (tmp_path / "waiting.py").write_text(source)
    keys = {"kind": "python", "name": "j", "sha256": sha256_of_text(source)}
    (loaded,) = load_rewards((reward("waiting.py:j", **keys),), tmp_path)
    assert asyncio.iscoroutinefunction(loaded)
    assert asyncio.run(loaded(completions=["a"])) == [0.5]


PACKAGE = """
from ._inner import make as _make, Scale
def plain(completions, scale=1.0, **kwargs):
    return [scale * len(text) for text in completions]
def nothing():
    return 3
made = _make(2.0)
make = _make
"""
INNER = """
def make(scale):
    def reward(completions, **kwargs):
        return [scale * len(text) for text in completions]
    return reward
class Scale:
    def __init__(self, scale=1.0):
        self.scale = scale
    def __call__(self, completions, **kwargs):
        return [self.scale * len(text) for text in completions]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed package of two files with a release."""
    name = "scores_of_somebody"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(PACKAGE)
    (tmp_path / name / "_inner.py").write_text(INNER)
    info = tmp_path / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    find_installed_module.cache_clear()
    yield name
    find_installed_module.cache_clear()
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
@pytest.mark.parametrize(
    ("name", "options", "value"),
    [
        ("plain", {"scale": 0.5}, 2.0),
        ("make", {"scale": 2.0}, 8.0),
        ("Scale", {"scale": 3.0}, 12.0),
        ("Scale", {}, 4.0),
        ("made", {}, 8.0),
    ],
)
def test_a_package_has_rewards_and_makes_rewards(
    name: str, options: dict[str, Any], value: float, is_read: bool, package: str, tmp_path: Path
) -> None:
    """Where the planner could not read the source, the worker comes to the same by the signature."""
    stack = Stack("3.11", {}, (), None, False, "here")
    found = package_reward(stack, f"{package}:{name}")
    assert (found.package, found.release) == (package, "1.2")
    planned = Package(package, "1.2", found.is_factory if is_read else None)
    one = reward(f"{package}:{name}", kind="package", name="r", kwargs=options, package=planned)
    check_reward_files((one,), tmp_path)
    (loaded,) = load_rewards((one,), tmp_path)
    assert not isinstance(loaded, str)
    assert loaded.__name__ == "r"
    assert loaded(completions=["abcd"], prompts=["p"], scale=[9.0]) == [value]


@pytest.mark.parametrize(
    ("name", "release", "message"),
    [
        ("plain", "1.1", r"scores_of_somebody is 1\.2, planned: 1\.1"),
        ("absent", "1.2", "has no function absent"),
        ("nothing", "1.2", "returned int, which cannot be called"),
    ],
)
def test_what_a_package_does_not_have_is_refused(
    name: str, release: str, message: str, package: str, tmp_path: Path
) -> None:
    planned = Package(package, release, None)
    one = reward(f"{package}:{name}", kind="package", name="r", package=planned)
    with pytest.raises(Refused, match=message):
        check_reward_files((one,), tmp_path)
        load_rewards((one,), tmp_path)


def test_a_package_that_is_not_there_is_refused(tmp_path: Path) -> None:
    one = reward("scores_of_nobody:f", kind="package", name="r", package=Package("scores_of_nobody", "1", None))
    with pytest.raises(Refused, match="scores_of_nobody is not installed, planned: 1"):
        check_reward_files((one,), tmp_path)
    with pytest.raises(Refused, match="No module named 'scores_of_nobody'"):
        load_rewards((one,), tmp_path)


def test_a_reward_model_stays_the_id_it_is(user: Path) -> None:
    assert load_rewards((reward("org/judge", kind="model", name="judge"),), user) == ["org/judge"]


REFUSED = [
    pytest.param({"target": "mine.py:none"}, "has no function none", id="no function"),
    pytest.param({"target": "other.py:f"}, "does not exist", id="no file"),
    pytest.param({"sha256": "0" * 64}, "changed since the plan was made", id="digest"),
    pytest.param({"sha256": None}, "changed since the plan was made", id="no digest"),
    pytest.param({"kind": "shell"}, "not one of shipped, python, package, model", id="kind"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_the_planned_reward_is_refused(
    changes: dict[str, Any], message: str, user: Path, sha256_of_text: Callable[[str], str]
) -> None:
    keys = {"target": "mine.py:scaled", "kind": "python", "sha256": sha256_of_text(USER), **changes}
    with pytest.raises(Refused, match=message):
        load_rewards((reward(keys.pop("target"), **keys),), user)


def imported_reward(user: Path, sha256_of_text: Callable[[str], str], **changes: str) -> Reward:
    texts = {"with_helper.py": "import helper_beside\ndef f(**_): return [helper_beside.VALUE]\n"}
    texts["helper_beside.py"] = "VALUE = 1.0\n"
    for name, text in texts.items():
        (user / name).write_text(changes.get(name.partition(".")[0], text))
    digests = {name: sha256_of_text(text) for name, text in texts.items()}
    own = digests.pop("with_helper.py")
    return reward("with_helper.py:f", kind="python", name="f", sha256=own, imports=digests)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Modules and finders of a test are not there for the next one."""
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before
    for name in ("helper_beside", "grpo_run_user_with_helper"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("forgotten")
def test_a_reward_imports_the_file_that_lay_beside_it(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    (loaded,) = load_rewards((imported_reward(user, sha256_of_text),), user)
    assert not isinstance(loaded, str)
    assert loaded() == [1.0]
    assert not list(user.rglob("*.pyc"))


@pytest.mark.usefixtures("forgotten")
def test_an_imported_file_that_changed_is_refused(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    changed = imported_reward(user, sha256_of_text, helper_beside="VALUE = 2.0\n")
    with pytest.raises(Refused, match=r"helper_beside\.py changed since the plan was made"):
        load_rewards((changed,), user)
    assert "helper_beside" not in sys.modules


@pytest.mark.usefixtures("forgotten")
def test_what_runs_is_what_was_checked_and_not_what_lies_there_a_moment_later(
    user: Path, sha256_of_text: Callable[[str], str]
) -> None:
    planned = imported_reward(user, sha256_of_text)
    sources = user_modules.check_sources(planned, user)
    for file in sources:
        file.write_text("raise SystemExit('exchanged')\n")
    assert user_modules.user_module(sources).f() == [1.0]
