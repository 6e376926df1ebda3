"""Small data files in the formats of public data sets, as a stranger would bring them."""

import csv
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROWS = 60
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")
CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cairo", "Quito", "Delhi", "Seoul", "Paris", "Accra")
COLOURS = Path(__file__).parents[2] / "recipes" / "colours" / "train.parquet"
ADVICE = (
    "Drink a glass of water, then write down the three things that matter most, and begin with the smallest of them.",
    "Ask a friend to listen for ten minutes; to explain a plan shows its weak parts before they cost money or time.",
)


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One object on each line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], separator: str = ",", encoding: str = "utf-8") -> Path:
    """A header and a line for each row."""
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


def sums(count: int = ROWS) -> list[dict[str, Any]]:
    """Questions with a number as the answer."""
    chance = random.Random(7)
    pairs = [(chance.randint(10, 99), chance.randint(10, 99)) for _ in range(count)]
    return [{"question": f"What is {a} + {b}?", "answer": a + b} for a, b in pairs]


def messages(folder: Path) -> Path:
    """Messages with a system message in two of three rows, and the answer as the last."""
    rows = []
    for index, row in enumerate(sums()):
        system = [{"role": "system", "content": "You calculate."}] if index % 3 else []
        turns = [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": f"{row['answer']}"}]
        rows.append({"messages": [*system, *turns], "source": "made"})
    return write_jsonl(folder / "messages.jsonl", rows)


def share_gpt(folder: Path) -> Path:
    """ShareGPT: `from` and `value`, free texts, in one JSON array; some have an earlier question."""
    rows = []
    for index in range(ROWS):
        ask = {"from": "human", "value": f"How does {NAMES[index % 6]} plan day {index}?"}
        say = {"from": "gpt", "value": f"Day {index}: {ADVICE[index % 2]}"}
        earlier = [{"from": "human", "value": "Hello!"}, {"from": "gpt", "value": "Hello."}] if index % 10 == 0 else []
        rows.append({"id": f"chat_{index}", "conversations": [*earlier, ask, say]})
    path = folder / "share_gpt.json"
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def alpaca(folder: Path) -> Path:
    """instruction, an input that is empty in half of the rows, and a short output."""
    rows = [
        {
            "instruction": f"In which city does {NAMES[index % 6]} live in year {index}?",
            "input": f"{NAMES[index % 6]} moved to {CITIES[index % 10]}: {{a note}}" if index % 2 else "",
            "output": CITIES[index % 10],
        }
        for index in range(36)
    ]
    return write_jsonl(folder / "alpaca.jsonl", rows)


def questions(folder: Path) -> Path:
    """question and answer in a .csv file, with commas and colons in the values."""
    rows = [
        {
            "id": index,
            "question": f'Note {index}: {NAMES[index % 6]}, of {CITIES[index % 10]}, says "{{yes}}". Who speaks?',
            "answer": f"{NAMES[index % 6]}{' the elder' * (index % 3)} of {CITIES[index % 10]}",
        }
        for index in range(ROWS)
    ]
    return write_csv(folder / "questions.csv", rows)


def gsm8k(folder: Path) -> Path:
    """A worked solution with the result after ####."""
    rows = [{**row, "answer": f"First add them up.\nThat is all.\n#### {row['answer']}"} for row in sums()]
    return write_jsonl(folder / "gsm8k.jsonl", rows)


def choice(folder: Path) -> Path:
    """A list of choices, and the index of the right one."""
    rows = []
    for index in range(ROWS):
        choices = [CITIES[(index + step) % 10] for step in range(4)]
        question = f"Where is house {index} of {NAMES[index % 6]}?"
        rows.append({"question": question, "subject": "geography", "choices": choices, "answer": index % 4})
    return write_jsonl(folder / "choice.jsonl", rows)


def code(folder: Path) -> Path:
    """A task, a solution, and tests as statements."""
    rows = [
        {
            "task_id": index,
            "text": f"Write a function add_{index} that adds {index} to a number.",
            "code": f"def add_{index}(number):\n    return number + {index}",
            "test_list": [f"assert add_{index}(1) == {index + 1}", f"assert add_{index}(0) == {index}"],
        }
        for index in range(ROWS)
    ]
    return write_jsonl(folder / "code.jsonl", rows)


def images(folder: Path) -> Path:
    """A column with images, in a .parquet file."""
    path = folder / "images.parquet"
    path.write_bytes(COLOURS.read_bytes())
    return path


def system(folder: Path) -> Path:
    """A system prompt in a column of its own, different in each row, and missing in some."""
    rows = [
        {**row, "system_prompt": f"You are {NAMES[index % 6]}." if index % 5 else ""}
        for index, row in enumerate(sums())
    ]
    return write_csv(folder / "system.csv", rows)


def lists(folder: Path) -> Path:
    """A context, and a list of accepted answers in an object."""
    rows = [
        {
            "context": f"{NAMES[index % 6]} lives in {CITIES[index % 10]} since {1900 + index}.",
            "question": f"Since when does {NAMES[index % 6]} live in {CITIES[index % 10]}?",
            "answers": {"text": [f"since {1900 + index}", f"{1900 + index}"], "answer_start": [3]},
        }
        for index in range(ROWS)
    ]
    return write_jsonl(folder / "lists.jsonl", rows)


FORMATS: tuple[Callable[[Path], Path], ...] = (
    messages,
    share_gpt,
    alpaca,
    questions,
    gsm8k,
    choice,
    code,
    images,
    system,
    lists,
)
