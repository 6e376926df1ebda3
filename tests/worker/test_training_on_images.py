"""Images reach generation, loss, evaluation and rewards: as in a hand-written TRL script, or the run is refused."""

import base64
import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest
import worker_runs
from resumed_runs import killed_after, trained_lines, weights
from support.seeing_models import NEEDS_TORCHVISION, PLACEHOLDERS, write_seeing_model, write_squares
from test_several_processes import DDP_YAML as DDP
from test_several_processes import for_two
from worker_runs import (
    LORA,
    Changes,
    Trained,
    environment,
    events,
    grpo_arguments,
    plan_of,
    planned_data,
    planned_reward,
    record,
)

from grpo_recipes.cli.main import main
from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.contract.run_verdict import verdicts

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]
# What differs by family is the same for both kinds of weights, and idefics3 has both.
OF_FAMILY = {"llava_next": ["lora"], "gemma3": ["full"]}
# Both kinds of weights and two families whose images are cut differently: a tensor for each row, and tiles by size.
ON_TWO_PROCESSES = [
    ("idefics3", "lora"),
    ("llava_next", "full"),
    *((family, mode) for family in ("qwen2_vl", "qwen2_5_vl") for mode in ("full", "lora")),
]


def cases(pairs: list[tuple[str, str]], quick: list[tuple[str, str]]) -> list[Any]:
    """Families with kinds of weights, of which only the quick ones run always."""
    lacks = find_spec("torchvision") is None
    skipped = pytest.mark.skipif(lacks, reason="its processor needs torchvision")
    return [
        pytest.param(
            *pair,
            marks=([skipped] if pair[0] in NEEDS_TORCHVISION else []) + ([] if pair in quick else [pytest.mark.long]),
        )
        for pair in pairs
    ]


STEPS = 4
EVEN = """
def even(completions, images, prompts, **kwargs):
    for of_row, prompt in zip(images, prompts, strict=True):
        assert of_row and all(image.mode == "RGB" for image in of_row), of_row
        shown = [part["image"] for part in prompt[-1]["content"] if part["type"] == "image"]
        assert len(shown) == len(of_row), prompt
    texts = [completion[0]["content"] for completion in completions]
    return [sum(ord(letter) % 2 for letter in text) / max(len(text), 1) for text in texts]
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model of a family."""
    return functools.cache(lambda name: write_seeing_model(tmp_path_factory.mktemp("seeing") / name, name))


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with an image each."""
    return write_squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture
def seeing_plan(sha256_of_text: Callable[[str], str]) -> Callable[..., Changes]:
    """A plan of rows with images, whose reward asks for them."""

    def make(model: Path, rows: Path, mode: str = "full", *, data: Changes | None = None, **sections: Any) -> Changes:
        own = {"columns": {"solution": "{{ answer }}"}, "images": ["picture"], **(data or {})}
        reward = planned_reward("mine.py:even", kind="python", name="even", sha256=sha256_of_text(EVEN))
        return plan_of(model, rows, mode, **{"data": planned_data(rows, **own), "rewards": [reward], **sections})

    return make


def by_hand(model: Path, rows: Path, folder: Path, mode: str, *, pair: bool = False) -> Any:
    """Loss, gradient norm and reward of each step of a hand-written script."""
    grpo = grpo_arguments(**({"per_device_train_batch_size": 8} if pair else {}), max_steps=STEPS)
    runs = [{"grpo": grpo, "lora": LORA if mode == "lora" else None}]
    settings = {"rows": str(rows), "cache": str(folder), "model": str(model), "runs": runs, "dtype": "dtype"}
    settings["several"] = isinstance(json.loads(rows.read_text().splitlines()[0])["picture"], list)
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "accelerate.yaml").write_text(DDP)
    started = ["-m", "accelerate.commands.launch", "--config_file", str(folder / "accelerate.yaml")] if pair else []
    done = subprocess.run(
        [worker_runs.PYTHON, *started, str(Path(__file__).with_name("hand_written_with_images.py")), "settings.json"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "LOSSES" in line)
    return json.loads(line.removeprefix("LOSSES"))


def commands(folder: Path, *words: str, code: int = 0) -> str:
    """What grpo-run, which is called in this process, says in a folder, which may have packages/."""
    with (
        pytest.MonkeyPatch.context() as changed,
        tempfile.TemporaryFile("w+", buffering=1) as said,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        changed.setenv("PYTHONPATH", f"{folder / 'packages'}:{os.environ.get('PYTHONPATH', '')}")
        for name, value in environment(XDG_CONFIG_HOME=str(folder / "config")).items():
            changed.setenv(name, value)
        changed.syspath_prepend(folder / "packages")
        changed.setattr(sys, "executable", worker_runs.PYTHON)
        changed.chdir(folder)
        with streams_in(said), pytest.raises(SystemExit) as ended:
            main([*words])
        said.seek(0)
        text = said.read()
    assert (ended.value.code or 0) == code, text
    return text


@contextlib.contextmanager
def streams_in(file: IO[str]) -> Iterator[None]:
    """Sends what processes print into a file too."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        yield
    finally:
        for number, own in enumerate(kept, 1):
            os.dup2(own, number)
            os.close(own)


