"""The quickstart's model as the stack loads it: what it gets right before training, and how it is made."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack

QUICKSTART = Path(__file__).resolve().parents[2] / "recipes" / "quickstart"

GREEDY_ANSWERS = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
torch.set_num_threads(1)
folder, rows_file = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
questions = [json.loads(line)["question"] for line in open(rows_file)]
messages = [[{"role": "user", "content": question}] for question in questions]
prompts = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
)
generated = model.generate(**prompts, max_new_tokens=6, do_sample=False)[:, prompts["input_ids"].shape[1]:]
print(json.dumps({
    "prompt_length": prompts["input_ids"].shape[1],
    "padding_side": tokenizer.padding_side,
    "tokens": [tokenizer.eos_token, tokenizer.pad_token],
    "parameters": sum(parameter.numel() for parameter in model.parameters()),
    "answers": tokenizer.batch_decode(generated, skip_special_tokens=True),
}))
"""


def run_offline(python: Path, *words: str) -> str:
    """The stdout of a python process on one thread that cannot reach the hub."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([str(python / "python"), "-Xwarm", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded(warm_python: Path) -> dict[str, object]:
    """What the libraries say of the shipped model, with its most likely answers to the held-out sums."""
    words = ("-c", GREEDY_ANSWERS, str(QUICKSTART / "model"), str(QUICKSTART / "test.jsonl"))
    value = json.loads(run_offline(warm_python, *words).splitlines()[-1])
    assert isinstance(value, dict)
    return value


def share_right(answers: list[str], *, with_units_carry: bool) -> float:
    """The share of right answers among the held-out sums with, or without, a units carry."""
    rows = [json.loads(line) for line in (QUICKSTART / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    right: list[bool] = [
        answer == row["answer"]
        for answer, row in zip(answers, rows, strict=True)
        if (int(row["question"][1]) + int(row["question"][4]) >= 10) == with_units_carry
    ]
    return sum(right) / len(right)


def test_auto_classes_load_the_shipped_folder(loaded: dict[str, object]) -> None:
    assert loaded["prompt_length"] == 14
    assert loaded["padding_side"] == "left"
    assert loaded["tokens"] == ["<|im_end|>", "<|endoftext|>"]
    assert loaded["parameters"] == 401_792


@pytest.mark.parametrize(
    ("with_units_carry", "low", "high"),
    [pytest.param(False, 0.98, 1.0, id="no-carry"), pytest.param(True, 0.0, 0.06, id="units-carry")],
)
def test_the_most_likely_answer_is_wrong_only_where_there_is_a_carry(
    loaded: dict[str, object], with_units_carry: bool, low: float, high: float
) -> None:
    answers = loaded["answers"]
    assert isinstance(answers, list)
    assert low <= share_right(answers, with_units_carry=with_units_carry) <= high


def test_the_script_writes_the_same_bytes_each_time_and_the_shipped_data(tmp_path: Path, warm_python: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        run_offline(warm_python, str(QUICKSTART / "make_model.py"), "--steps", "1", "--out", str(folder))
    names = sorted(str(file.relative_to(folders[0])) for file in folders[0].rglob("*") if file.is_file())
    assert len(names) == 7
    for name in names:
        content = (folders[0] / name).read_bytes()
        assert content == (folders[1] / name).read_bytes(), name
        if name != "model/model.safetensors":
            assert content == (QUICKSTART / name).read_bytes(), name
