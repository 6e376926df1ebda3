"""An environment and a rollout are planned, copied, allowed and compared as the files that they are."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import drift_of, make_project, planned, states

GAME = '''
from numbers_of_mine import ONE


class Game:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def reset(self, **row: object) -> None:
        self.count = self.start

    def add(self, a: int) -> int:
        """Adds to the count.

        Args:
            a: the number
        """
        self.count += a + ONE
        return self.count
'''
ROLLOUT = """
from numbers_of_mine import ONE


def play(prompts, trainer):
    return {"prompt_ids": [[ONE]], "completion_ids": [[ONE]], "logprobs": None}
"""
SECTIONS: dict[str, tuple[str, str, dict[str, object]]] = {
    "environment": ("environment_class", "Game", {"python": "mine.py:Game", "config": {"start": 2}}),
    "rollout": ("rollout", "play", {"python": "mine.py:play"}),
}


def _project(folder: Path, section: str) -> Path:
    project = make_project(folder, {section: SECTIONS[section][2], "tokenizer": None, "evaluation": None})
    (project / "mine.py").write_text(GAME if section == "environment" else ROLLOUT)
    (project / "numbers_of_mine.py").write_text("ONE = 1\n")
    config = project / "model" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"response_template": {"fields": {}}}))
    return project


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("section", list(SECTIONS))
def test_the_plan_says_its_file_and_the_folder_has_it(section: str, tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a", section)
    run = planned(project, grpo_run)
    key, name, said = SECTIONS[section]
    file, beside = project / "mine.py", project / "numbers_of_mine.py"
    assert json.loads((run / "plan.json").read_text())[key] == {
        "name": name,
        "target": f"mine.py:{name}",
        "path": str(file),
        "sha256": _sha256(file),
        "imports": {"numbers_of_mine.py": _sha256(beside)},
    } | ({"config": said["config"], "timeout": 10.0, "package": None} if "config" in said else {})
    for one in (file, beside):
        assert (run / "worker" / "user" / one.name).read_bytes() == one.read_bytes()
    assert f"python: '{file}:{name}'" in (run / "recipe.yaml").read_text()
    assert f"{name}  mine.py:{name}  {_sha256(file)[:12]}" in grpo_run("plan", str(project / "recipe.yaml")).out


@pytest.mark.parametrize("section", list(SECTIONS))
def test_nothing_starts_before_it_is_allowed(section: str, tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a", section)
    refused = grpo_run(str(project / "recipe.yaml"), "--out", str(tmp_path / "out"))
    assert refused.code == 2
    file, beside = project / "mine.py", project / "numbers_of_mine.py"
    assert f"{section} {file} has the sha256 {_sha256(file)}" in refused.err
    assert f"{beside} has the sha256 {_sha256(beside)}" in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("section", list(SECTIONS))
def test_an_edited_file_is_another_experiment(section: str, tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a", section)
    run = planned(project, grpo_run)
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (0, {})
    assert section in states(lines, "same")
    for change in ("mine.py", "numbers_of_mine.py"):
        sent = tmp_path / "a" / "plan.json"
        shutil.copy(run / "plan.json", sent)
        before = (project / change).read_text()
        (project / change).write_text(before + "# edited\n")
        code, lines = drift_of(sent, grpo_run)
        assert code != 0
        assert states(lines) == {section: "experiment"}
        assert change in str(lines[section]["why"])
        (project / change).write_text(before)


def test_environments_differ_by_their_content_and_their_config(tmp_path: Path, grpo_run: Callable) -> None:
    one, other = _project(tmp_path / "a", "environment"), _project(tmp_path / "b", "environment")

    def different() -> set[str]:
        places = (str(project / "recipe.yaml") for project in (one, other))
        return {row["key"] for row in json.loads(grpo_run("diff", *places, "--json").out)["experiment"]}

    assert different() == set()
    recipe = other / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("start: 2", "start: 3"))
    assert different() == {"environment.config.start"}
    (other / "mine.py").write_text(GAME + "# edited\n")
    assert different() == {"environment.config.start", "environment.sha256"}


def test_a_child_takes_its_parents_environment_and_changes_its_config(tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a", "environment")
    (project / "below").mkdir()
    child = project / "below" / "child.yaml"
    child.write_text("extends: ../recipe.yaml\nenvironment: {config: {start: 5}}\n")
    shutil.copytree(project / "model", project / "below" / "model")
    plan = json.loads(grpo_run("plan", str(child), "--json").out)["environment_class"]
    assert (plan["path"], plan["config"]) == (str(project / "mine.py"), {"start": 5})
    child.write_text("extends: ../recipe.yaml\nenvironment: null\n")
    assert json.loads(grpo_run("plan", str(child), "--json").out)["environment_class"] is None


def test_the_smallest_recipe_keeps_what_takes_away_a_parents_section(tmp_path: Path, grpo_run: Callable) -> None:
    project = _project(tmp_path / "a", "environment")
    (project / "look.py").write_text('def look() -> str:\n    """Says what there is."""\n    return ""\n')
    recipe = project / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "tools: [{python: 'look.py:look'}]\n")
    child = project / "child.yaml"
    child.write_text("extends: recipe.yaml\ntools: null\nenvironment: null\n")
    answer = grpo_run("plan", str(child), "--minimal")
    assert answer.code == 0, answer.err
    assert {"extends: recipe.yaml", "tools: null", "environment: null"} <= set(answer.out.splitlines())
