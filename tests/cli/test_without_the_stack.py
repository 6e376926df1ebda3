"""Without the training stack, recipes are judged as for the tested releases, and only a training is refused."""

import json
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.releases import TESTED

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "recipes/quickstart.yaml")
NEEDED = (
    *("click", "jinja2", "markupsafe", "packaging", "pydantic", "pydantic_core", "annotated_types"),
    *("typing_extensions", "typing_inspection", "yaml", "rich", "markdown_it", "mdurl", "pygments"),
)
"""What the package's own dependencies install."""
LACKS = "this machine lacks torch, transformers, trl, accelerate, datasets: judged as for --target tested\n"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to the base dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("laptop")
    for name in NEEDED:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        source = Path(spec.origin)
        source = source.parent if source.name == "__init__.py" else source
        (folder / source.name).symlink_to(source)
    return folder


def run(packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command there."""
    return python(packages, "from grpo_recipes.cli.main import main; main()", *words)


def python(packages: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs code with a Python that sees only these packages and the checkout."""
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(packages)!r}]; {code}"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code, *words], capture_output=True, encoding="utf-8")


@pytest.mark.parametrize(
    "words", [["validate", RECIPE], [RECIPE, "--validate-only"], ["validate", RECIPE, "--target", "tested"]], ids=str
)
def test_a_recipe_is_judged_as_for_the_tested_releases(words: list[str], packages: Path) -> None:
    done = run(packages, *words)
    assert (done.returncode, done.stdout) == (0, f"{RECIPE}: no findings\n")
    assert done.stderr == ("" if "--target" in words else LACKS)


def test_a_mistake_is_found_there(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"extends: {RECIPE}\nname: mine\ngrpo: {{loss_type: dapoo}}\n")
    done = run(packages, "validate", str(tmp_path / "mine.yaml"))
    assert (done.returncode, done.stderr) == (2, LACKS)
    assert f"because: trl {TESTED['trl']} (released) supports" in done.stdout
    assert "STK010" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["plan", RECIPE, "--json"],
        ["fit", RECIPE, "--json"],
        ["diff", RECIPE, RECIPE],
        ["sweep", RECIPE, "--vary", "grpo.beta=0,0.1", "--validate-only"],
    ],
    ids=lambda words: words[0],
)
def test_what_trains_nothing_says_so_in_one_line(words: list[str], packages: Path) -> None:
    done = run(packages, *words)
    assert (done.returncode, done.stderr) == (1 if words[0] == "fit" else 0, LACKS), "fit knows no GPU"
    assert "STK010" not in done.stdout


def test_a_program_gets_the_same_without_a_line(packages: Path) -> None:
    asked = f"print(api.validate({RECIPE!r}), api.plan({RECIPE!r}).stack['origin'])"
    done = python(packages, f"from grpo_recipes import api; {asked}")
    assert (done.stdout, done.stderr) == ("() tested\n", "")


@pytest.mark.parametrize("words", [[RECIPE], ["preflight", RECIPE]], ids=["run", "preflight"])
def test_a_training_names_what_is_missing_and_its_command(words: list[str], packages: Path) -> None:
    done = run(packages, *words)
    assert done.returncode == 2
    output = done.stdout + done.stderr
    assert "torch, transformers, trl, accelerate, datasets, peft are not installed [STK010]" in output
    python = shlex.quote(sys.executable)
    assert f"{python} -m pip install -e '{ROOT}[train]'" in output, "-S hides pip"


def test_doctor_names_each_missing_package_with_its_use(packages: Path) -> None:
    done = run(packages, "doctor")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "trl           not installed; needed by every run" in lines
    assert "deepspeed     not installed; needed by the ZeRO strategies" in lines
    assert "  = because: nothing can train here; validate, plan, diff and fit judge as for --target tested" in lines
    assert "known defects" not in done.stdout, "of releases that are not there"
    assert json.loads(run(packages, "doctor", "--json").stdout)["known"] == []
