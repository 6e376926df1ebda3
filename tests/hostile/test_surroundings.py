"""A closed or full stream, a name that is not UTF-8, a folder that is gone: the exit of the answer, or one message."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_recipes import BASE, ROWS
from small_recipe import STACK
from strange_places import (
    CLOSED_PIPE,
    Around,
    Ended,
    can_be_nameless,
    ended,
    in_folder,
    in_removed_folder,
    limited,
    nameless,
)

from grpo_recipes.cli.main import COMMANDS, main

pytestmark = pytest.mark.hostile
TARGET = ["--target", STACK]
GOOD = BASE.replace("MODEL", "owner/model")
BAD = GOOD.replace("max_steps: 10", "max_steps: -10")
NOT_UTF8 = b"caf\xe9"

# Words, the exit, and whether the answer is on stdout.
ANSWERS: dict[str, tuple[list[str], int]] = {
    "validate, good": (["validate", "good.yaml", *TARGET], 0),
    "validate, bad": (["validate", "bad.yaml", *TARGET], 2),
    "validate as sarif, good": (["validate", "good.yaml", "--format", "sarif", *TARGET], 0),
    "validate as sarif, bad": (["validate", "bad.yaml", "--format", "sarif", *TARGET], 2),
    "validate as json, bad": (["validate", "bad.yaml", "--format", "json", *TARGET], 2),
    "run, only validated": (["good.yaml", "--validate-only", *TARGET], 0),
    "plan": (["plan", "good.yaml", *TARGET], 0),
    "plan as a recipe": (["plan", "good.yaml", "--recipe", *TARGET], 0),
    "a dry run": (["good.yaml", "--dry-run", "--out", "OUT", *TARGET], 0),
    "explain": (["explain", "BAT001"], 0),
    "schema": (["schema"], 0),
    "doctor": (["doctor", *TARGET], 0),
    "fit": (["fit", "good.yaml", *TARGET], 1),
    "diff": (["diff", "good.yaml", "other.yaml", *TARGET], 1),
    "init --list": (["init", "--list"], 0),
    "runs": (["runs", "--json"], 0),
    "sweep, only validated": (["sweep", "good.yaml", "--vary", "grpo.beta=0,0.1", "--validate-only", *TARGET], 0),
    "sweep, a dry run": (["sweep", "good.yaml", "--seeds", "2", "--dry-run", "--out", "OUT", *TARGET], 0),
    "completion": (["completion", "bash"], 0),
    "allowed": (["allowed", "--json"], 0),
    "help": (["--help"], 0),
    "version": (["--version"], 0),
}
# These say what is wrong on stderr alone.
TALK: dict[str, tuple[list[str], int]] = {
    "plan, bad": (["plan", "bad.yaml", *TARGET], 2),
    "run, bad": (["bad.yaml", *TARGET, "--dry-run"], 2),
    "a wrong option": (["validate", "--nonsense"], 2),
    "resume of nothing": (["nothing", "--resume"], 2),
    "sweep, bad": (["sweep", "bad.yaml", *TARGET, "--dry-run"], 2),
    "sweep of a folder that is none": (["sweep", ".", "--table"], 2),
    "export of nothing": (["export", "nothing", "-o", "OUT"], 2),
    "watch of nothing": (["watch", "nothing"], 2),
    "profile of nothing": (["profile", "nothing.yaml", "-o", "OUT.jsonl"], 2),
    "generate of nothing": (["generate", "nothing", "1+1="], 2),
    "chat of nothing": (["chat", "nothing"], 2),
    "report of nothing": (["report", "nothing", "-o", "OUT"], 2),
}
COMMON = {**ANSWERS, **TALK}
# Each surrounding is tried with these; each command with those surroundings that ended one.
FEW = ("validate, bad", "plan", "a dry run", "plan, bad")
MANY = ("nothing strange", "stderr closed", "stderr full", "ascii alone", "no HOME and no name")

# Surroundings in which nothing is lost: exit and answer are as ever.
HARMLESS = {
    "nothing strange": Around(),
    "stdin closed": Around({0: None}),
    "stderr closed": Around({2: None}),
    "stderr full": Around({2: "/dev/full"}),
    "stderr a closed pipe": Around({2: CLOSED_PIPE}),
    "stdin and stderr closed": Around({0: None, 2: None}),
    "ascii alone": Around(environment={"PYTHONIOENCODING": "ascii"}),
    "latin alone": Around(environment={"PYTHONIOENCODING": "latin-1"}),
    "LANG=C": Around(environment={"LANG": "C", "LC_ALL": "C"}),
    "no HOME": Around(environment={"HOME": None}),
    "no HOME and no name": Around(environment={"HOME": None}, before=nameless),
    "a HOME that is not there": Around(environment={"HOME": "/proc/nowhere/at/all"}),
    "a HOME that is a file": Around(environment={"HOME": "/dev/null"}),
    "no TMPDIR": Around(environment={"TMPDIR": "/nowhere/at/all"}),
    "a cache that is a file": Around(environment={"XDG_CACHE_HOME": "/dev/null"}),
    "32 open files": Around(before=limited(resource.RLIMIT_NOFILE, 32)),
    "no core, no locked memory": Around(before=limited(resource.RLIMIT_MEMLOCK, 0)),
}
# Nobody reads the answer, which nobody misses: the exit is that of the answer.
UNREAD = {
    "stdout closed": Around({1: None}),
    "stdout a closed pipe": Around({1: CLOSED_PIPE}),
    "all closed": Around({0: None, 1: None, 2: None}),
    "both a closed pipe": Around({1: CLOSED_PIPE, 2: CLOSED_PIPE}),
}
# The answer is lost: never exit 0.
LOST = {
    "stdout full": Around({1: "/dev/full"}),
    "both full": Around({1: "/dev/full", 2: "/dev/full"}),
    "no file may grow": Around(before=limited(resource.RLIMIT_FSIZE, 0)),
}


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A folder with a good, a bad and another recipe."""
    folder = tmp_path / "team"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bad.yaml").write_text(BAD)
    (folder / "other.yaml").write_text(GOOD.replace("max_steps: 10", "max_steps: 11"))
    (folder / "rows.jsonl").write_text(ROWS)
    return folder


