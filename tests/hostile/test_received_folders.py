"""A run folder of another team starts what the installed package renders, and nothing else that lies in it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harms import Place, looked_at, made_place, run_apart
from hostile_recipes import REWARD, Attempt, over
from received_folders import CHANGES, GONE_ON_WITH, KEPT, PLANTED, SETTINGS, planted
from test_hostile_recipes import command, placed
from test_hostile_runs import planned, run

from grpo_recipes.contract.host.child_environment import absolute_places
from grpo_recipes.render.launch_script import fill

pytestmark = pytest.mark.hostile


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return made_place(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a reward, to copy."""
    return planned(made_place(tmp_path_factory.mktemp("written")), {"r.py": REWARD})


@pytest.fixture
def folder(place: Place, written: Path) -> Path:
    """A run folder full of canaries, whose start ends with 3, after all of the worker that is light was imported."""
    copy = Path(shutil.copytree(written, place.team / "runs" / "one"))
    (copy / "worker" / "user" / "r.py").write_text("changed = 1\n")
    planted(place, copy)
    return copy


def started(place: Place, words: list[str], where: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {**place.environment(), "PYTHON": sys.executable}
    return subprocess.run(words, cwd=where, env={**clean, **environment}, capture_output=True, text=True, timeout=120)


PATHS = {
    "nothing of the kind": {},
    "PYTHONPATH ends with a colon": {"PYTHONPATH": "/nowhere:"},
    "PYTHONPATH is a colon": {"PYTHONPATH": ":"},
    "PYTHONPATH is a point": {"PYTHONPATH": "."},
    "PYTHONPATH leads up": {"PYTHONPATH": "..:../..:../../worker:worker"},
    "PATH begins with a point": {"PATH": ".:/usr/local/bin:/usr/bin:/bin"},
    "PATH begins with a colon": {"PATH": ":/usr/local/bin:/usr/bin:/bin"},
    "PATH leads up": {"PATH": "../..:..:/usr/local/bin:/usr/bin:/bin"},
    "cd looks elsewhere": {"CDPATH": "/tmp:..:."},
    "a start-up file of bash": {"BASH_ENV": "python", "ENV": "python"},
    "a start-up file of Python": {"PYTHONSTARTUP": "socket.py"},
    "compiled copies elsewhere": {"PYTHONPYCACHEPREFIX": "worker"},
}


@pytest.mark.parametrize("paths", PATHS)
@pytest.mark.parametrize("where", [".", "..", "worker"])
def test_launch_sh_by_hand_imports_and_runs_nothing_of_the_folder(
    paths: str, where: str, place: Place, folder: Path
) -> None:
    script = os.path.relpath(folder / "launch.sh", folder / where)
    if where == ".":
        given = {
            name: value for name, value in PATHS[paths].items() if name != "BASH_ENV"
        }  # bash reads it there itself
    else:
        given = {**PATHS[paths], **({"BASH_ENV": "nothing"} if "BASH_ENV" in PATHS[paths] else {})}
    done = started(place, ["/bin/bash", script], folder / where, **given)
    assert done.returncode == 3, done.stderr
    assert "changed since the plan was made" in done.stderr
    assert not place.canary.exists(), place.canary.read_text()


@pytest.mark.parametrize(
    "name", ["-P", "-", "--", "a\nb", "a\n", "ü" * 100, "a b", "$(touch CANARY)", "grpo_recipes", "'"]
)
def test_a_folder_of_any_name_is_started(name: str, place: Place, folder: Path) -> None:
    moved = place.team / name
    folder.rename(moved)
    for script in (str(moved / "launch.sh"), f"{moved.name}/launch.sh"):
        done = started(place, ["/bin/bash", "--", script], place.team)
        assert "changed since the plan was made" in done.stderr
        assert done.returncode == 3
    assert not place.canary.exists(), place.canary.read_text()
    assert not (place.team / "canary").exists()


def test_the_parts_of_a_job_import_nothing_of_the_folder(place: Place, folder: Path) -> None:
    template = fill("absolute_places.sh.j2")
    source = (Path(sys.modules["grpo_recipes"].__file__ or "").parent / "render/templates/job.sbatch.j2").read_text()
    part = next(line for line in source.splitlines() if line.startswith("part()"))
    program = f"{template}\n{part}\necho one | part survival.redacted train.log\npart survival.job_end . before\n"
    for paths in PATHS.values():
        given = {name: value for name, value in paths.items() if name != "BASH_ENV"}
        done = started(place, ["/bin/bash", "-c", program], folder, **given)
        assert (done.returncode, done.stdout) == (0, "none/0\n"), done.stderr
    assert not place.canary.exists(), place.canary.read_text()
    assert (folder / "train.log").read_text() == "one\n" * len(PATHS)


def test_harm_would_be_seen(place: Place, folder: Path) -> None:
    attempts = (
        [sys.executable, "-c", "import socket"],
        [sys.executable, "-m", "accelerate"],
        [sys.executable, "worker/train.py"],
        ["/bin/bash", "-c", "PATH=.:$PATH; date"],
    )
    for words in attempts:
        place.canary.unlink(missing_ok=True)
        started(place, words, folder)
        assert place.canary.exists(), words
    place.canary.unlink()
    (folder / "relative").mkdir()
    (folder / "socket.py").rename(folder / "relative" / "socket.py")  # without those that Python itself dies of
    started(place, [sys.executable, "-P", "-c", "import socket"], folder, PYTHONPATH="relative")
    assert place.canary.exists()


LOOKING = """#!/bin/sh
[ "$2" = -c ] && echo 4711 && exit
for name in %s; do [ -e "$name" ] && echo "sees $name"; done
git rev-parse --git-dir 2> /dev/null && echo "sees a repository"
[ -z "$(ls -A)" ] || echo "is not alone"
pwd
env
"""


def looked_from(place: Place, folder: Path, **environment: str) -> list[str]:
    program = place.root / "cache" / "looking"
    program.write_text(LOOKING % " ".join(SETTINGS))
    program.chmod(0o755)
    done = started(place, ["/bin/bash", str(folder / "launch.sh")], folder, PYTHON=str(program), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def with_settings(place: Place) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = planned(place, {"r.py": REWARD})
    for name in SETTINGS:
        for where in (folder, folder / "reports"):
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            if not (where / name).exists():
                (where / name).write_text("evil")
    for where in (folder, folder / "reports"):
        subprocess.run(["git", "init", "--quiet", str(where)], check=True, env=place.environment())
    return folder


def test_a_start_sees_no_settings_models_or_repository_of_the_folder(place: Place) -> None:
    folder = with_settings(place)
    lines = looked_from(place, folder)
    assert [line for line in lines if line.startswith(("sees", "is not"))] == []
    assert lines[0].startswith(f"{folder}/reports/")


def test_settings_would_be_seen(place: Place) -> None:
    folder = with_settings(place)
    program = place.root / "cache" / "looking"
    program.write_text(LOOKING % " ".join(SETTINGS))
    done = started(place, ["/bin/sh", str(program), "-P", "-u"], folder)
    assert len([line for line in done.stdout.splitlines() if line.startswith("sees")]) == len(SETTINGS) + 1


def test_reports_that_lead_elsewhere_are_not_written_to(place: Place) -> None:
    folder = planned(place, {"r.py": REWARD})
    (folder / "reports").symlink_to(place.root / "outside")
    before = sorted((place.root / "outside").iterdir())
    assert looked_from(place, folder)[-1] is not None
    assert sorted((place.root / "outside").iterdir()) == before


VALUES = (
    *(
        "",
        ":",
        "::",
        ".",
        "/a",
        "/a:",
        ":/a",
        "/a::/b",
        "/a:b:/c",
        "a",
        "./a",
        "../a",
        "~/a",
        "$HOME/a",
        "/a b:/c",
        "*",
    ),
    *(
        "a b",
        "/a /b",
        "libjemalloc.so",
        "libjemalloc.so:/x.so",
        "libjemalloc.so ./x.so",
        "/a:$(touch CANARY)",
        "-e",
        "\\",
    ),
)


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "PYTHONPATH", "LD_PRELOAD", "CPATH", "BASH_ENV", "PYTHONHOME"])
def test_launch_sh_and_grpo_run_leave_out_the_same_entries(name: str, place: Place) -> None:
    script = fill("absolute_places.sh.j2") + "\n" + f'if [ -n "${{{name}-}}" ]; then printf "%s\\n" "${name}"; fi'
    (place.team / "script").write_text(script)
    for value in VALUES:
        # bash itself is started without it, which would load or read what it says
        words = ["/bin/bash", "-c", f"{name}=$1; export {name}; . ./script", "x", value]
        said = started(place, words, place.team).stdout.splitlines()
        expected = absolute_places({name: value})[0].get(name, "")
        assert said == ([expected] if expected else []), value
    assert not place.canary.exists()


