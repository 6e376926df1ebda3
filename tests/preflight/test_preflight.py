"""`grpo-run preflight` with the real tokenizer, data sets and reward processes."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from preflight_runs import QUICKSTART, ROOT, Answer, command

pytestmark = pytest.mark.stack

HERE = Path(__file__).parent
Preflight = Callable[..., Answer]
HANGS = """
import pathlib, subprocess, time
def hangs(completions, **kwargs):
    subprocess.Popen(["sleep", "98765"], start_new_session=True)
    pathlib.Path({marker!r}).touch()
    time.sleep(1000)
    return [0.0 for _ in completions]
"""
# Leaves the system message out, and ends a turn with the token that begins one.
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] != 'system' %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_start|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_the_quickstart_is_silent_and_shows_what_was_seen(preflight: Preflight) -> None:
    answer = preflight(str(QUICKSTART))
    assert answer.code == 0, answer.err
    assert answer.out.endswith("quickstart.yaml: no findings\n")
    assert "PFL" not in answer.out
    assert "445 in an epoch, 16 prompts in a generation; 100 steps are 0.22 epochs" in answer.out
    assert answer.out.count("prompt of row ") == 2
    assert re.search(r"  \| \d\d\+\d\d=<\|im_end\|>\n  \| <\|im_start\|>assistant\n", answer.out)
    assert re.search(r"^exact_match +1 +1 +0 +0 +0 +0 ", answer.out, re.MULTILINE), "gold 1, the others 0"
    assert answer.left == []


def test_rows_that_are_left_out_are_counted_and_three_of_them_shown(preflight: Preflight, tmp_path: Path) -> None:
    dataset = {"filter": "{{ '8' not in question }}", "max_prompt_tokens": {"limit": 14}, "max_rows": 64}
    chosen = {"extends": str(QUICKSTART), "dataset": dataset, "evaluation": None}
    (tmp_path / "recipe.yaml").write_text(json.dumps(chosen))
    answer = preflight("recipe.yaml")
    assert answer.code == 0, answer.out
    assert "rows        64, 32 of them" in answer.out
    assert re.search(
        r"^left out    2573 of 7126 rows: 2573 by the filter\n( +row \d+: the filter is False, question .*8.*\n){3}\w",
        answer.out,
        re.MULTILINE,
    )
    assert "14 to 14 tokens" in answer.out
    (tmp_path / "recipe.yaml").write_text(json.dumps({**chosen, "dataset": {"max_prompt_tokens": {"limit": 13}}}))
    (none,) = preflight("recipe.yaml", "--json").findings
    said = r"dataset.max_prompt_tokens: none of the 7126 rows of .*train.jsonl is left"
    assert (none["rule"], none["key"]) == ("PFL001", "dataset.max_prompt_tokens")
    assert re.fullmatch(said, none["message"])


@pytest.mark.parametrize(("most", "is_named"), [(6, False), (400, True)])
def test_the_cost_of_a_text_is_that_of_what_a_completion_can_be(
    most: int, is_named: bool, preflight: Preflight, sums: Path, tmp_path: Path
) -> None:
    """A cost of a tenth for each character beyond three counts little if there are at most six."""
    (tmp_path / "mine.py").write_text(
        "def extra(completions, **kwargs):\n    return [float(max(0, len(c[0]['content']) - 3)) for c in completions]\n"
    )
    rewards = [{"name": "exact_match"}, {"python": "mine.py:extra", "weight": -0.1}]
    recipe = {"rewards": rewards, "generation": {"max_completion_length": most}, "evaluation": None}
    recipe |= {"extends": str(QUICKSTART), "dataset": {"path": sums.name}}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    named = {rule for rule, _ in preflight("recipe.yaml", "--json").said()}
    assert named == ({"PFL065"} if is_named else set())


@pytest.mark.parametrize(("most", "is_said"), [(2, True), (3, False)])
def test_answers_that_no_completion_has_room_for_are_told(
    most: int, is_said: bool, preflight: Preflight, tmp_path: Path
) -> None:
    """Sums of two digits twice have two or three digits, and the model spells one token for each."""
    short = {"extends": str(QUICKSTART), "generation": {"max_completion_length": most}}
    rows = "".join(json.dumps({"question": f"{n}+{n}=", "answer": str(2 * n)}) + "\n" for n in range(50, 90))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "recipe.yaml").write_text(json.dumps({**short, "dataset": {"path": "rows.jsonl"}, "evaluation": None}))
    said = preflight("recipe.yaml", "--json").said()
    told = "the right answers of 32 of 32 rows are longer than a completion of 2 tokens"
    assert said == ({("PFL046", "generation.max_completion_length"): [told]} if is_said else {})


def test_whole_answers_with_a_decimal_point_are_named(preflight: Preflight, tmp_path: Path) -> None:
    """datasets reads the 2 of a column that also has 2.5 as 2.0, which no completion equals."""
    rows = [{"question": f"{n}+{n}=", "n": n / 2, "of": "x"} for n in range(1, 41)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row).replace(".0,", ",") + "\n" for row in rows))
    recipe = {"extends": str(QUICKSTART), "dataset": {"path": "rows.jsonl"}, "evaluation": None}
    whole = r"1\d of 32 right answers are paid in one of two spellings: '(\d+)\.0', not '\1'"
    for template, is_said in (("{{ n }}", True), ("{{ n | int if n == n | int else n }}", False)):
        recipe["dataset"] = {"path": "rows.jsonl", "columns": {"solution": template}}
        (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
        said = {rule: messages for (rule, _), messages in preflight("recipe.yaml", "--json").said().items()}
        assert [bool(re.fullmatch(whole, message)) for message in said.get("PFL047", [])] == [True] * is_said


# test_parts.py tests answers that cannot be used, and processes that end early. A trainer_state costs six CPU seconds.
ALIKE = ("too_few", "words", "crashes", "knows_the_step")


@pytest.mark.parametrize("left_out", [ALIKE, pytest.param((), marks=pytest.mark.long)], ids=len)
def test_each_broken_reward_is_named_with_its_fault(
    left_out: tuple[str, ...], preflight: Preflight, sums: Path, tmp_path: Path
) -> None:
    shutil.copy(HERE / "broken_rewards.py", tmp_path)
    names = re.findall(r"^(?:async )?def ([a-z]\w*)", (HERE / "broken_rewards.py").read_text(), re.MULTILINE)
    names = [name for name in names if name not in left_out]
    lines = "".join(f"  - {{python: broken_rewards.py:{name}}}\n" for name in names)
    (tmp_path / "rows").mkdir()
    sums.rename(tmp_path / "rows" / sums.name)  # the columns of a folder are not known before it is loaded
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\ndataset: {{path: ./rows}}\nevaluation: null\nrewards:\n{lines}"
    )
    limits = ["--rows", "4", "--time-limit", "10", "--memory-limit", "0.5"]
    answer = preflight("recipe.yaml", "--json", *limits)
    assert answer.code == 2, answer.err
    places = {name: f"rewards[{index}]" for index, name in enumerate(names)}
    said = answer.said()
    expected = {
        "constant": ("PFL024", "gives 0.5 to every completion, right, empty or garbage"),
        "divides": ("PFL020", "fails with these completions: empty: ZeroDivisionError: division by zero"),
        "one_number": ("PFL022", "returned a single float, not one number for each completion"),
        "too_few": ("PFL022", "returned 7 values for 8 completions, not one number for each completion"),
        "words": ("PFL022", "returned a list of str, not one number for each completion"),
        "missing_for_empty": ("PFL025", "gives no reward for these completions: empty"),
        "dice": ("PFL026", "gave 32 of 32 completions a different value when it was called again"),
        "hangs": ("PFL021", "did not return within 10 s"),
        "exits": ("PFL020", "fails: SystemExit: no more"),
        "vanishes": ("PFL021", "ended its process with exit code 3"),
        "crashes": ("PFL021", "ended its process with signal SIGSEGV"),
        "devours": ("PFL021", "exceeded its memory limit"),
        "reads_text": ("PFL023", "reads completions as text, and they are messages"),
        "counts_messages": ("PFL023", "reads completions as text, and they are messages"),
        "infinite": ("PFL022", "is infinite for these completions: empty"),
        "wants_tests": ("PFL020", "asks for tests, which the data does not have"),
        "wants_model": ("PFL020", "asks for model, trainer, which trl does not pass"),
        "off_by": ("PFL020", "fails: TypeError: unsupported operand type(s) for -: 'int' and 'str'"),
    }
    wanted = {
        (rule, places[name]): [f"reward {name} {words}"] for name, (rule, words) in expected.items() if name in names
    }
    assert said == wanted, "and nothing about rewards without a fault"
    because = {finding["key"]: " ".join(finding["because"]) for finding in answer.findings}
    source = (HERE / "broken_rewards.py").read_text().splitlines()
    assert "columns from dataset.columns are text: solution" in because[places["off_by"]]
    for name, text in (("divides", "len(set("), ("exits", "sys.exit("), ("hangs", "time.sleep(0.01)")):
        line = next(number for number, words in enumerate(source, 1) if text in words)
        assert f"broken_rewards.py:{line}" in because[places[name]], "the user's own line"
    assert all(finding["line"] == 5 + names.index(finding["message"].split()[1]) for finding in answer.findings)
    assert answer.left == []


def _messages(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": [{"role": "user", "content": f"{10 + i}+{20 + i}="}], "solution": str(30 + 2 * i), "completion": "x"}
        for i in range(12)
    ]
    rows[2]["prompt"] = None
    rows[3]["prompt"] = []
    rows[4]["prompt"][0]["content"] = "  "
    rows[6]["prompt"] = rows[5]["prompt"]
    rows[7]["prompt"].append({"role": "assistant", "content": "44"})
    rows[8]["prompt"][0]["content"] = "1+" * 600
    rows[9]["solution"] = None
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "messages.jsonl").write_text(text)
    (tmp_path / "held_out.jsonl").write_text("".join(text.splitlines(keepends=True)[:2]))


def test_each_fault_of_the_first_broken_data_is_named(preflight: Preflight, tmp_path: Path) -> None:
    _messages(tmp_path)
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\n"
        "dataset: {path: ./rows, prompt: null, columns: null}\n"
        "evaluation: {path: held_out.jsonl}\n"
        'generation: {stop: ["<|im_start|>", "漢"], stop_token_ids: [999], max_prompt_length: 100}\n'
        'tokenizer: {add_tokens: ["<|im_end|>", "<search>"]}\n'
    )
    answer = preflight("recipe.yaml", "--json")
    assert answer.code == 2, answer.err
    assert answer.said() == {
        ("PFL002", "training.prompts_per_step"): [
            "12 rows are fewer than the 16 prompts of one generation: the run would end as completed after 0 steps"
        ],
        ("PFL003", "dataset.prompt"): ["dataset: 2 of 12 prompts are missing", "dataset: 1 of 12 prompts are blank"],
        ("PFL004", "dataset.columns.solution"): ["1 prompts are repeated with a different solution"],
        ("PFL005", "dataset.prompt"): ["dataset: 1 of 12 prompts end with an assistant message"],
        ("PFL006", "generation.max_prompt_length"): ["1 of 10 prompts lose their beginning"],
        ("PFL007", "evaluation"): ["2 of 2 prompts of the evaluation are also trained on"],
        ("PFL008", "dataset.columns.completion"): ["column completion does not reach the rewards"],
        ("PFL009", "dataset.columns.solution"): [
            "1 of 12 rows have no value in column solution, which reward exact_match reads"
        ],
        ("PFL013", "generation.stop[0]"): ["stop '<|im_start|>' is not in the text that rewards get"],
        ("PFL013", "generation.stop[1]"): [
            "stop '漢' cannot be written, since the tokenizer has no token for part of it"
        ],
        ("PFL014", "generation.stop_token_ids[0]"): ["stop_token_ids has 999, and the tokenizer has 59 tokens"],
        ("PFL015", "tokenizer.add_tokens[0]"): [
            "add_tokens has '<|im_end|>', which is already a special token of the tokenizer"
        ],
        ("PFL025", "rewards"): ["1 of 12 rows get no reward from any function"],
    }
    lines = {finding["rule"]: (Path(finding["file"]).name, finding["line"]) for finding in answer.findings}
    assert lines["PFL005"] == ("recipe.yaml", 2)
    assert lines["PFL014"] == ("recipe.yaml", 4)
    assert lines["PFL002"][0] == "quickstart.yaml", "prompts_per_step is written there"


def test_each_fault_of_the_second_broken_data_is_named(preflight: Preflight, sums: Path, tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\n"
        f"dataset: {{path: {sums.name}, prompt: question, system_prompt: Answer.}}\n"
        "tokenizer: {chat_template_path: chat.jinja}\n"
        "generation: {chat_template_kwargs: {enable_thinking: false}, max_completion_length: 600}\n"
        "rewards: [{name: exact_match, weight: -1}]\n"
        "evaluation: null\n"
        "training: {shuffle_dataset: false}\n"
    )
    answer = preflight("recipe.yaml", "--json")
    assert answer.code == 0, "it would train, though not what was meant"
    assert answer.said() == {
        ("PFL002", "training.shuffle_dataset"): ["the last 8 of 40 rows are never trained on"],
        ("PFL004", "dataset.prompt"): ["all 40 prompts are equal"],
        ("PFL006", "generation.max_completion_length"): [
            "40 of 40 prompts and their completions are longer than the model's context of 512 tokens"
        ],
        ("PFL011", "dataset.system_prompt"): [
            "the chat template leaves the system message out of the prompt, or changes it"
        ],
        ("PFL012", "generation.stop_token_ids"): [
            "the chat template ends the assistant's turn with '<|im_start|>', and generation does not end there"
        ],
        ("PFL024", "rewards[0].weight"): ["reward exact_match gives right answers the most, and its weight is -1"],
    }
    turn = next(finding for finding in answer.findings if finding["rule"] == "PFL012")
    assert turn["patch"] == [{"path": ["generation", "stop_token_ids"], "value": [56], "remove": False}]


def test_a_row_that_fills_no_template_and_a_tokenizer_that_pads_with_its_end_are_named(
    preflight: Preflight, sums: Path, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "recipes" / "quickstart" / "model", tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    settings["pad_token"] = settings["eos_token"]
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    shutil.copy(sums, tmp_path / "held_out.jsonl")
    with (tmp_path / "held_out.jsonl").open("a") as file:
        file.write('{"question": "1+1=", "answer": null}\n')
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\nmodel: {{model_name_or_path: ./model}}\ndataset: {{path: {sums.name}}}\n"
        "evaluation: {path: held_out.jsonl}\nrewards: [{python: mine.py:reads_messages}]\n"
    )
    (tmp_path / "mine.py").write_text(
        "def reads_messages(completions, **kwargs):\n"
        "    return [float(len(c.__getitem__(0)['content'])) for c in completions]\n"
    )
    answer = preflight("recipe.yaml", "--json", "--set", "dataset.prompt_format=standard")
    assert answer.code == 2, answer.err
    assert answer.said() == {
        ("PFL001", "evaluation.columns.solution"): ["evaluation.columns.solution: row 41 cannot fill the template"],
        ("PFL016", "model.model_name_or_path"): ["the tokenizer pads with its end token '<|im_end|>'"],
        ("PFL023", "rewards[0]"): ["reward reads_messages reads completions as messages, and they are text"],
    }


def test_a_set_that_a_reward_cannot_judge_is_named(preflight: Preflight, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def number(completions, solution, **kwargs):\n"
        "    return [float(int(one) > 0) for one in solution]\n\n\n"
        "def said(completions, **kwargs):\n"
        "    return [1.0 for _ in completions]\n"
    )
    rows = {
        "train": ("1+1=", "2"),
        "trained": ("1+1=", "2"),
        "sums": ("1+2=", "3"),
        "words": ("2+2=", "four"),
        "blank": (" ", "1"),
    }
    for name, (question, answer) in rows.items():
        row = json.dumps({"question": question, "answer": answer})
        (tmp_path / f"{name}.jsonl").write_text(f"{row}\n" * 40)
    recipe = {
        "extends": str(QUICKSTART),
        "dataset": {"path": "train.jsonl"},
        "rewards": [{"python": "mine.py:number"}, {"python": "mine.py:said"}],
        "evaluation": {
            "path": None,
            "sets": {
                "sums": {"path": "sums.jsonl"},
                "words": {"path": "words.jsonl"},
                "judged": {"path": "words.jsonl", "rewards": ["said"]},
                "trained": {"path": "trained.jsonl"},
                "blank": {"path": "blank.jsonl"},
            },
        },
    }
    text = json.dumps(recipe, indent=1)
    (tmp_path / "recipe.yaml").write_text(text)
    shown = preflight("recipe.yaml", "--json")
    said = shown.said()
    assert said["PFL041", "evaluation.sets.words"] == [
        "reward number cannot judge held-out set words: ValueError: invalid literal for int() with base 10: 'four'"
    ]
    assert [key for rule, key in said if rule == "PFL041"] == ["evaluation.sets.words"]
    assert ("PFL003", "evaluation.sets.blank.prompt") in said
    line = next(number for number, text in enumerate(text.splitlines(), 1) if '"blank": {' in text)
    assert [one["line"] for one in shown.findings if one["rule"] == "PFL003"] == [line]
    assert said["PFL007", "evaluation.sets.trained"] == ["40 of 40 prompts of trained are also trained on"]


def test_a_signal_leaves_no_process_and_no_file(sums: Path, tmp_path: Path) -> None:
    marker = tmp_path / "hanging"
    (tmp_path / "hangs.py").write_text(HANGS.format(marker=str(marker)))
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\ndataset: {{path: {sums.name}}}\n"
        "evaluation: null\nrewards: [{python: hangs.py:hangs}]\n"
    )
    words, environment = command(tmp_path, "recipe.yaml")
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 200
        while not marker.exists():
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 75
    assert b"Traceback" not in err
    assert os.listdir(tmp_path / "tmp") == []
    assert _processes_of(tmp_path) == []


def _processes_of(folder: Path) -> list[str]:
    """Command lines of living processes whose environment names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder / 'tmp'}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
    return found