def right(found: Ended, code: int) -> bool:
    """Whether the exit is this one, and neither a traceback nor a word of a defect was printed."""
    return found.code == code and not any(word in found.err for word in (b"Traceback", b"defect of", b"Exception"))


@pytest.mark.parametrize(
    ("command", "around"),
    [(command, around) for command in COMMON for around in HARMLESS if command in FEW or around in MANY],
)
def test_what_harms_no_answer_changes_none(command: str, around: str, team: Path) -> None:
    words, code = COMMON[command]
    if HARMLESS[around].before is nameless and not can_be_nameless():
        pytest.skip("this system has no namespaces of users")
    found = ended(words, team, HARMLESS[around], main)
    assert right(found, code), found
    assert bool(found.out) == (command in ANSWERS)


@pytest.mark.parametrize("around", UNREAD)
@pytest.mark.parametrize("command", COMMON)
def test_an_answer_that_nobody_reads_has_its_exit(command: str, around: str, team: Path) -> None:
    words, code = COMMON[command]
    found = ended(words, team, UNREAD[around], main)
    assert right(found, code), found


@pytest.mark.parametrize("around", LOST)
@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_that_is_lost_is_said(command: str, around: str, team: Path) -> None:
    words, code = ANSWERS[command]
    found = ended(words, team, LOST[around], main)
    assert right(found, code or 2), found
    if around == "stdout full":
        last = found.err.splitlines()[-1]
        assert last == b"error: the answer could not be printed: No space left on device"


def named(name: bytes) -> str:
    return os.fsdecode(name)