TWO = over(
    "rewards: [{python: r.py:f}]\nlaunch: {num_nodes: 2, num_processes: 2, gpus_per_node: 0}\n"
    "distributed: {strategy: ddp}\n"
)


def by_hand(place: Place) -> Path:
    """The run folder of two machines, which a resume starts nothing of: it prints their commands."""
    placed(place, Attempt("two", TWO, {"r.py": REWARD}))
    asked = run(place, "run", "recipe.yaml", "--out", "runs/two")
    shas = re.findall(r"--allow-code [0-9a-f]{64}", asked.printed)
    done = run(place, "run", "recipe.yaml", "--out", "runs/two", *" ".join(shas).split())
    assert done.codes == [0], done.printed
    return place.team / "runs" / "two"


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Path]:
    place = made_place(tmp_path_factory.mktemp("received"))
    return place, by_hand(place)


def changed(folder: Path, where: str, value: object) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    *parents, last = where.split(".")
    node = plan
    for name in parents:
        node = node[int(name)] if isinstance(node, list) else node[name]
    node[last] = value
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "integrity.json").unlink()  # which would give it away


STARTED = ("launch.sh", "train.sh", "job.sbatch", "accelerate.yaml", "deepspeed.json", "plan.json")


def resumed(place: Place, folder: Path) -> tuple[int, str]:
    ended = run_apart(looked_at(place), [command("run", str(folder), "--resume")], cpu_s=40)
    assert ended.codes, ended.printed
    return ended.codes[0], ended.printed


