"""What an open project has beside its code: licence, changelog, hooks and workflow, each saying what is true here."""

import hashlib
import re
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from grpo_recipes import __version__
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.takeover.shipped import shipped_recipes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_the_licence_is_the_whole_of_what_the_metadata_says() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_a_file_that_the_notice_names_is_there() -> None:
    named = re.findall(r"[\w/.]+\.json", (ROOT / "NOTICE").read_text(encoding="utf-8"))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_the_changelog_is_one_page_about_this_version_with_rules_that_are() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert re.fullmatch(rf"\[{re.escape(PROJECT['version'])}\] - (unreleased|\d{{4}}-\d\d-\d\d)", releases[0])
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    assert len(text.split("## [")[1].split()) < 1000
    assert set(re.findall(r"\b[A-Z]{3}\d{3}\b", text)) <= set(known_ids())


def test_the_package_and_its_citation_have_one_version_and_one_address() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert __version__ == PROJECT["version"]
    home = PROJECT["urls"]["Homepage"]
    assert citation["repository-code"] == home
    assert f"pip install git+{home}\n" in (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    paths = [url.removeprefix(f"{home}/blob/main/") for url in PROJECT["urls"].values() if "/blob/" in url]
    assert paths
    assert all((ROOT / path).is_file() for path in paths)


def test_the_targets_that_contributing_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make ([\w-]+)", text))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), targets


def test_the_tools_of_the_hooks_are_those_that_make_setup_installs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    extras = PROJECT["optional-dependencies"]["dev"]
    installed = {Requirement(one).name for one in extras} | set(PROJECT["scripts"])
    entries = [hook["entry"].split()[0] for hook in hooks[0]["hooks"]]
    assert {entry.removeprefix(".venv/bin/") for entry in entries} == {"ruff", "mypy", "grpo-run"} <= installed


def test_the_hook_over_the_recipes_is_the_one_that_others_are_given() -> None:
    own = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    given = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]
    validate = next(hook for hook in own if hook["id"] == given["id"])
    assert all(validate[key] == given[key] for key in ("name", "args", "types"))
    assert validate["entry"] == f".venv/bin/{given['entry']}"


def test_a_workflow_may_read_alone_and_ends_and_runs_what_its_commit_says() -> None:
    assert WORKFLOWS
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {}, path
        for name, job in workflow["jobs"].items():
            assert job["permissions"] == {"id-token": "write"} if name == "publish" else {"contents": "read"}, path
            assert job["timeout-minutes"] <= 360, path
            assert all("timeout-minutes" in step for step in job["steps"]), path
            assert sum(step["timeout-minutes"] for step in job["steps"]) <= job["timeout-minutes"], path
        actions = re.findall(r"uses: (.*)", text)
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action) for action in actions), actions
        assert "secrets." not in text
        assert not re.search(r"run:[^\n]*\$\{\{", text), "an expression in a command is the word of whoever opened it"


def test_a_push_is_tested_and_a_tag_is_built_tested_and_published_by_the_index_alone() -> None:
    test, release = (yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text()) for name in ("ci", "release"))
    assert {"push", "pull_request"} <= set(test[True]), "`on` is a boolean of YAML 1.1"
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert [(name, job.get("needs")) for name, job in release["jobs"].items()] == [
        ("build", None),
        ("test", "build"),
        ("publish", "test"),
    ]
    publish = release["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert all("run" not in step for step in publish["steps"]), "nothing of the repository runs with this right"


@pytest.mark.processes
def test_the_workflow_runs_all_jobs_of_ci_run_on_the_pythons_of_the_package() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    jobs_of_script = script[: script.index("set -u")].split("named:")[1].split(".")[0].replace(",", " ").split()
    assert sorted(word for run in runs for word in run.removeprefix(".ci/run ").split()) == sorted(jobs_of_script)
    groups = script.partition("declare -A jobs=(")[2].partition(")")[0]
    assert re.findall(r"\[(\w+)\]=", groups) == jobs_of_script
    assert (ROOT / ".ci/run").stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", str(ROOT / ".ci/run")], check=True)
    used = {job: _python(steps["steps"]) for job, steps in jobs.items()}
    version = used["stack"]
    assert used == {"lint": version, "unit": "${{ matrix.python-version }}", "stack": version, "long": version}
    supported = [
        f"Programming Language :: Python :: {each}" for each in jobs["unit"]["strategy"]["matrix"]["python-version"]
    ]
    assert [word for word in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", word)] == supported
    pinned = (ROOT / "constraints/cpu.txt").read_text(encoding="utf-8").splitlines()[0]
    assert f"Python {version}," in pinned
    assert PROJECT["requires-python"] == f">={version}"


def _python(steps: list[dict[str, Any]]) -> str:
    return str(next(step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", "")))


def test_what_a_shipped_recipe_names_is_in_the_wheel() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["data-files"]
    patterns = [pattern for patterns in package.values() for pattern in patterns]
    shipped = {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)}
    for recipe in shipped_recipes():
        for name in recipe.beside:
            place = recipe.folder / name
            files = [each for each in place.rglob("*") if each.is_file()] if place.is_dir() else [place]
            missing = {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts} - shipped
            assert not missing, recipe.name
