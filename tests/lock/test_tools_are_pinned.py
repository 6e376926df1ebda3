"""Tools are planned, copied, allowed and compared as the files that they are."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import drift_of, make_project, planned, states

TOOL = '''
from numbers_of_mine import ONE


async def add(a: int) -> int:
    """Adds one.

    Args:
        a: the number
    """
    return a + ONE
'''
CHANGES: dict[str, object] = {
    "tools": [{"python": "calculator.py:add", "timeout": 2.5}],
    "tokenizer": None,
    "generation": {"max_completion_length": 6, "max_tool_calling_iterations": 3},
}


def _project(folder: Path) -> Path:
    project = make_project(folder, CHANGES)
    (project / "calculator.py").write_text(TOOL)
    (project / "numbers_of_mine.py").write_text("ONE = 1\n")
    config = project / "model" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"response_template": {"fields": {}}}))
    return project


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_plan_says_what_a_tool_is_and_the_folder_has_its_files(tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a")
    run = planned(project, grpo_run)
    plan = json.loads((run / "plan.json").read_text())
    file, beside = project / "calculator.py", project / "numbers_of_mine.py"
    assert plan["tools"] == [
        {
            "name": "add",
            "target": "calculator.py:add",
            "path": str(file),
            "sha256": _sha256(file),
            "imports": {"numbers_of_mine.py": _sha256(beside)},
            "is_async": True,
            "timeout": 2.5,
        }
    ]
    assert plan["arguments"]["GRPOConfig"]["max_tool_calling_iterations"] == 3
    for one in (file, beside):
        assert (run / "worker" / "user" / one.name).read_bytes() == one.read_bytes()
    assert f"python: '{file}:add'" in (run / "recipe.yaml").read_text()


def test_nothing_starts_before_a_tool_is_allowed(tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a")
    answer = grpo_run(
        str(project / "recipe.yaml"), "--target", "python==3.11.9,gpus=0", "--dry-run", "--out", str(tmp_path / "dry")
    )
    assert answer.code == 0, answer.err
    refused = grpo_run(str(project / "recipe.yaml"), "--out", str(tmp_path / "out"))
    assert refused.code == 2
    file, beside = project / "calculator.py", project / "numbers_of_mine.py"
    assert f"tool {file} has the sha256 {_sha256(file)}" in refused.err
    assert f"file imported by a tool {beside} has the sha256 {_sha256(beside)}" in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param("calculator.py", "tools.add", id="the-tool"),
        pytest.param("numbers_of_mine.py", "tools.add", id="what-it-imports"),
    ],
)
def test_the_plan_of_an_edited_tool_is_another_experiment(
    tmp_path: Path, grpo_run: Callable, change: str, kind: str
) -> None:
    project = _project(tmp_path / "a")
    run = planned(project, grpo_run)
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (0, {})
    assert kind in states(lines, "same")
    sent = tmp_path / "a" / "plan.json"
    shutil.copy(run / "plan.json", sent)
    (project / change).write_text((project / change).read_text() + "# edited\n")
    code, lines = drift_of(sent, grpo_run)
    assert code != 0
    assert states(lines) == {kind: "experiment"}
    assert change in str(lines[kind]["why"])


def test_tools_differ_by_their_content_their_limits_and_their_order(tmp_path: Path, grpo_run: Callable) -> None:
    one, other = _project(tmp_path / "a"), _project(tmp_path / "b")

    def different(*options: str) -> set[str]:
        places = (str(project / "recipe.yaml") for project in (one, other))
        answer = grpo_run("diff", *places, "--json", *options)
        return {row["key"] for row in json.loads(answer.out)["experiment"]}

    assert different() == set()
    recipe = other / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("2.5", "3.5"))
    assert different() == {"tools.add.timeout"}
    (other / "numbers_of_mine.py").write_text("ONE = 2\n")
    assert different() == {"tools.add.timeout", "tools.add.imports.numbers_of_mine.py"}
    (other / "calculator.py").write_text(TOOL.replace("add(", "plus("))
    recipe.write_text(recipe.read_text().replace(":add", ":plus"))
    assert different() == {"tools.add", "tools.plus"}