@pytest.mark.stack
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_of_a_strangers_plan_is_rendered(change: str, received: tuple[Place, Path]) -> None:
    place, folder = received
    texts = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    where, value = CHANGES[change]
    changed(folder, where, value)
    code, printed = resumed(place, folder)
    rendered = {name: (folder / name).read_text() for name in STARTED if (folder / name).exists()}
    kept = list(folder.glob("replaced-*"))
    for path in folder.iterdir():
        if path.is_file() and path not in texts:
            path.unlink()
    for path, content in texts.items():
        path.write_bytes(content)
    for path in kept:
        subprocess.run(["rm", "-r", str(path)], check=True)
    assert code == (0 if change in GONE_ON_WITH else 2), printed
    assert "Traceback" not in printed
    assert not place.canary.exists()
    if code == 0:
        assert set(rendered) == {"launch.sh", "accelerate.yaml", "plan.json"}
        hostile = [name for name, text in rendered.items() if "HOSTILE_" in text]
        assert hostile == (["plan.json"] if change in KEPT else [])
        assert rendered["launch.sh"] == texts[folder / "launch.sh"].decode()
        if change not in ("drift that is accepted", "the folder", "the recipe's file"):
            assert "rewritten, since this grpo-run writes it differently: plan.json" in printed


@pytest.mark.stack
@pytest.mark.parametrize("name", PLANTED)
def test_no_program_of_a_strangers_folder_stays_in_its_place(name: str, received: tuple[Place, Path]) -> None:
    place, folder = received
    before = (folder / name).read_bytes() if (folder / name).exists() else None
    PLANTED[name](folder)
    code, printed = resumed(place, folder)
    assert code == 0, printed
    assert "rewritten, since this grpo-run writes it differently" in printed
    assert ((folder / name).read_bytes() if (folder / name).exists() else None) == before
    for path in folder.glob("replaced-*"):
        subprocess.run(["rm", "-r", str(path)], check=True)
    assert resumed(place, folder)[0] == 0
    assert not list(folder.glob("replaced-*"))


@pytest.mark.stack
@pytest.mark.parametrize(
    ("start", "processes"),
    [
        ("launch.sh", 2),
        ("grpo-run", 1),
        pytest.param("launch.sh", 1, marks=pytest.mark.long),
        pytest.param("grpo-run", 2, marks=pytest.mark.long),
    ],
)
def test_a_training_imports_nothing_of_its_folder(start: str, processes: int, place: Place) -> None:
    recipe = over(
        f"training: {{max_steps: 1, per_device_train_batch_size: {4 // processes}}}\n"
        f"launch: {{num_processes: {processes}}}\n"
    )
    placed(place, Attempt("small", recipe, {}))
    made = run(place, "run", "recipe.yaml", "--dry-run", "--out", "runs/one")
    assert made.codes == [0], made.printed
    folder = place.team / "runs" / "one"
    planted(place, folder)
    environment = {"PYTHONPATH": ":", "OMP_NUM_THREADS": "1"}
    words = ["/bin/bash", str(folder / "launch.sh")]
    if start == "grpo-run":
        words = [str(Path(sys.executable).with_name("grpo-run")), str(folder), "--resume"]
        environment = {"OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": "/nowhere:"}
    done = started(place, words, place.root / "outside", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not place.canary.exists(), place.canary.read_text()
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"