NAMES = {
    "not UTF-8": NOT_UTF8,
    "a line break": b"two\nlines",
    "an escape": b"red\x1b[31m",
    "a bell and a backspace": b"\x07\x08",
    "of 250 bytes": b"n" * 245,
    "only spaces": b"   ",
    "a quote": b'it\'s "so"',
    "braces": b"{{ 7 * 7 }}",
    "a tag": b"[bold]",
    "turned letters": "\u202etxt".encode(),
    "no characters": b"\xef\xbf\xbf",
    "half a pair": b"\xed\xa0\x80",
}
ABOUT_A_RECIPE: dict[str, list[str]] = {
    "validate": ["validate", "NAME"],
    "validate as json": ["validate", "NAME", "--format", "json"],
    "validate as sarif": ["validate", "NAME", "--format", "sarif"],
    "validate as github": ["validate", "NAME", "--format", "github"],
    "validate --fix": ["validate", "NAME", "--fix"],
    "plan": ["plan", "NAME"],
    "plan as json": ["plan", "NAME", "--json"],
    "plan as a recipe": ["plan", "NAME", "--recipe"],
    "a dry run": ["run", "NAME", "--dry-run", "--out", "OUT"],
    "diff": ["diff", "NAME", "other.yaml"],
}


# Each name is tried with these, each command with the first names.
WITH_ANY_NAME = ("validate as sarif", "plan as a recipe", "a dry run")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (command, name)
        for command in ABOUT_A_RECIPE
        for place, name in enumerate(NAMES)
        if command in WITH_ANY_NAME or place < 3
    ],
)
def test_a_recipe_of_any_name_is_judged(command: str, name: str, team: Path) -> None:
    recipe = named(NAMES[name] + b".yaml")
    (team / recipe).write_text(BAD if "json" in command or "sarif" in command else GOOD)
    words = [recipe if word == "NAME" else word for word in ABOUT_A_RECIPE[command]]
    found = ended([*words, *TARGET], team, Around(), main)
    assert found.code in (0, 1, 2), found
    assert right(found, found.code), found
    assert b"\x1b" not in found.out + found.err
    for stream in (found.out, found.err):
        stream.decode()  # never half a letter


@pytest.mark.parametrize("name", NAMES)
def test_a_run_folder_of_any_name_is_written_or_refused(name: str, team: Path) -> None:
    out = named(NAMES[name])
    found = ended(["run", "good.yaml", "--dry-run", "--out", out, *TARGET], team, Around(), main)
    assert right(found, 0 if (team / out).exists() else 2), found
    left = {entry for entry in os.listdir(team) if entry not in ("good.yaml", "bad.yaml", "other.yaml", "rows.jsonl")}
    assert left == ({out} if found.code == 0 else set())


@pytest.mark.parametrize("command", COMMON)
def test_a_removed_folder_is_said(command: str, team: Path) -> None:
    words = [str(team / word) if word.endswith(".yaml") else word for word in COMMON[command][0]]
    found = ended(words, team, Around(before=in_removed_folder), main)
    assert found.code in (0, 1, 2), found
    assert right(found, found.code), found


@pytest.mark.parametrize("command", ["a dry run", "validate as sarif, bad"])
@pytest.mark.parametrize("name", ["not UTF-8", "a line break", "an escape", "half a pair"])
def test_a_working_folder_of_any_name(name: str, command: str, team: Path) -> None:
    words, code = COMMON[command]
    found = ended(words, team, Around(before=in_folder(NAMES[name])), main)
    assert found.code in (code, 2), found
    assert right(found, found.code), found


WRONG_WORDS: dict[str, list[str]] = {
    "an empty name": [""],
    "a dash": ["-"],
    "a name with a leading dash": ["--", "-recipe.yaml"],
    "a value that is not UTF-8": ["validate", "good.yaml", "--set", named(b"name=\xe9")],
    "a key that is not UTF-8": ["validate", "good.yaml", "--set", named(b"\xe9=1")],
    "a target that is not UTF-8": ["validate", "good.yaml", "--target", named(b"\xe9")],
    "a rule that is not UTF-8": ["explain", named(b"\xe9")],
    "a command that is not UTF-8": [named(b"\xe9")],
    "an option that is not UTF-8": [named(b"--\xe9")],
    "a digest that is not UTF-8": ["good.yaml", "--allow-code", named(b"\xe9")],
    "an output that is not UTF-8": ["init", "-o", named(b"\xe9.yaml")],
    "a source that is not UTF-8": ["init", "--from", named(b"\xe9.yaml")],
    "a folder as the recipe": ["validate", "."],
    "a device as the recipe": ["validate", "/dev/null"],
    "a run folder that is no text": ["diff", named(b"\xe9"), named(b"\xe8")],
}