def figures(folder: Path) -> list[list[float]]:
    return [[step["loss"], step["grad_norm"], step["reward"]] for step in events(folder, "step")]


@pytest.mark.parametrize(
    ("family", "mode"),
    cases(
        [
            (each, mode)
            for each in PLACEHOLDERS
            if each != "paligemma"
            for mode in OF_FAMILY.get(each, ["full", "lora"])
        ],
        [("gemma3", "full")],
    ),
)
def test_losses_with_images_are_those_of_a_hand_written_script(
    family: str,
    mode: str,
    models: Callable[[str], Path],
    squares: Path,
    seeing_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    trained: Callable[..., Trained],
    tmp_path: Path,
) -> None:
    expected = by_hand(models(family), squares, tmp_path, mode)
    held = write_squares(tmp_path / "held", 5, seed=2)
    plan = seeing_plan(models(family), squares, mode, arguments={"max_steps": STEPS})
    plan["evaluation"] = held_out(every_steps=2, data={**plan["data"], "path": str(held)}, batch_size=2)
    plan["shims"] = {"less_padding": "sorted"}

    done = trained(plan, user={"mine.py": EVEN})

    assert done.exit_code == 0, done.output
    assert figures(done.folder) == expected
    assert [line["step"] for line in events(done.folder, "evaluation")] == [0, 2, 4]
    assert done.record["shims"]["less_padding"].startswith("nothing"), "the padding of images stays"
    assert done.record["verified"]["dataset.images"]


