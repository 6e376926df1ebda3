"""What a sweep plans before anything starts: the runs that --set would make, and each finding once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from grpo_recipes.cli.sweeps.planning import seeds_of
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.render.rerendered import write_again
from grpo_recipes.sweep.sweep_file import read_sweep

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "recipes" / "quickstart.yaml")
TARGET = ("--target", "tested,gpus=0")
RATES = ("--vary", "training.learning_rate=1e-3,2e-3,0.002")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)


def plan_in(folder: Path) -> Plan:
    return from_json((folder / "plan.json").read_text())


def test_each_run_is_the_one_that_set_would_make(grpo_run: Callable, tmp_path: Path) -> None:
    answer = grpo_run("sweep", QUICKSTART, *RATES, "--seeds", "2", *TARGET, "--dry-run", "--out", "swept")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'swept'}\n"), answer.err
    assert answer.err.endswith(f"; next on the machine of --target: grpo-run sweep {tmp_path / 'swept'}\n")
    sweep = read_sweep("swept")
    assert [run.name for run in sweep.runs] == [
        f"learning_rate-{rate}-seed-{seed}" for seed in (42, 43) for rate in ("1e-3", "2e-3", "0.002")
    ]
    assert (sweep.seeds, sweep.base) == ((42, 43), 1)
    assert sweep.recipe == QUICKSTART
    words = ("--set", "training.learning_rate=2e-3", "--set", "seed=43")
    alone = grpo_run(QUICKSTART, *words, *TARGET, "--dry-run", "--out", "alone")
    assert alone.code == 0, alone.err
    name = "learning_rate-2e-3-seed-43"
    swept = tmp_path / "swept" / name
    written, other = json.loads((swept / "plan.json").read_text()), json.loads(Path("alone/plan.json").read_text())
    assert written == {**other, "folder": str(swept)}
    assert (swept / "recipe.yaml").read_text() == Path("alone/recipe.yaml").read_text()
    files = {str(path.relative_to("alone")) for path in Path("alone").rglob("*")}
    assert files == {str(path.relative_to(swept)) for path in swept.rglob("*")}
    assert grpo_run(str(swept), "--verify").code == 0
    assert grpo_run("diff", str(swept), "alone").code == 0


def test_a_sweep_begins_with_the_difference_that_it_can_detect(grpo_run: Callable) -> None:
    def words(*more: str) -> str:
        return grpo_run("sweep", QUICKSTART, *RATES, *more, *TARGET, "--dry-run").err

    # Three settings are three pairs; the quickstart has 974 held-out rows.
    assert (
        "3 seeds can detect a difference of 5.7 standard deviations between runs of the same seed, and 974 held-out"
        " rows one of 0.045 in a reward of 0 to 1" in words("--seeds", "3")
    )
    assert "20 held-out rows one of 0.31 in" in words("--set", "evaluation.max_rows=20")
    assert "20 held-out rows one of 0.31 in" in words("--vary", "evaluation.max_rows=40,20")
    assert "one seed cannot tell a difference from noise" in words("--seeds", "1")
    assert "held-out rows one of" not in words("--seeds", "3", "--set", "evaluation=null")


def bytes_of(folder: Path, beside: frozenset[int] = frozenset()) -> int:
    """What a folder takes on a disk where other files, by their inodes, are there already."""
    entries = {entry.lstat().st_ino: entry.lstat().st_size for entry in folder.rglob("*")}
    return sum(size for inode, size in entries.items() if inode not in beside)


@pytest.mark.parametrize("has_links", [True, False])
def test_the_runs_share_one_copy_of_what_trains(
    has_links: bool, grpo_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr("os.link", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    answer = grpo_run("sweep", QUICKSTART, *RATES, "--seeds", "1", *TARGET, "--dry-run", "--out", "swept")
    assert answer.code == 0, answer.err
    first, *others = (tmp_path / "swept" / run.name for run in read_sweep("swept").runs)
    known = frozenset(entry.lstat().st_ino for entry in first.rglob("*"))
    for other in others:
        assert (bytes_of(other, known) < 300_000) is has_links  # a hundred take less than 30 MB
        assert grpo_run(str(other), "--verify").code == 0
    copied = shutil.copytree(others[0], tmp_path / "copied")
    shutil.rmtree("swept")
    assert grpo_run(str(copied), "--verify").code == 0


def test_a_run_that_is_written_again_leaves_the_others_alone(grpo_run: Callable, tmp_path: Path) -> None:
    assert grpo_run("sweep", QUICKSTART, *RATES, "--seeds", "1", *TARGET, "--dry-run", "--out", "swept").code == 0
    first, second, _ = (tmp_path / "swept" / run.name for run in read_sweep("swept").runs)
    program = Path("worker", "grpo_recipes.zip")
    own = (first / program).read_bytes()
    (first / program).write_bytes(b"changed")
    for folder in (first, second):
        answer = grpo_run(str(folder), "--verify")
        assert (answer.code, str(program) in answer.out) == (1, True), answer
    plan = plan_in(second)
    write_again(plan, str(second), as_written=plan, changes=())
    assert ((second / program).read_bytes(), (first / program).read_bytes()) == (own, b"changed")
    assert grpo_run(str(second), "--verify").code == 0


def test_nothing_is_written_where_all_are_only_checked(grpo_run: Callable, tmp_path: Path) -> None:
    answer = grpo_run("sweep", QUICKSTART, *RATES, *TARGET, "--validate-only")
    assert (answer.code, answer.out) == (0, f"{QUICKSTART}: no findings, 9 runs\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [[], ["--validate-only"], ["--dry-run", "--out", "swept"], ["--json"]])
def test_a_finding_is_told_once_and_one_of_some_settings_names_them(
    options: list[str], grpo_run: Callable, tmp_path: Path
) -> None:
    varied = ("--vary", "grpo.beta=0,much", "--vary", "training.learning_rate=1e-3,2e-3")
    wrong = ("--set", "training.maxx_steps=3")
    target = TARGET if options and options != ["--json"] else ()
    answer = grpo_run("sweep", QUICKSTART, *varied, *wrong, *target, *options)
    assert answer.code == 2
    assert list(tmp_path.iterdir()) == []
    if options == ["--json"]:
        findings = json.loads(answer.out)["findings"]
        assert [finding["key"] for finding in findings] == ["training.maxx_steps", "grpo.beta"]
        return
    told = answer.out if options == ["--validate-only"] else answer.err
    assert "\n--set:1:1: error: " in "\n" + told
    assert "\n--vary:1:1: error: " in "\n" + told
    assert told.count("maxx_steps [") == 1
    assert told.count("grpo.beta is 'much'") == 1
    note = "with grpo.beta=much learning_rate=1e-3; grpo.beta=much learning_rate=2e-3, 2 of 4 settings"
    assert f"= note: {note}" in told
    assert told.count("= note: with") == 1
    assert "2 errors, nothing was started" in told


@pytest.mark.parametrize(
    ("key", "right"), [("learning_rate", "training.learning_rate"), ("training.learning_rat", "learning_rate")]
)
def test_a_key_in_the_wrong_place_or_misspelled_is_told_as_it_is(key: str, right: str, grpo_run: Callable) -> None:
    answer = grpo_run("sweep", QUICKSTART, "--vary", f"{key}=1e-3,2e-3", *TARGET, "--validate-only")
    assert answer.code == 2
    assert f"= fix: write it as {right}\n" in answer.out
    assert "keep one of the two" not in answer.out


def test_a_warning_of_one_setting_is_talk_and_the_sweep_is_planned(grpo_run: Callable) -> None:
    loss = ("--vary", "grpo.loss_type=grpo,dapo", "--vary", "training.learning_rate=1e-3,0.5")
    answer = grpo_run("sweep", QUICKSTART, *loss, *TARGET, "--seeds", "5,7", "--dry-run", "--json")
    assert answer.code == 0, answer.err
    folder = json.loads(answer.out)["folder"]
    assert Path(folder).parent.name == "runs"
    assert Path(folder).name.startswith("quickstart-sweep-")
    sweep = read_sweep(folder)
    assert sweep.seeds == (5, 7)
    seeds = [plan_in(Path(folder) / run.name).arguments.GRPOConfig["seed"] for run in sweep.runs]
    assert seeds == [5] * 4 + [7] * 4


def test_seeds_alone_are_a_sweep_of_the_recipe_as_it_stands(grpo_run: Callable) -> None:
    answer = grpo_run("sweep", QUICKSTART, *TARGET, "--seeds", "2", "--dry-run", "--out", "swept")
    assert answer.code == 0, answer.err
    assert [run.name for run in read_sweep("swept").runs] == ["seed-42", "seed-43"]
    assert read_sweep("swept").base == 0


def test_what_is_drawn_is_planned(grpo_run: Callable) -> None:
    words = ("--vary", "training.learning_rate=log:1e-4..1e-2", "--trials", "3", "--draw", "4", "--seeds", "1")
    for place in ("one", "two"):
        answer = grpo_run("sweep", QUICKSTART, *words, *TARGET, "--dry-run", "--out", place)
        assert answer.code == 0, answer.err
    assert read_sweep("one") == read_sweep("two")
    for run in read_sweep("one").runs:
        text = dict(read_sweep("one").settings[run.setting])["training.learning_rate"]
        assert plan_in(Path("one", run.name)).arguments.GRPOConfig["learning_rate"] == float(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([QUICKSTART, "--vary", "seed=1,2"], "--seeds 1,2,3"),
        ([QUICKSTART, "--vary", "grpo.beta=0"], "there is only one value"),
        ([QUICKSTART, "--table"], "--table needs a sweep folder"),
        ([QUICKSTART, *RATES, *TARGET], "a sweep needs this machine's stack"),
        ([QUICKSTART, "--seeds", "0"], "--seeds 0 cannot be read"),
        ([QUICKSTART, *RATES, "--seeds", "400"], "1,200 runs exceed a sweep's limit of 1,000"),
        ([QUICKSTART, "--trials", "3"], "nothing is varied"),
        (["."], "is not a sweep"),
        ([".", "--table"], "is not a sweep of this release"),
        ([".", "--dry-run"], "continues as planned"),
        (["nothing.yaml"], "nothing.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_refused_and_write_nothing(
    words: list[str], said: str, grpo_run: Callable, tmp_path: Path
) -> None:
    answer = grpo_run("sweep", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (9, 10, 11)), ("1,2,3", (1, 2, 3)), ("7,", (7,)), (" 5, 0 ", (5, 0))]
)
def test_seeds_are_a_number_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(text, 9) == seeds


@pytest.mark.parametrize("text", ["", ",", "-1", "1,1", "-1,2", "many", "1.5"])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        seeds_of(text, 9)


def test_a_folder_that_is_taken_is_left_alone(grpo_run: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("")
    answer = grpo_run("sweep", QUICKSTART, *RATES, *TARGET, "--dry-run", "--out", "mine")
    assert answer.code == 2
    assert "the sweep folder already exists" in answer.err
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes"]


def test_code_is_asked_for_before_anything_is_written(grpo_run: Callable, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def own(completions, **kwargs):\n    return [0.0 for _ in completions]\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"extends: {QUICKSTART}\nrewards:\n  - {{python: own.py:own}}\nevaluation: null\n")
    answer = grpo_run("sweep", str(recipe), *RATES, "--out", "swept")
    assert answer.code == 2
    assert answer.err.count("--allow-code ") == 1
    assert not (tmp_path / "swept").exists()


def test_machines_that_a_person_starts_cannot_be_swept(grpo_run: Callable, tmp_path: Path) -> None:
    nodes = ("--set", "launch.num_nodes=2", "--set", "launch.gpus_per_node=0")
    refused = grpo_run("sweep", QUICKSTART, "--seeds", "2", *nodes, "--out", "swept")
    assert refused.code == 2
    assert "a sweep has to start its runs itself" in refused.err
    assert "a person starts each run with its own commands" in refused.err
    assert list(tmp_path.iterdir()) == []
    planned = grpo_run("sweep", QUICKSTART, "--seeds", "2", *nodes, *TARGET, "--dry-run", "--out", "swept")
    assert planned.code == 0, planned.err
    answer = grpo_run("sweep", "swept")
    assert answer.code == 2
    assert "a sweep has to start its runs itself" in answer.err


@pytest.mark.parametrize(
    "change",
    [
        {"sweep": 2},
        {"runs": []},
        {"runs": [{"name": "../elsewhere", "setting": 0, "seed": 1}]},
        {"runs": [{"name": "a", "setting": 5, "seed": 1}]},
        {"runs": [{"name": "a", "setting": 0, "seed": 1}] * 2},
        {"base": 9},
        {"settings": "none"},
        {"seeds": None},
        "[" * 100_000,
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_sweep_file_of_a_stranger_is_refused(change: dict[str, object] | str, grpo_run: Callable) -> None:
    good = {"sweep": 1, "recipe": "r.yaml", "settings": [{}], "seeds": [1], "base": None, "same": []}
    content = {**good, "runs": [{"name": "a", "setting": 0, "seed": 1}]}
    Path("given").mkdir()
    Path("given", "sweep.json").write_text(json.dumps(content))
    assert grpo_run("sweep", "given", "--table").code == 0
    Path("given", "sweep.json").write_text(change if isinstance(change, str) else json.dumps({**content, **change}))
    for words in (["sweep", "given", "--table"], ["sweep", "given"], ["given"]):
        answer = grpo_run(*words)
        assert (answer.code, answer.out) == (2, "")
        assert "given is not a sweep of this release" in answer.err