@pytest.mark.parametrize("case", WRONG_WORDS)
def test_wrong_words_get_one_message(case: str, team: Path) -> None:
    found = ended(WRONG_WORDS[case], team, Around(), main)
    assert found.code in (0, 2), found
    assert right(found, found.code), found


@pytest.fixture
def plain_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the defence: the command as click and the interpreter leave it."""
    monkeypatch.setattr("grpo_recipes.cli.main.make_steady", lambda: None)
    monkeypatch.setattr("grpo_recipes.cli.main.refusal_of", lambda problem: None)
    yield


@pytest.mark.parametrize(
    ("words", "around", "code"),
    [
        (["validate", "bad.yaml", *TARGET], Around({1: CLOSED_PIPE}), 1),
        (["validate", "good.yaml", *TARGET], Around({1: "/dev/full"}), 70),
        (["bad.yaml", "--dry-run", *TARGET], Around({2: "/dev/full"}), 70),
        (["TEAM/good.yaml", "--dry-run", *TARGET], Around(before=in_removed_folder), 70),
        (["good.yaml", "--dry-run", "--out", named(NOT_UTF8), *TARGET], Around(), 70),
    ],
    ids=["a closed pipe", "stdout full", "stderr full", "a removed folder", "not UTF-8"],
)
def test_without_the_defence_it_would_be_seen(
    words: list[str], around: Around, code: int, team: Path, plain_streams: None
) -> None:
    found = ended([word.replace("TEAM", str(team)) for word in words], team, around, main)
    assert found.code in (code, 120), found  # 120: the interpreter could not flush


def test_each_command_is_tried() -> None:
    tried = {word for words, _ in COMMON.values() for word in words[:1]}
    assert {*COMMANDS} - {"run", "preflight"} <= tried


# Inside of a container: 64 MB of shared memory, and a home that cannot be written, by root neither.
CONTAINER = [
    *("unshare", "--mount", "sh", "-c"),
    'mount -t tmpfs -o size=64m small /dev/shm && mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME"'
    ' && ! touch "$HOME/written" 2> /dev/null && exec "$@"',
    "sh",
]
TRIED = [
    ["doctor"],
    ["preflight"],
    ["run", "--out", "OUT", "--set", "training.max_steps=1", "--set", "evaluation.max_rows=4"],
]


@pytest.mark.stack
@pytest.mark.parametrize("is_nameless", [True, False], ids=["without home and name", "home is read-only"])
@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=words[0], marks=[pytest.mark.long] * (words == ["preflight"])) for words in TRIED],
)
def test_a_user_of_a_container_trains(words: list[str], is_nameless: bool, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    variables = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    around = [] if is_nameless else CONTAINER
    if is_nameless and not can_be_nameless():
        pytest.skip("this system has no namespaces of users")
    if not is_nameless:
        variables["HOME"] = str(home)
        if subprocess.run([*around, "true"], env=variables, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
    shutil.copytree(Path(__file__).parents[2] / "recipes", tmp_path / "recipes")
    recipe = [] if words == ["doctor"] else ["recipes/quickstart.yaml"]
    done = subprocess.run(
        [*around, sys.executable, "-m", "grpo_recipes.cli.main", words[0], *recipe, *words[1:]],
        cwd=tmp_path,
        env=variables,
        preexec_fn=nameless if is_nameless else None,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    if words == ["doctor"]:
        assert "[STK018]" in done.stdout, "the hub's cache cannot be written"