def test_a_loss_in_which_tokens_see_later_ones_stops_a_run(
    models: Callable[[str], Path], squares: Path, seeing_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    done = trained(seeing_plan(models("paligemma"), squares, "lora"), user={"mine.py": EVEN})

    assert done.exit_code == 3, "TRL no longer gives the completion PaliGemma's type of a prefix: DAT005 can let it"
    assert "generation: the proof failed in step 1 [PRF038]" in done.output


# The recipe's model sees from the start, and names the right colour of each third image.
@pytest.mark.parametrize(("steps", "least"), [(1, 0.25), pytest.param(48, 0.9, marks=pytest.mark.long)])
def test_what_is_right_with_grey_images_is_chance(steps: int, least: float, tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "recipes/colours.yaml"
    fewer = ("--set", f"training.max_steps={steps}", "--set", "evaluation.max_rows=128")
    said = commands(tmp_path, str(recipe), "--out", "run", *fewer)
    evaluation = record(tmp_path / "run")["evaluation"]
    seen, blanked = (evaluation[name]["pass_at"]["1"] for name in ("after", "blanked"))
    assert seen >= least
    assert blanked <= 0.16, "one of twelve answers, and three standard errors of 128 rows"
    assert evaluation["blanked"]["by_images"]["pass_at"]["1"] == pytest.approx(seen - blanked)
    assert "held out    grey:   reward" in said and "[VRD010]" not in said
    commands(tmp_path, "report", "run", "-o", "page.html")
    assert f"{steps}, grey images" in (tmp_path / "page.html").read_text()


def test_a_model_that_is_paid_whatever_it_says_does_not_look(
    models: Callable[[str], Path],
    squares: Path,
    seeing_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    trained: Callable[..., Trained],
    tmp_path: Path,
    sha256_of_text: Callable[[str], str],
) -> None:
    always = "def always(completions, **kwargs):\n    return [1.0] * len(completions)\n"
    held = write_squares(tmp_path / "held", 9, seed=2)
    plan = seeing_plan(models("idefics3"), squares, arguments={"max_steps": 1})
    plan["rewards"] = [planned_reward("mine.py:always", kind="python", name="always", sha256=sha256_of_text(always))]
    plan["evaluation"] = held_out(every_steps=0, data={**plan["data"], "path": str(held)})

    done = trained(plan, user={"mine.py": always})

    assert done.exit_code == 0, done.output
    blanked = done.record["evaluation"]["blanked"]
    assert (blanked["count"], blanked["reward"], blanked["by_images"]["reward"]) == (9, 1.0, 0.0)
    ended = RunRecord(status="completed", step=1, final_step=1, evaluation=done.record["evaluation"])
    (told,) = [one for one in verdicts(ended) if one.id == "VRD010"]
    assert told.text == "no sign that the model uses the images: reward 1 with them, 1 with grey ones, +0 [+0, +0]"


@pytest.mark.parametrize(
    ("fault", "ranks", "found"),
    [
        ("images_that_held_out_rows_do_not_get", 1, "no images in the evaluation"),
        ("images_of_the_next_held_out_row", 2, "2 of 2 parts of images are not those of the rows in the evaluation"),
    ],
)
def test_an_evaluation_that_loses_its_images_stops_the_run(
    fault: str,
    ranks: int,
    found: str,
    models: Callable[[str], Path],
    squares: Path,
    seeing_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    trained: Callable[..., Trained],
    tmp_path: Path,
) -> None:
    plan = seeing_plan(models("idefics3"), squares)
    if ranks == 2:
        plan = for_two(seeing_plan(models("idefics3"), squares, arguments={"per_device_train_batch_size": 8}))
    held = write_squares(tmp_path / "held", 9, seed=2)
    plan["evaluation"] = held_out(data={**plan["data"], "path": str(held)}, batch_size=2)
    plan["evaluation"]["at_start"] = at_start = fault != "images_that_held_out_rows_do_not_get"

    done = trained(plan, fault, user={"mine.py": EVEN}, ranks=ranks)

    assert done.exit_codes == [3] * ranks, done.output
    assert "images: the proof failed in an evaluation [PRF037]" in done.output
    assert found in done.output
    assert at_start == ("step 1/" not in done.output), "the first evaluation"


@pytest.mark.parametrize(("family", "mode"), cases(ON_TWO_PROCESSES, ON_TWO_PROCESSES[:1]))
def test_two_processes_train_on_images_as_a_hand_written_script_does(
    family: str,
    mode: str,
    models: Callable[[str], Path],
    squares: Path,
    seeing_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    trained: Callable[..., Trained],
    tmp_path: Path,
) -> None:
    expected = by_hand(models(family), squares, tmp_path, mode, pair=True)
    arguments = {"per_device_train_batch_size": 8, "max_steps": STEPS}
    plan = for_two(seeing_plan(models(family), squares, mode, arguments=arguments))
    held = write_squares(tmp_path / "held", 5, seed=2)
    plan["evaluation"] = held_out(every_steps=0, data={**plan["data"], "path": str(held)}, batch_size=2)

    done = trained(plan, user={"mine.py": EVEN}, ranks=2)

    assert done.exit_codes == [0, 0], done.output
    assert figures(done.folder) == expected
    assert done.record["evaluation"]["blanked"]["count"] == 5


@pytest.mark.parametrize(
    ("family", "mode"), cases([("llava_next", "full"), ("idefics3", "lora")], [("llava_next", "full")])
)
def test_a_run_with_images_that_is_killed_and_resumed_ends_as_one_that_was_not(
    family: str,
    mode: str,
    models: Callable[[str], Path],
    seeing_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    trained: Callable[..., Trained],
    tmp_path: Path,
) -> None:
    rows, held = write_squares(tmp_path / "rows"), write_squares(tmp_path / "held", 5, seed=2)
    saves = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 2}
    plan = seeing_plan(models(family), rows, mode, data={"max_pixels": 900}, arguments=saves)
    own = {**plan["data"], "path": str(held)}
    plan["evaluation"] = held_out(every_steps=2, keep_best=True, data=own, batch_size=2)
    (tmp_path / "whole").mkdir()
    whole = trained(plan, user={"mine.py": EVEN}, folder=tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    again = killed_after(whole.folder, 2, tmp_path / "again")
    late = killed_after(whole.folder, 2, tmp_path / "late")

    done = trained(plan, user={"mine.py": EVEN}, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert weights(again) == weights(whole.folder)
    assert trained_lines(again) == trained_lines(whole.folder)
    assert done.record["final_step"] == whole.record["final_step"]

    # The file of the rows is the same, and one of its images is another.
    shutil.rmtree(late / "cache")
    (tmp_path / "rows" / "images" / "7-0.png").write_bytes((tmp_path / "held" / "images" / "0-0.png").read_bytes())
    done = trained(plan, user={"mine.py": EVEN}, folder=late, resume=True)
    assert done.exit_code == 3, done.output
    assert "the images differ from those that this run began with" in done.output
    done = trained(plan, user={"mine.py": EVEN}, folder=late, resume=True)
    assert done.exit_code == 3, "also when it is tried again"


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("images_that_the_loss_does_not_get", "no images in 1 of 1 losses"),
        ("images_that_the_generation_does_not_get", "no images in the generation"),
        ("other_images_in_the_loss", "parts of images in the loss were not in the generation"),
        ("images_of_the_next_row_in_the_loss", "rows of the loss have the images of other rows"),
        ("images_among_the_trained_tokens", "image tokens are trained"),
    ],
)
def test_images_that_are_lost_stop_the_first_step(
    fault: str,
    found: str,
    models: Callable[[str], Path],
    squares: Path,
    seeing_plan: Callable[..., Changes],
    trained: Callable[..., Trained],
) -> None:
    done = trained(seeing_plan(models("idefics3"), squares), fault, user={"mine.py": EVEN})

    assert done.exit_code == 3, done.output
    assert "images: the proof failed in step 1 [PRF037]" in done.output
    assert found in done.output


def test_commands_answer_rows_with_their_images(models: Callable[[str], Path], tmp_path: Path) -> None:
    write_squares(tmp_path)
    (tmp_path / "mine.py").write_text(EVEN)
    recipe = {
        "recipe": 1,
        "name": "squares",
        "model": {"model_name_or_path": str(models("idefics3")), "dtype": "float32"},
        "lora": {"r": 2},
        "dataset": {"path": "./squares.jsonl", "images": "picture", "prompt": "{{ question }}"},
        "rewards": [{"python": "mine.py:even"}],
        "training": {"prompts_per_step": 2, "max_steps": 1, "gradient_checkpointing": False},
        "grpo": {"num_generations": 4},
        "generation": {"max_completion_length": 6},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))

    (tmp_path / "packages" / "gguf").mkdir(parents=True)  # it is looked for, and not read
    (tmp_path / "packages" / "gguf" / "__init__.py").touch()
    said = functools.partial(commands, tmp_path)

    allowed = ("--allow-code", hashlib.sha256(EVEN.encode()).hexdigest())
    looked = said("preflight", "recipe.yaml", *allowed)
    assert "36 to 36 tokens" in looked and "<image>" in looked, "the tokens of an image are counted"
    assert "are equal" not in looked
    assert "1 per row, 56 x 56 pixels" in looked
    said("recipe.yaml", *allowed)
    (run,) = (tmp_path / "runs").iterdir()
    kept = json.loads((run / "completions.jsonl").read_text().splitlines()[0])["rows"]
    assert kept and all(base64.b64decode(one["images"][0]).startswith(b"\xff\xd8") for one in kept), "JPEGs"
    said("report", str(run), "-o", "page.html")
    assert (tmp_path / "page.html").read_text().count("data:image/jpeg;base64,/9j/") >= 1
    assert "mean of 2" in said("generate", str(run), "--rows", "2")
    assert "without their images" in said("export", str(run), "-o", "exported")
    gguf = said("export", str(run), "-o", "with-gguf", "--gguf", "--converter", "mine.py", code=3)
    assert "a GGUF file of a vision model cannot be verified here, nothing was written" in gguf
    assert not (tmp_path / "with-gguf").exists()
    second = {**recipe, "name": "second", "model": {"from_run": str(run), "dtype": "float32"}}
    (tmp_path / "second.yaml").write_text(json.dumps(second))
    shown = " ".join(said("second.yaml", "--out", "second", *allowed).split())
    assert "images in generation and loss" in shown, "of a merged model"
    assert (tmp_path / "second" / "merged_model" / "processor_config.json").is_file()
    assert "answered without the images of a row" in said("generate", str(run), "what colour?")
    passes = ("--set", "evaluation.passes={reward: even, at_least: 0.9}", "--set", "evaluation.greedy=false")
    assert "24 rows" in said("profile", "recipe.yaml", "-o", "profiled.jsonl", *passes)
