"""What goes wrong with images in TRL, silently or at the first batch: `grpo-run preflight` names each before a start.

Each trap is written as a user would write it: a recipe, the files of the model, and the rows. ELSEWHERE lists traps
that have a test of their own.
"""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from preflight_runs import ROOT, Answer
from support.seeing_models import PLACEHOLDERS, QUESTION, png, square, write_seeing_model, write_squares

pytestmark = pytest.mark.stack
Rows = list[dict[str, Any]]
FAMILIES = ("idefics3", "llava_next", "gemma3", "paligemma")
COUNT, LOOKED_AT, LAST = 24, 2, 23
CONCATENATED = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}{% endfor %}"
PRINTED = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}{% endfor %}"
OWN_PROMPT = {"dataset": {"prompt": None}}
TEXT_ALONE = {"dataset": {"prompt": None, "images": None}}
PART = {"type": "text", "text": QUESTION}
LINK = {"type": "image_url", "image_url": {"url": "a.png"}}
ELSEWHERE = {
    "LoRA reaches the vision tower": "tests/rules/cases/adapter_has_modules_left.yaml: says",
    "trl 0.20 to 0.23 read one column `image`": "tests/rules/cases/images_reach_everything.yaml: a release that reads",
    "a text and a list of addresses": "tests/worker/test_broken_images.py: is a URL, and grpo-run downloads no images",
    "columns that datasets has not decoded": "tests/worker/test_rows_with_images.py: as_images",
    "plain text by the recipe": "tests/rules/cases/images_reach_everything.yaml: a plain text",
    "the policy samples the token of an image": "tests/stacks/test_image_tokens.py: of images",
    "PaliGemma, whose loss is not that of its policy": "tests/rules/cases/images_reach_everything.yaml: PaliGemma",
}


@dataclass(frozen=True, slots=True)
class Trap:
    """rows: changes those of squares.jsonl. recipe: sections beside those of the recipe, which replace them.

    template: with the placeholder of the family as {}. model: changes its folder. found: rule and words of the one
    error, None where it is no trap for grpo-run.
    """

    found: tuple[str, ...] | None
    rows: Callable[[Rows], object] = lambda rows: None
    recipe: dict[str, Any] = field(default_factory=dict)
    template: str | None = None
    model: Callable[[Path], object] = lambda folder: None
    family: str = "idefics3"


def of_prompt(content: object, place: int = 0, role: str = "user") -> Callable[[Rows], None]:
    """All rows get messages of their own, and one of them this."""

    def change(rows: Rows) -> None:
        for row in rows:
            row["prompt"] = [{"role": "user", "content": QUESTION}]
        rows[place]["prompt"] = [{"role": role, "content": content}, *([] if role == "user" else rows[0]["prompt"])]

    return change


def every(**values: object) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        for row in rows:
            row.update(values)

    return change


def link_in_the_last(rows: Rows) -> None:
    for place, row in enumerate(rows):
        row["prompt"] = [{"role": "user", "content": [LINK, PART] if place == LAST else [PART]}]


def one(place: int, **values: object) -> Callable[[Rows], None]:
    return lambda rows: rows[place].update(values)


def as_lists(rows: Rows) -> None:
    for row in rows:
        row["picture"] = [row["picture"]]


def null_in_the_last(rows: Rows) -> None:
    as_lists(rows)
    rows[LAST]["picture"] = [None]


def config_without_token(folder: Path) -> None:
    """As those of BLIP-2, Chameleon and 19 more families are where nobody writes the token."""
    config = {"architectures": ["Blip2ForConditionalGeneration"], "model_type": "blip-2", "vision_config": {}}
    (folder / "config.json").write_text(json.dumps(config))


def without_processor(folder: Path) -> None:
    (folder / "processor_config.json").unlink()


def two_in_the_last(rows: Rows) -> None:
    for row in rows:
        row["picture"] = [row["picture"]]
    rows[LAST]["picture"] *= 2