def test_code_that_was_not_allowed_does_not_run(sums: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "mine.py").write_text(
        f"open({str(marker)!r}, 'w')\ndef mine(completions, **kwargs):\n    return [0.0 for _ in completions]\n"
    )
    (tmp_path / "recipe.yaml").write_text(
        f"extends: {QUICKSTART}\ndataset: {{path: {sums.name}}}\nrewards: [{{python: mine.py:mine}}]\n"
    )
    words, environment = command(tmp_path, "recipe.yaml")
    words = words[: words.index("--allow-code")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 2
    assert "--allow-code" in done.stderr
    assert not marker.exists()


def test_gold_answers_are_shown_as_a_warm_start_trains_them(preflight: Preflight, sums: Path, tmp_path: Path) -> None:
    warm_start = {"steps": 5, "answer": "{{ answer }}", "learning_rate": 1e-3}
    recipe: dict[str, Any] = {"extends": str(QUICKSTART), "warm_start": warm_start, "evaluation": None}
    recipe["dataset"] = {"path": sums.name}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    shown = preflight("recipe.yaml").out
    line = r"^warm start  5 steps, 16 passes over the rows, on answers of 3 to 4 tokens$"
    assert re.search(line, shown, re.MULTILINE), shown
    assert re.search(r"^  gold: (\d+)\n  trained gold: \1<\|im_end\|>$", shown, re.MULTILINE), shown

    recipe["warm_start"] = {**warm_start, "answer": "<b>{{ answer }}</b>"}
    recipe["generation"] = {"max_completion_length": 60}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    (message,) = preflight("recipe.yaml", "--json").said()["PFL068", "warm_start.answer"]
    assert message == "32 of 32 trained gold answers get no more than wrong ones from exact_match"
    recipe["warm_start"] = warm_start

    recipe["generation"] = {"max_completion_length": 3}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    (message,) = preflight("recipe.yaml", "--json").said()["PFL068", "warm_start.answer"]
    assert re.fullmatch(r"the gold answers of \d+ of 32 rows cannot be trained", message)
