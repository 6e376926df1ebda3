"""A model that sees answers a prompt with an image as the row that has them, by each command, and after an export."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from export_runs import RECIPES, command

pytestmark = pytest.mark.stack
COUNT = 6
QUESTION = "colour and count?"


@pytest.fixture(scope="module")
def run(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose held-out rows name files, 0.png to 5.png beside its folder."""
    folder = tmp_path_factory.mktemp("seeing")
    rows = pyarrow.parquet.read_table(RECIPES / "colours" / "test.parquet").to_pylist()[:COUNT]
    for place, row in enumerate(rows):
        (folder / f"{place}.png").write_bytes(row["image"])
        row["image"] = f"{place}.png"
        assert row["question"] == QUESTION
    (folder / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"training.max_steps": 1, "training.save_steps": 0, "lora.r": 4, "evaluation.path": folder / "held.jsonl"}
    words = [f"--set={key}={value}" for key, value in changes.items()]
    done = command(warm_python, RECIPES / "colours.yaml", "--out", folder / "run", *words)
    assert done.code == 0, done.out + done.err
    return folder / "run"


@pytest.fixture(scope="module")
def expected(warm_python: Path, run: Path) -> list[str]:
    """What it answers to its rows, with the most likely tokens: not the same to all."""
    rows = command(warm_python, "generate", run, "--rows", COUNT, "--greedy", "--json").json()["rows"]
    found = [row["trained"]["text"] for row in rows]
    assert len(set(found)) > 2
    return found


def _picture(run: Path, place: int) -> Path:
    return run.parent / f"{place}.png"


def test_generate_answers_a_prompt_with_an_image_as_its_row(warm_python: Path, run: Path, expected: list[str]) -> None:
    for place in (0, COUNT - 1):
        told = command(
            warm_python, "generate", run, QUESTION, "--image", _picture(run, place), "--greedy", "--json"
        ).json()
        assert (told["rows"][0]["trained"]["text"], told["without"]) == (expected[place], [])
        assert told["rows"][0]["prompt"] == QUESTION
    blind = command(warm_python, "generate", run, QUESTION, "--greedy", "--json").json()
    assert blind["without"] == ["the images of a row"]


def test_chat_shows_the_next_message_with_an_image(warm_python: Path, run: Path, expected: list[str]) -> None:
    each = [f"/image {_picture(run, place)}\n{QUESTION}\n/reset\n" for place in range(COUNT)]
    more = f"/image {_picture(run, 0)}\n{QUESTION}\n/image {_picture(run, 1)}\n{QUESTION}\n/image gone.png\n"
    done = command(warm_python, "chat", run, "--greedy", "--json", typed="".join(each) + more)
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [one["text"] for one in told[: COUNT + 1]] == [*expected, expected[0]], done.err
    assert told[-1]["prompt_tokens"] > 1.9 * told[0]["prompt_tokens"], "the conversation has both images"
    assert done.code == 1 and "error: the image gone.png cannot be read" in done.err
    assert "= because: No such file or directory" in done.err


@pytest.mark.parametrize("kind", ["--merge", "--adapter"])
def test_an_exported_model_sees_as_the_run_does(
    kind: str, warm_python: Path, run: Path, expected: list[str], tmp_path: Path
) -> None:
    from peft import PeftModel
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    done = command(warm_python, "export", run, kind, "-o", tmp_path / "out")
    assert done.code == 0, done.out + done.err
    processor = AutoProcessor.from_pretrained(tmp_path / "out")
    if kind == "--merge":
        model = AutoModelForImageTextToText.from_pretrained(tmp_path / "out")
    else:
        base = AutoModelForImageTextToText.from_pretrained(RECIPES / "colours" / "model")
        model = PeftModel.from_pretrained(base, tmp_path / "out")
    for place in range(COUNT):
        parts = [{"type": "image", "image": Image.open(_picture(run, place))}, {"type": "text", "text": QUESTION}]
        given = processor.apply_chat_template(
            [{"role": "user", "content": parts}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        new = model.generate(**given, do_sample=False, max_new_tokens=6)[0, given["input_ids"].shape[1] :]
        assert processor.tokenizer.decode(new) == expected[place]


def test_a_model_of_text_is_shown_no_image(warm_python: Path, run: Path, run_of: Callable[[str], Path]) -> None:
    text = run_of("lora")
    done = command(warm_python, "generate", text, "1+1=", "--image", _picture(run, 0))
    assert (done.code, done.out) == (3, "")
    assert "error: this prompt cannot be given to the model" in done.err
    assert "the recipe has no dataset.images: the model was trained on text only" in done.err
    done = command(warm_python, "chat", text, "--greedy", typed=f"/image {_picture(run, 0)}\n1+1=\n1+1=\n")
    assert done.code == 1 and len(done.out.splitlines()) == 1
    assert "error: the recipe has no dataset.images" in done.err
    done = command(warm_python, "generate", run, "--rows", 1, "--image", _picture(run, 0))
    assert done.code == 2 and "--image needs a prompt" in done.err