TRAPS: dict[str, Trap] = {
    # Silent in TRL.
    "image_url parts, in all rows": Trap(
        ("DAT005", "the rows have images in messages"),
        of_prompt([LINK, PART]),
        TEXT_ALONE,
    ),
    "image_url parts, in a later row": Trap(("PFL003", "row 24: a message has an image"), link_in_the_last, TEXT_ALONE),
    "every row without an image, in a column that nobody names": Trap(
        ("DAT005", "the rows have images in a column images, which dataset.images does not name"),
        every(images=[]),
        {"dataset": {"images": None}},
    ),
    "every row without an image": Trap(("PFL001", "no row has an image"), every(picture=[])),
    "a row without an image for PaliGemma": Trap(
        ("PFL001", "row 24 has no image", "nothing has shown that paligemma trains them"),
        one(LAST, picture=None),
        family="paligemma",
    ),
    "a null in the list of a row": Trap(("PFL001", "an image of row 24 cannot be used", "null"), null_in_the_last),
    "a missing file": Trap(("PFL001", "an image of row 24", "No such file"), one(LAST, picture="images/gone.png")),
    "a path that is relative to the data": Trap(None),
    "an address": Trap(("PFL001", "row 24", "downloads no images"), one(LAST, picture="http://127.0.0.1:9/a.png")),
    # Loud in TRL, at the first batch that has it.
    "a later row without an image": Trap(None, one(LAST, picture=None)),
    "the token of an image in the text of a row without one": Trap(
        ("PFL001", "the prompt of row 24 contains <image>"),
        one(LAST, picture=None, question="what is in <image> ?"),
    ),
    "a prompt that is a plain text": Trap(("PFL001", "row 1", "it is plain text"), every(prompt=QUESTION), OWN_PROMPT),
    "a tokenizer instead of a processor": Trap(
        ("PFL010", "the processor of", "cannot be loaded", "copy processor_config.json"), model=without_processor
    ),
    "a configuration without image_token_id": Trap(
        ("PFL010", "has no image_token_id", "config.json"), model=config_without_token
    ),
    # A template fails the same way for all families; what a processor says of a text without placeholders is its own.
    "a template that concatenates texts": Trap(("PFL011", "can only concatenate str"), template=CONCATENATED),
    "a template that prints lists": Trap(("PFL011", "row 1"), template=PRINTED, family="llava_next"),
    **{
        f"a template that has no place for images, {family}": Trap(("PFL011", "row 1"), family=family)
        for family in FAMILIES
        if family != "paligemma"  # its processor puts the images before a text without placeholders
    },
    "the token of an image in a text, in a row that is not looked at": Trap(
        ("PFL001", "the prompt of row 24 contains <image>"), one(LAST, question="what is in <image> ?")
    ),
    "what Gemma 3 looks for in a text": Trap(
        ("PFL001", "the prompt of row 24 contains <boi>"),
        one(LAST, question="what is in <boi> ?"),
        family="gemma3",
    ),
    "a part whose image is null": Trap(
        ("DAT005", "the rows have images in messages"),
        of_prompt([{"type": "image", "image": None}, PART]),
        OWN_PROMPT,
    ),
    "parts that are texts": Trap(("PFL001", "row 1", "a list of parts"), of_prompt([PART]), OWN_PROMPT),
    "a list where there is one image": Trap(None, as_lists),
    "the role developer": Trap(("PFL001", "row 24", "developer"), of_prompt("short", LAST, "developer"), OWN_PROMPT),
    "continuous batching": Trap(
        ("DAT005", "cannot be combined with continuous batching"),
        recipe={"trl": {"use_transformers_continuous_batching": True}},
    ),
    "uneven counts of images with PaliGemma": Trap(
        ("PFL011", "row 1 beside row 24", "inhomogeneous"),
        two_in_the_last,
        family="paligemma",
    ),
    "uneven counts of images": Trap(None, two_in_the_last),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: write_seeing_model(tmp_path_factory.mktemp("seeing") / family, family) for family in FAMILIES}


def recipe_of(trap: Trap, family: str) -> dict[str, Any]:
    data = {"path": "./data/squares.jsonl", "images": "picture", "prompt": "{{ question }}"}
    return {
        "recipe": 1,
        "name": "squares",
        "model": {"model_name_or_path": f"./{family}", "dtype": "float32"},
        "rewards": [{"name": "exact_match"}],
        "training": {"prompts_per_step": 2, "max_steps": 2, "gradient_checkpointing": False},
        "grpo": {"num_generations": 4},
        "generation": {"max_completion_length": 8, "use_vllm": False},
        **trap.recipe,
        "dataset": {**data, "columns": {"solution": "{{ answer }}"}, **trap.recipe.get("dataset", {})},
    }


ALIKE = [
    *(f"a template that has no place for images, {family}" for family in ("gemma3", "llava_next")),
    "a path that is relative to the data",  # as those of all others are
    "a list where there is one image",  # as in the rows with uneven counts
]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in ALIKE)) for name in TRAPS])
def test_a_trap_is_named_before_the_start(
    name: str, models: dict[str, Path], preflight: Callable[..., Answer], tmp_path: Path
) -> None:
    trap = TRAPS[name]
    folder = tmp_path / trap.family
    shutil.copytree(models[trap.family], folder)
    trap.model(folder)
    template = folder / "chat_template.jinja"
    if "no place for images" in name:
        template.write_text(template.read_text().replace(PLACEHOLDERS[trap.family], ""))
    elif trap.template is not None:
        template.write_text(trap.template)
    file = write_squares(tmp_path / "data", COUNT)
    rows: Rows = [json.loads(line) for line in file.read_text().splitlines()]
    trap.rows(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe_of(trap, trap.family)))

    accepted = ("--accept", "DAT005") if trap.family == "paligemma" else ()
    answer = preflight("recipe.yaml", "--json", "--rows", str(LOOKED_AT), *accepted)

    found = [one for one in json.loads(answer.out)["findings"] if one["severity"] == "error"]
    if trap.found is None:
        assert (found, answer.code) == ([], 0)
        return
    rule, *words = trap.found
    assert answer.code == 2 and [one["rule"] for one in found] == [rule], found
    said = " ".join([found[0]["message"], *found[0]["because"], found[0]["fix"] or ""])
    assert all(word in said for word in words), said


def test_the_row_with_the_largest_image_is_counted(
    models: dict[str, Path], preflight: Callable[..., Answer], tmp_path: Path
) -> None:
    shutil.copytree(models["llava_next"], tmp_path / "llava_next")
    write_squares(tmp_path / "data", COUNT)
    largest = tmp_path / "data" / "images" / f"{LAST}-0.png"
    largest.write_bytes(png(square("red", random.Random(1)).resize((112, 56))))
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe_of(Trap(None), "llava_next")))

    answer = preflight("recipe.yaml", "--rows", str(LOOKED_AT))

    assert "65 to 81 tokens, median 65, of 3 prompts" in answer.out, answer.out


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_other_traps_have_their_test(name: str) -> None:
    file, _, words = ELSEWHERE[name].partition(": ")
    assert words in (ROOT / file).read_text()
