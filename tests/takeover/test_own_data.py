"""`grpo-run init --data`: what it proposes for files in the formats of public data sets, and what it refuses."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import data_formats
from support.data_formats import write_csv, write_jsonl
from support.releases import pinned

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.takeover.own_data.proposal import Proposal, propose
from grpo_recipes.takeover.own_data.recipe import draft
from grpo_recipes.takeover.own_data.rows import read_rows
from grpo_recipes.yaml.load import load_text

RECIPES = Path(__file__).parents[2] / "recipes"
STACK = pinned("trl transformers peft")
BOXED = r"Reason step by step, then give the final answer in \boxed{}."
LETTER = "Answer with the letter of the right option and nothing else."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands run in an empty folder, on a machine whose GPUs no program lists."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    return tmp_path


EXPECTED = {
    "messages": ("What is 51 + 29?", "80", "accuracy"),
    "share_gpt": ("How does Ada plan day 0?", f"Day 0: {data_formats.ADVICE[0]}", "rewards.py:reward"),
    "alpaca": ("In which city does Ada live in year 0?", "Rome", "exact_match"),
    "questions": ('Note 0: Ada, of Rome, says "{yes}". Who speaks?', "Ada of Rome", "exact_match"),
    "gsm8k": ("What is 51 + 29?", "80", "accuracy"),
    "choice": ("Where is house 0 of Ada?\n\nA. Rome\nB. Oslo\nC. Lima\nD. Bern", "A", "exact_match"),
    "code": (
        "Write a function add_0 that adds 0 to a number.",
        '["assert add_0(1) == 1", "assert add_0(0) == 0"]',
        "code_tests",
    ),
    "images": ("colour and count?", "green 2", "exact_match"),
    "system": ("What is 51 + 29?", "80", "accuracy"),
    "lists": ("Ada lives in Rome since 1900.\n\nSince when does Ada live in Rome?", "since 1900", "exact_match"),
}


@pytest.mark.parametrize("write", data_formats.FORMATS, ids=lambda write: write.__name__)
def test_each_format_becomes_a_recipe_that_validates(write: Callable, grpo_run: Callable, folder: Path) -> None:
    name = write.__name__
    if name == "images":
        pytest.importorskip("pyarrow")
    model = RECIPES / ("colours" if name == "images" else "quickstart") / "model"
    answer = grpo_run("init", "--data", str(write(folder)), "--model", str(model), "--json")
    assert answer.code == 0, answer.err
    proposed = json.loads(answer.out)
    prompt, gold, reward = EXPECTED[name]
    assert (proposed["row"], proposed["file"]) == ({"prompt": prompt, "answer": gold}, f"{name}.yaml")
    assert all(guess["because"] and f"# {guess['because'][:60]}" in proposed["recipe"] for guess in proposed["guesses"])
    document, unread = load_text((folder / f"{name}.yaml").read_text(), "recipe.yaml")
    assert document is not None and not unread
    values: dict[str, Any] = document.values
    assert (values["rewards"][0].get("name") or values["rewards"][0]["python"]) == reward
    assert values["model"]["model_name_or_path"] == str(model)
    assert proposed["to_fill_in"] == (["rewards.py:reward"] if name == "share_gpt" else [])
    validated = grpo_run("validate", f"{name}.yaml", "--target", STACK, "--format", "json")
    findings = json.loads(validated.out)["findings"]
    # The quickstart's model has too few positions for code.
    assert {each["severity"] for each in findings if each["rule"] != "GEN013"} <= {"note", "not-checked"}, validated.out


def _propose(path: Path, **named: str) -> Proposal:
    return propose(read_rows(str(path)), **named)


def _of(folder: Path, rows: Sequence[dict[str, Any]]) -> Proposal:
    return _propose(write_jsonl(folder / "rows.jsonl", rows))


def _rows(count: int = 20, **columns: Callable[[int], object]) -> list[dict[str, Any]]:
    return [{name: make(index) for name, make in columns.items()} for index in range(count)]


def _asks(index: int) -> str:
    return f"What is {index} + 1?"


SHAPES: dict[str, tuple[list[dict[str, Any]], str, str, str]] = {
    "unicode column names": (
        _rows(问题=lambda i: f"{i} 加 1 是多少？", 答案=lambda i: i + 1),
        "{{ 问题 }}",
        "{{ 答案 }}",
        "accuracy",
    ),
    "names that the values contradict": (
        _rows(question=lambda i: str(i + 1), answer=_asks),
        "{{ answer }}",
        "{{ question }}",
        "accuracy",
    ),
    "nested objects": (
        _rows(
            prompt=lambda i: [{"role": "user", "content": _asks(i)}],
            reward_model=lambda i: {"style": "rule", "ground_truth": str(i + 1)},
        ),
        "{{ prompt[0].content }}",
        "{{ reward_model.ground_truth }}",
        "accuracy",
    ),
    "a box": (
        _rows(problem=_asks, solution=lambda i: f"We add. $\\boxed{{{i + 1}}}$, done."),
        "{{ problem }}",
        "{{ solution.split('boxed{')[-1].split('}')[0] | trim }}",
        "accuracy",
    ),
    "words before the result": (
        _rows(query=_asks, response=lambda i: f"We add. The answer is: **{i + 1}**."),
        "{{ query }}",
        r"{{ response.split('nswer is')[-1].strip(' :.*$\n') }}",
        "accuracy",
    ),
    "tags": (
        _rows(prompt=_asks, response=lambda i: f"<think>I add.</think>\n<answer>{i + 1}</answer>"),
        "{{ prompt }}",
        "{{ response.split('<answer>')[-1].split('</answer>')[0] | trim }}",
        "accuracy tag_format",
    ),
    "True and False": (
        _rows(question=lambda i: f"Is {i} even?", answer=lambda i: i % 2 == 0),
        "{{ question }}",
        "{{ 'yes' if answer else 'no' }}",
        "exact_match",
    ),
    "labels": (
        _rows(text=lambda i: f"Day {i} is good.", label=lambda i: ("sad", "glad")[i % 2]),
        "{{ text }}",
        "{{ label }}",
        "exact_match",
    ),
    "codes with leading zeros": (
        _rows(question=_asks, answer=lambda i: f"00{i}"),
        "{{ question }}",
        "{{ answer }}",
        "exact_match",
    ),
    "objects": (
        _rows(text=lambda i: f"Ann is {i}", answer=lambda i: {"name": "Ann", "age": i}),
        "{{ text }}",
        "{{ answer | tojson }}",
        "json_fields",
    ),
    "calls": (
        _rows(
            query=_asks,
            tools=lambda i: '[{"name": "add"}]',
            answers=lambda i: json.dumps([{"name": "add", "arguments": {"a": i}}]),
        ),
        "{{ tools }}\n\n{{ query }}",
        "{{ answers }}",
        "function_calls",
    ),
    "options in one text": (
        _rows(Problem=_asks, options=lambda i: f"a) {i}, b) {i + 1}", correct=lambda i: "ab"[i % 2]),
        "{{ Problem }}\n\n{{ options }}",
        "{{ correct }}",
        "exact_match",
    ),
    "two languages": (
        _rows(translation=lambda i: {"en": f"the cat {i}", "de": f"die Katze {i}"}),
        "{{ translation.en }}",
        "{{ translation.de }}",
        "exact_match",
    ),
    "a choice by its text": (
        _rows(
            question=_asks, options=lambda i: ["red", "blue", f"c{i}"], answer=lambda i: ["red", "blue", f"c{i}"][i % 3]
        ),
        "{{ question }}\n{% for option in options %}\n{{ 'ABC'[loop.index0] }}. {{ option }}{% endfor %}",
        "{{ 'ABC'[options.index(answer)] }}",
        "exact_match",
    ),
    "a choice with its own labels": (
        _rows(
            question=_asks,
            choices=lambda i: {"text": ["a", "b"], "label": ["A", "B"] if i % 3 else ["1", "2"]},
            answerKey=lambda i: "B" if i % 3 else "2",
        ),
        "{{ question }}\n{% for option in choices.text %}\n{{ choices.label[loop.index0] }}. {{ option }}{% endfor %}",
        "{{ answerKey }}",
        "exact_match",
    ),
    "a choice in columns": (
        _rows(question=_asks, A=lambda i: "x", B=lambda i: i, C=lambda i: "z", answer=lambda i: "ABC"[i % 3]),
        "{{ question }}\n\nA. {{ A }}\nB. {{ B }}\nC. {{ C }}",
        "{{ answer }}",
        "exact_match",
    ),
    "a function of tests": (
        _rows(
            prompt=lambda i: f"def f{i}(x):",
            test=lambda i: f"def check(candidate):\n    assert candidate(1) == {i}\n",
            entry_point=lambda i: f"f{i}",
        ),
        "{{ prompt }}",
        r"{{ [test ~ '\n\ncheck(' ~ entry_point ~ ')'] | tojson }}",
        "code_tests",
    ),
    "tests of a program": (
        _rows(question=_asks, input_output=lambda i: json.dumps({"inputs": ["1"], "outputs": [str(i)]})),
        "{{ question }}",
        "{{ input_output }}",
        "code_tests",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_gets_its_prompt_answer_and_rewards(shape: str, folder: Path) -> None:
    rows, prompt, gold, rewards = SHAPES[shape]
    proposal = _of(folder, rows)
    assert proposal.answer is not None
    template = proposal.keys["columns"][0][proposal.answer.into]
    assert (proposal.keys["prompt"][0], template) == (prompt, gold)
    assert " ".join(reward["name"] for reward in proposal.answer.rewards) == rewards
    assert proposal.complete == len(rows)


def test_rows_without_a_value_are_left_out_by_a_filter(folder: Path) -> None:
    rows = _rows(40, question=_asks, answer=lambda i: f"Add.\n#### {i + 1}" if i != 3 else "no idea")
    rows[8]["answer"] = None
    proposal = _of(folder, rows)
    condition = "answer is not none and answer | string | trim != '' and '####' in answer"
    assert proposal.keys["filter"][0] == f"{{{{ {condition} }}}}"
    assert "the filter leaves out 1 of 40 rows (9) without answer" in proposal.look_at
    assert any("rows 4 ('no idea')" in doubt for doubt in proposal.look_at)


def test_an_answer_that_is_the_prompt_again_is_not_taken(folder: Path) -> None:
    proposal = _of(folder, _rows(prompt=_asks, answer=_asks))
    assert proposal.answer is None
    assert "answer is not the right answer: it is the prompt again in 20 of 20 rows" in proposal.look_at


def test_numbers_of_classes_are_named_as_what_to_look_at(folder: Path) -> None:
    proposal = _of(folder, _rows(40, text=lambda i: f"Day {i}", label=lambda i: i % 3))
    assert proposal.keys["system_prompt"][0] == "Answer with one of: 0, 1, 2. Write nothing else."
    assert any(doubt.startswith("label counts classes: write their names") for doubt in proposal.look_at)


def test_a_constant_system_message_becomes_the_system_prompt(folder: Path) -> None:
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user"}
    reply = {"role": "assistant"}
    rows = _rows(messages=lambda i: [system, {**user, "content": _asks(i)}, {**reply, "content": str(i + 1)}])
    keys = _of(folder, rows).keys
    assert keys["system_prompt"][0] == f"Be brief. {BOXED}"
    assert keys["prompt"][0] == "{{ messages[1].content }}"


def test_turns_at_different_places_are_found_by_their_role(folder: Path) -> None:
    def talk(index: int) -> list[dict[str, str]]:
        end = [{"role": "tool", "content": "ok"}] if index % 2 else []
        return [{"role": "user", "content": _asks(index)}, {"role": "assistant", "content": str(index + 1)}, *end] * (
            1 + index % 3
        )

    proposal = _of(folder, _rows(30, talk=talk))
    users = "talk | selectattr('role', 'equalto', 'user') | map(attribute='content') | list"
    assert proposal.keys["prompt"][0] == f"{{{{ ({users})[-1] }}}}"
    assert (proposal.shown, proposal.complete) == (("What is 0 + 1?", "1"), 30)
    assert "20 conversations have earlier turns, which the prompt leaves out" in proposal.look_at


def test_classes_of_datasets_get_their_names(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    table = arrow.table({"text": [f"Day {i}" for i in range(20)], "label": [i % 2 for i in range(20)]})
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    parquet.write_table(table.replace_schema_metadata(metadata), folder / "rows.parquet")
    proposal = _propose(folder / "rows.parquet")
    assert proposal.keys["columns"][0] == {"solution": '{{ ["neg", "pos"][label] }}'}
    assert proposal.shown[1] == "neg"


def test_names_of_image_files_are_images_if_the_files_exist(folder: Path) -> None:
    path = write_jsonl(folder / "rows.jsonl", _rows(scan=lambda i: f"{i}.png", question=_asks, answer=lambda i: i + 1))
    assert "images" not in _propose(path).keys
    for index in range(20):
        (folder / f"{index}.png").touch()
    assert _propose(path).keys["images"] == ("scan", "images in 20 of 20 rows")


def test_a_csv_with_a_bom_has_its_columns_and_numbers_with_zeros_stay_texts(folder: Path) -> None:
    path = write_csv(folder / "rows.csv", _rows(question=_asks, answer=lambda i: f"00{i}"), encoding="utf-8-sig")
    rows = read_rows(str(path))
    assert (rows.columns, rows.rows[0]) == (("question", "answer"), {"question": "What is 0 + 1?", "answer": "000"})


def test_one_row_is_enough(grpo_run: Callable, folder: Path) -> None:
    write_jsonl(folder / "one.jsonl", _rows(1, question=_asks, answer=lambda i: i + 1))
    assert grpo_run("init", "--data", "one.jsonl", "--model", str(RECIPES / "quickstart" / "model")).code == 0
    assert "prompts_per_step: 1\n" in (folder / "one.yaml").read_text()
    assert grpo_run("validate", "one.yaml", "--target", STACK).code == 0


def test_named_columns_decide_what_the_values_leave_open(folder: Path) -> None:
    path = write_jsonl(folder / "rows.jsonl", _rows(frage=_asks, punkte=lambda i: i * 3 % 7, wert=lambda i: i + 1))
    proposal = _propose(path, question="frage", answer="wert")
    assert proposal.keys["columns"] == (
        {"solution": "{{ wert }}"},
        "wert has the answers: --answer names it",
    )


def test_a_file_of_held_out_rows_next_to_the_data_is_named(grpo_run: Callable, folder: Path) -> None:
    for name in ("train", "test"):
        write_jsonl(folder / f"{name}.jsonl", data_formats.sums())
    assert grpo_run("init", "--data", "train.jsonl", "-o", "new/recipe.yaml").code == 0
    text = (folder / "new" / "recipe.yaml").read_text()
    assert "  path: ../train.jsonl\n" in text
    assert "evaluation: {path: ../test.jsonl, max_rows: 32}\n" in text


REFUSED = {
    "empty.jsonl": ("", "it has no rows"),
    "empty.csv": ("", "it has no rows"),
    "header.csv": ("question,answer\n", "it has no rows"),
    "semicolons.csv": ("question;answer\nWhat, and who?;me\n", "its columns are separated by ';'"),
    "broken.jsonl": ('{"question": "a"}\n{"question": \n', "line 2: it is not JSON"),
    "lists.jsonl": ("[1, 2]\n", "line 1: it is not a JSON object"),
    "twice.csv": ("a,a\n1,2\n", "its header has the column 'a' twice"),
    "wide.csv": ("a,b\n1,2,3\n", "line 2 has 3 cells, and the header 2"),
    "notes.txt": ("a", "neither .csv, .jsonl, .json nor .parquet"),
    "spaces.csv": ("Question,Correct Answer\nWhat is 1?,1\n", "no template can read the column 'Correct Answer'"),
    "numbers.csv": ("a,b\n1,2\n", "no column can be the prompt"),
    "late.jsonl": ('{"question": "What?"}\n{"question": "Who?", "answer": "me"}\n', "the first row has no answer"),
    "large.jsonl": ('{"question": "What?", "answer": 1' + "0" * 30 + "}\n", "becomes 1e+30"),
    "as_text.csv": (
        "question,choices,answer\n" + "".join(f"What {i}?,\"['a', 'b']\",{i % 2}\n" for i in range(9)),
        "choices has lists written as text",
    ),
    "several.jsonl": (
        "".join(json.dumps(row) + "\n" for row in _rows(frage=_asks, x=lambda i: i * 3, wert=lambda i: i + 1)),
        "--answer with one of x, wert",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_guessed_is_one_message_and_writes_nothing(name: str, grpo_run: Callable, folder: Path) -> None:
    content, message = REFUSED[name]
    (folder / name).write_text(content)
    answer = grpo_run("init", "--data", name)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("error: ") == 1
    assert "  = fix: " in answer.err
    assert [path.name for path in folder.iterdir()] == [name]


def _value(kind: str, index: int, chance: random.Random, depth: int = 0) -> object:
    some = [_value(chance.choice(SCALARS), index, chance, 9) for _ in range(chance.randint(0, 4) if depth < 9 else 0)]
    match kind:
        case "text":
            return chance.choice(TEXTS).replace("%d", str(index))
        case "number":
            return chance.choice([index, -1, 0.5, 10**20, float("nan"), True])
        case "nothing":
            return chance.choice([None, "", [], {}, " "])
        case "list":
            return some
        case "options":
            return [f"option {place}" for place in range(chance.choice([2, 4, 30]))]
        case "object" if depth < 3:
            return {name: _value(chance.choice(KINDS), index, chance, depth + 1) for name in chance.sample(NAMES, 3)}
        case "turns":
            by, text = chance.choice([("role", "content"), ("from", "value")])
            roles = ["user", "assistant", "system", "human", "gpt", "tool", None]
            return [{by: chance.choice(roles), text: chance.choice(["Hi %d", None, [{"type": "text"}]])} for _ in some]
    return {"bytes": None, "path": "x.png"}


SCALARS = ("text", "number", "nothing")
KINDS = (*SCALARS, "list", "options", "object", "turns", "image")
NAMES = (
    *("question", "answer", "solution", "prompt", "input", "instruction", "label", "messages", "choices", "tests"),
    *("system", "A", "B", "items", "not", "问题", "x-y", "Correct Answer", "", "{{x}}", "a: b", "# c", "prompt\n"),
)
TEXTS = (
    *("What is %d?", "#### %d", "The answer is %d.", r"\boxed{\frac{1}{%d}}", "<answer>%d</answer>", "a: {b} # %d"),
    *("{{ x }} {% if %}", "'\"\\", "[1, 2]", "['a', 'b']", r"[\d]", '{"inputs": [], "outputs": []}', "\u2028\x00\x07é"),
    *(
        "assert f(%d)",
        "def check(candidate):",
        "x.png",
        "http://a.b/c",
        "A",
        "007",
        "%d",
        "long " * 50,
        "?",
        "<image> %d",
    ),
)


@pytest.mark.parametrize("seed", range(4))
def test_any_table_gets_a_recipe_that_reads_back_or_one_message(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        kinds = {name: chance.choice((*KINDS, "text", "text")) for name in chance.sample(NAMES, chance.randint(1, 6))}
        rows = [
            {name: _value(kind, index, chance) for name, kind in kinds.items() if chance.random() < 0.95}
            for index in range(chance.choice([1, 2, 30]))
        ]
        answer = chance.choice([None, None, *kinds])
        try:
            path = str(write_jsonl(folder / "rows.jsonl", rows))
            proposed = draft(path, "rows.yaml", model=None, question=None, answer=answer)
        except Refusal:
            continue
        document, findings = load_text(proposed.text, "rows.yaml")
        assert document is not None, (rows, proposed.text, findings)
        keys = document.values["dataset"]
        guesses = {key: value for key, (value, _) in proposed.guesses.items() if key != "rewards"}
        assert {f"dataset.{key}": value for key, value in keys.items() if key != "path"} == guesses


def test_latin1_is_named_with_the_command_that_converts_it(grpo_run: Callable, folder: Path) -> None:
    (folder / "latin.csv").write_bytes("question,answer\nWie heißt er?,Müller\n".encode("latin1"))
    answer = grpo_run("init", "--data", "latin.csv")
    assert (answer.code, "iconv -f latin1 -t utf-8 latin.csv" in answer.err) == (2, True)


def test_a_reward_to_be_filled_in_needs_a_place(grpo_run: Callable, folder: Path) -> None:
    data_formats.share_gpt(folder)
    answer = grpo_run("init", "--data", "share_gpt.json", "-o", "-")
    assert (answer.code, answer.out, "fix: -o FILE" in answer.err) == (2, "", True)


def test_nothing_is_overwritten(grpo_run: Callable, folder: Path) -> None:
    data_formats.share_gpt(folder)
    (folder / "rewards.py").write_text("mine")
    assert grpo_run("init", "--data", "share_gpt.json").code == 0
    assert (folder / "rewards.py").read_text() == "mine"
    assert 'python: "share_gpt_rewards.py:reward"' in (folder / "share_gpt.yaml").read_text()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = grpo_run("init", "--data", "share_gpt.json")
    assert (answer.code, "share_gpt.yaml already exists" in answer.err) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_options_of_data_need_it(grpo_run: Callable) -> None:
    answer = grpo_run("init", "--answer", "x")
    assert (answer.code, "--answer needs --data" in answer.err) == (2, True)
    answer = grpo_run("init", "quickstart", "--data", "x.csv")
    assert (answer.code, "cannot be combined" in answer.err) == (2, True)


def test_a_base_model_gets_plain_prompts(grpo_run: Callable, folder: Path) -> None:
    (folder / "base").mkdir()
    (folder / "base" / "tokenizer_config.json").write_text("{}")
    data_formats.gsm8k(folder)
    assert grpo_run("init", "--data", "gsm8k.jsonl", "--model", "base").code == 0
    text = (folder / "gsm8k.yaml").read_text()
    assert ("model_name_or_path: ./base\n" in text, "  prompt_format: standard\n" in text) == (True, True)
