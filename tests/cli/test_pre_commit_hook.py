"""The hook for pre-commit, and the workflow of the docs, check recipes where no training stack is installed."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]


def test_the_stack_of_the_hook_is_the_tested_one() -> None:
    assert HOOK["args"] == ["--target", "tested"]


def test_shipped_recipes_pass_and_a_broken_one_does_not(grpo_run: Callable, tmp_path: Path) -> None:
    entry = HOOK["entry"].split()
    assert entry == ["grpo-run", "validate", "--only-recipes"]
    assert HOOK["types"] == ["yaml"] and "files" not in HOOK
    good = [str(path) for path in sorted((ROOT / "recipes").glob("*lora.yaml"))]
    other = tmp_path / "compose.yaml"
    other.write_text("services: {recipe: 1}\n# recipe: 1\nversion: 2\n")
    checked = grpo_run(*entry[1:], *HOOK["args"], *good, str(other))
    assert checked.code == 0 and "compose" not in checked.out
    assert grpo_run(*entry[1:], *HOOK["args"], str(other)).code == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(Path(good[-1]).read_text().replace("loss_type: grpo", "loss_type: grop"))
    assert grpo_run(*entry[1:], *HOOK["args"], str(broken)).code == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.processes
def test_the_workflow_of_the_docs_puts_findings_at_their_lines(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    steps = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])["jobs"]["recipes"]["steps"]
    (check,) = [step["run"] for step in steps if "grpo-run validate" in step.get("run", "")]
    (upload,) = [step["with"]["sarif_file"] for step in steps if "sarif_file" in step.get("with", {})]
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "grpo-run"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m grpo_recipes.cli.main "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    (work / "my recipes").mkdir(parents=True)
    shutil.copy(ROOT / "recipes" / "qwen2_lora.yaml", work / "my recipes" / "good.yaml")
    broken = (work / "my recipes" / "good.yaml").read_text().replace("loss_type: grpo", "loss_type: grop")
    (work / "my recipes" / "broken.yml").write_text(broken)
    (work / "compose.yaml").write_text("services: {}\n")
    variables = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"}

    def sh(line: str) -> int:
        return subprocess.run(["bash", "-eo", "pipefail", "-c", line], cwd=work, env=variables, timeout=300).returncode

    assert sh("grpo-run doctor --json > cluster.json; git init -q && git add -A") == 0
    assert sh(check) != 0, "the job fails"
    (run,) = json.loads((work / upload).read_text())["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    line = next(number for number, text in enumerate(broken.splitlines(), 1) if "grop" in text)
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("my%20recipes/broken.yml", line)
    (work / "my recipes" / "broken.yml").unlink()
    assert sh(f"git add -A; {check}") == 0, "without findings it passes"
