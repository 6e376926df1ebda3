"""What a launch runs: nothing that changed after it was planned or was not allowed, and no secret is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harms import SECRETS, TOKEN, Ended, Place, harms, looked_at, made_place, run_apart
from hostile_recipes import REWARD, TOUCH, Attempt, over
from small_recipe import STACK
from test_hostile_recipes import command, placed

ROOT = Path(__file__).parents[2]
TRAINS = over("rewards: [{python: r.py:f}]\ntraining: {max_steps: 1}\n")


def planned(place: Place, files: dict[str, str]) -> Path:
    """The run folder of a recipe with a reward file."""
    recipe = Attempt("planned", over("rewards: [{python: r.py:f}]"), files)
    placed(place, recipe)
    ended = run_apart(place, [command("run", "recipe.yaml", "--target", STACK, "--dry-run", "--out", "runs/one")])
    assert ended.codes == [0], ended.printed
    return place.team / "runs" / "one"


@pytest.mark.parametrize("changed", ["r.py", "h.py"])
def test_code_that_changed_in_the_run_folder_is_not_run(changed: str, tmp_path: Path) -> None:
    place = made_place(tmp_path)
    run_folder = planned(place, {"r.py": "import h\n" + REWARD, "h.py": "VALUE = 1\n"})
    (run_folder / "worker" / "user" / changed).write_text(place.filled(TOUCH) + REWARD)
    done = subprocess.run(
        ["bash", str(run_folder / "launch.sh")],
        env={**place.environment(), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert f"{changed} changed since the plan was made" in done.stderr
    assert not place.canary.exists()


def test_a_run_folder_is_not_written_through_a_link(tmp_path: Path) -> None:
    place = made_place(tmp_path)
    placed(place, Attempt("good", over("")))
    (place.team / "runs").symlink_to("../outside")
    (place.team / "taken").symlink_to("../outside")
    before = looked_at(place)
    ended = run_apart(place, [command("run", "recipe.yaml", "--target", STACK, "--dry-run", "--out", "taken")])
    assert ended.codes == [2]
    assert "the run folder already exists" in ended.printed
    assert harms(before, ended) == []


@pytest.mark.parametrize("name", ["launch.sh", "worker/train.py", "worker/yaml.py", "plan.json"])
def test_a_strangers_run_folder_runs_nothing(name: str, tmp_path: Path) -> None:
    place = made_place(tmp_path)
    run_folder = planned(place, {"r.py": REWARD})
    (run_folder / name).write_text(place.filled(TOUCH))
    ended = run_apart(
        looked_at(place),
        [command("run", "runs/one", "--resume"), command("run", "runs/one"), command("plan", "runs/one")],
    )
    assert ended.codes[0] == 2
    assert not place.canary.exists()
    assert "Traceback" not in ended.printed


def run(place: Place, *arguments: str, seconds: int = 150, python: str = sys.executable) -> Ended:
    """The command as a process of its own, on this machine's stack."""
    done = subprocess.run(
        [python, "-m", "grpo_recipes.cli.main", *arguments],
        cwd=place.team,
        env={**place.environment(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    return Ended([done.returncode], done.stdout, 0.0, None)


@pytest.mark.stack
@pytest.mark.parametrize("command_name", ["run", "preflight"])
def test_code_that_was_not_allowed_is_not_run(command_name: str, tmp_path: Path) -> None:
    files = {"r.py": TOUCH + "import h\n" + REWARD, "h.py": TOUCH}
    place = placed(made_place(tmp_path), Attempt("code", TRAINS, files))
    ended = run(place, command_name, "recipe.yaml")
    assert ended.codes == [2]
    assert "this recipe contains code that is not allowed to run yet" in ended.printed
    assert ended.printed.count("--allow-code") == 2
    assert harms(place, ended) == []


@pytest.mark.stack
@pytest.mark.parametrize(
    ("template", "chat"),
    [
        ("{{ 'a' * 10 ** 10 ~ question }}", None),
        pytest.param(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ question }}",
            None,
            marks=pytest.mark.long,
        ),
        (
            "{{ question }}",
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ messages }}",
        ),
    ],
    ids=["a long text", "loops in loops", "loops in the chat template"],
)
def test_a_template_that_explodes_ends_the_preflight(
    template: str, chat: str | None, tmp_path: Path, warm_python: Path
) -> None:
    files = {} if chat is None else {"chat.jinja": chat}
    more = "" if chat is None else "tokenizer: {chat_template_path: chat.jinja}\n"
    recipe = Attempt("bomb", over(f'dataset: {{prompt: "{template}"}}\n{more}'), files)
    place = placed(made_place(tmp_path), recipe)
    ended = run(place, "preflight", "recipe.yaml", python=str(warm_python / "python"))
    assert ended.codes == [2], ended.printed
    assert "takes too long" in ended.printed or "needs more than" in ended.printed
    assert harms(place, ended) == []


@pytest.mark.stack
def test_what_allowed_code_says_is_written_without_secrets(tmp_path: Path, warm_python: Path) -> None:
    telling = "import os\nprint('my token', os.environ['HF_TOKEN'], flush=True)\n"
    raising = "def f(completions, **kwargs):\n    raise ValueError('\\x1b[2J' + os.environ['HF_TOKEN'])\n"
    place = placed(made_place(tmp_path), Attempt("telling", TRAINS, {"r.py": telling + raising}))
    asked = run(place, "run", "recipe.yaml")
    sha256 = asked.printed.rsplit("--allow-code ", 1)[1][:64]
    words, python = ("--out", "runs/one", "--allow-code", sha256), str(warm_python / "python")
    ended = run(place, "run", "recipe.yaml", *words, seconds=300, python=python)
    run_folder = place.team / "runs" / "one"
    assert ended.codes == [1], ended.printed
    assert "my token <redacted>" in (run_folder / "train.log").read_text()
    assert "<redacted>" in json.loads((run_folder / "run.json").read_text())["message"]
    written = {path: path.read_bytes() for path in run_folder.rglob("*") if path.is_file()}
    assert [path for path, text in written.items() if any(secret.encode() in text for secret in SECRETS)] == []
    assert TOKEN not in ended.printed
    assert "\x1b" not in ended.printed
