"""What is read before anything is trusted: each attempt is judged in little time and memory, with a reason."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harms import Place, harms, made_place, run_apart
from hostile_recipes import TOOL, Attempt, over, tool
from small_recipe import STACK
from test_hostile_recipes import command, placed

from grpo_recipes.contract.files.regular_file import NotRegular, open_regular
from grpo_recipes.stack.target import parse_target
from grpo_recipes.user_files.digests import TooManyFiles, file_content, folder_content
from grpo_recipes.user_files.local_files import name_list
from grpo_recipes.user_files.local_rows import rows_up_to

MEMORY = 150 << 20
GIB = 1 << 30
ROW = '{"question": "1+1", "answer": "2"}\n'


def sparse(name: str, size: int, head: str = "", tail: str = "") -> Callable[[Path], None]:
    """Makes a file of holes between two texts."""

    def make(folder: Path) -> None:
        with (folder / name).open("w") as file:
            file.write(head)
            file.seek(max(size, len(head)))
            file.write(tail)
            file.truncate()

    return make


def many(folder: Path) -> None:
    """Forty files of holes in a folder that is a model."""
    (folder / "m").mkdir()
    for number in range(40):
        sparse(f"m/model-{number}.safetensors", 60 * GIB, "a", "b")(folder)


def crowded(folder: Path) -> None:
    """A folder of many entries."""
    (folder / "d").mkdir()
    for number in range(20_000):
        (folder / "d" / f"{number}.jsonl").symlink_to("nowhere")


def columns(count: int, length: int = 6) -> str:
    """The header of a table."""
    return ",".join(f"{number:0{length}}" for number in range(count)) + "\n"


def templates(count: int, text: str = "{{ nobody }}") -> str:
    """A recipe with many columns of the given template."""
    return over("dataset:\n  columns:\n" + "".join(f"    c{number}: '{text}'\n" for number in range(count)))


@dataclass(frozen=True, slots=True)
class Tried:
    """recipe: laid over the base; what: arguments of the command; said: what it says; is_refused: None for either."""

    recipe: str = over("")
    files: dict[str, str] = field(default_factory=dict)
    make: Callable[[Path], None] | None = None
    arguments: tuple[str, ...] = ()
    said: str = ""
    is_refused: bool | None = True
    command: tuple[str, ...] = ("plan", "recipe.yaml")


def data(name: str) -> str:
    return over(f"dataset: {{path: {name}}}")


def tool_with(part: str, instead: str) -> dict[str, str]:
    """The file of the tool, of which a part is another one."""
    return {"t.py": TOOL.replace(part, instead)}


VALIDATE = ("validate", "recipe.yaml")
TARGET = ("plan", "recipe.yaml", "--target")
FROM = ("init", "--from", "c.yaml", "-o", "-")
DEEP = "[" * 50_000 + "]" * 50_000
LONG = "9" * 5000
DATA = {
    "20 GiB of holes as rows": Tried(data("h.jsonl"), make=sparse("h.jsonl", 20 * GIB), said="mostly holes"),
    "20 GiB of holes after a row": Tried(data("h.jsonl"), make=sparse("h.jsonl", 20 * GIB, ROW), said="mostly holes"),
    "holes between rows": Tried(data("h.jsonl"), make=sparse("h.jsonl", 20 * GIB, ROW, ROW), said="mostly holes"),
    "60 GiB of holes as a table": Tried(
        data("h.csv"), make=sparse("h.csv", 60 * GIB, "question,answer\n"), said="mostly holes"
    ),
    "a terabyte of holes as parquet": Tried(data("h.parquet"), make=sparse("h.parquet", 1 << 40), said="mostly holes"),
    "a line of 900 MB of holes": Tried(data("h.jsonl"), make=sparse("h.jsonl", 900 << 20, "", "\n"), said="no JSON"),
    "a second line of 900 MB": Tried(
        data("h.jsonl"),
        make=sparse("h.jsonl", 900 << 20, ROW, "\n"),
        is_refused=None,
        command=VALIDATE,
    ),
    "a table whose second line is 900 MB": Tried(
        data("h.csv"),
        make=sparse("h.csv", 900 << 20, "question,answer\n1,2\n"),
        is_refused=None,
        command=VALIDATE,
    ),
    "a quote that does not end": Tried(
        data("q.csv"),
        {"q.csv": 'question,answer\n"' + "x\n" * 2_000_000},
        is_refused=None,
        command=VALIDATE,
    ),
    "10,000 columns for 3,000 templates": Tried(
        templates(3000) + "  path: w.csv\n", {"w.csv": columns(10_000)}, said="and 9,970 more"
    ),
    "10,000 long columns": Tried(data("w.csv"), {"w.csv": columns(9000, 400)}, said="and 8,970 more"),
    "300,000 columns": Tried(data("w.csv"), {"w.csv": columns(300_000)}, said="10,000 are the most"),
    "a column of a megabyte": Tried(data("w.csv"), {"w.csv": "x" * 1_000_000 + ",y\n"}),
    "a row of 9,000 keys": Tried(
        data("w.jsonl"), {"w.jsonl": json.dumps({str(n): n for n in range(9000)}) + "\n"}, said="and 8,970 more"
    ),
    "a deep row": Tried(data("w.jsonl"), {"w.jsonl": f'{{"question": {DEEP}}}\n'}, said="no JSON"),
    "a number of 5,000 digits in a row": Tried(data("w.jsonl"), {"w.jsonl": f'{{"a": {LONG}}}\n'}, said="no JSON"),
    "a reward that needs 3,000 columns": Tried(
        over("rewards: [{python: r.py:f}]\ndataset: {path: w.csv, columns: null, prompt: '{{ 000001 }}'}"),
        {"r.py": f"def f(completions, {', '.join(f'c{n}' for n in range(3000))}):\n    pass\n", "w.csv": columns(9000)},
        is_refused=None,
    ),
    "a reward file of two megabytes": Tried(
        over("rewards: [{python: r.py:f}]"), {"r.py": "#" * (2 << 20)}, said="larger than"
    ),
    "a reward file without an end of brackets": Tried(
        over("rewards: [{python: r.py:f}]"), {"r.py": "x = " + "(" * 60_000}, said="r.py"
    ),
    "a folder of many entries as data": Tried(data("./d"), make=crowded, is_refused=None),
    "the whole disk as the model": Tried(over("model: {model_name_or_path: /}"), is_refused=None),
    "forty files of holes as the model": Tried(over("model: {model_name_or_path: ./m}"), make=many, is_refused=None),
}


def _config(text: str, name: str = "config.json") -> Tried:
    return Tried(over("model: {model_name_or_path: ./m}"), {f"m/{name}": text}, is_refused=None)


MODELS = {
    "a deep configuration": _config(f'{{"a": {DEEP}}}'),
    "a configuration of two megabytes": _config('{"a": "' + "x" * (2 << 20) + '"}'),
    "layers of 5,000 digits": _config(f'{{"architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": {LONG}}}'),
    "layers of 4,000 digits": _config(
        f'{{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": {"9" * 4000}}}'
    ),
    "sizes of 4,000 digits": _config(
        '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 2, '
        f'"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 8, '
        f'"vocab_size": 9, "hidden_size": {"9" * 4000}}}'
    ),
    "context of 4,000 digits": _config(
        f'{{"architectures": ["Qwen2ForCausalLM"], "max_position_embeddings": {"9" * 4000}}}'
    ),
    "architectures of another kind": _config('{"architectures": [[["x"]]], "num_hidden_layers": 1e400}'),
    "not a number": _config('{"architectures": ["Qwen2ForCausalLM"], "hidden_size": NaN, "vocab_size": -Infinity}'),
    "a deep tokenizer": _config(f'{{"chat_template": {DEEP}}}', "tokenizer_config.json"),
    "templates of another kind": _config('{"chat_template": [5, {"name": []}, null]}', "tokenizer_config.json"),
    "a template of ten megabytes": _config(
        json.dumps({"chat_template": "{% if x %}" * 1_000_000}), "tokenizer_config.json"
    ),
    "a template without an end": _config(json.dumps({"chat_template": "{{ " + "(" * 20_000}), "tokenizer_config.json"),
}
TEXTS = {
    "a target version of 5,000 digits": Tried(command=(*TARGET, f"trl==1.{LONG}"), said="is not a version"),
    "a target of 5,000 GPUs' digits": Tried(command=(*TARGET, f"gpus={LONG}"), said="does not describe GPUs"),
    "a target of so many GPUs of a kind": Tried(command=(*TARGET, f"gpus={LONG}xT4"), said="does not describe GPUs"),
    "a target of many kinds of GPUs": Tried(command=(*TARGET, "gpus=" + "+".join(["1000xT4"] * 20_000))),
    "a target of 30,000 items": Tried(command=(*TARGET, "a==1," * 30_000), said="items"),
    "a target of 60,000 letters": Tried(command=(*TARGET, "x" * 60_000)),
    "a target package of 60,000 letters": Tried(command=(*TARGET, "x" * 60_000 + "==1")),
    "a target python of 5,000 digits": Tried(command=(*TARGET, f"python=={LONG}"), said="is not a version"),
    "a pipe as the target": Tried(
        make=lambda folder: os.mkfifo(folder / "t.json"), command=(*TARGET, "t.json"), said="pipe"
    ),
    "a device as the target": Tried(
        make=lambda folder: (folder / "t.json").symlink_to("/dev/zero"),
        command=(*TARGET, "t.json"),
        said="device",
    ),
    "a folder as the target": Tried(make=lambda folder: (folder / "t.json").mkdir(), command=(*TARGET, "t.json")),
    "a target file with versions of 5,000 digits": Tried(
        files={"t.json": json.dumps({"packages": {"trl": LONG}})}, command=(*TARGET, "t.json")
    ),
    "a target file with memory of 4,000 digits": Tried(
        files={"t.json": f'{{"gpus": [{{"name": "T4", "memory_gib": {"9" * 4000}}}]}}'},
        command=(*TARGET, "t.json"),
        said="memory_gib",
    ),
    "a target file with a million GPUs": Tried(
        files={"t.json": json.dumps({"gpus": [{"name": ""}] * 60_000})}, command=(*TARGET, "t.json")
    ),
    "a deep target file": Tried(files={"t.json": DEEP}, command=(*TARGET, "t.json"), said="deep"),
    "a configuration with a number of 5,000 digits": Tried(
        files={"c.yaml": f"beta: {LONG}\n"}, command=FROM, said="5,000 characters"
    ),
    "a configuration with a number of 60,000 hex digits": Tried(
        files={"c.yaml": f"beta: 0x{'f' * 60_000}\n"},
        command=FROM,
        said="characters",
    ),
    "a configuration with a number in base 60": Tried(
        files={"c.yaml": f"beta: 1{':59' * 3000}\n"}, command=FROM, said="characters"
    ),
    "a configuration with a date that is none": Tried(
        files={"c.yaml": "beta: 2001-99-99\n"}, command=FROM, said="cannot be read"
    ),
    "a configuration with a date": Tried(files={"c.yaml": "beta: 2001-01-01\n"}, command=FROM, is_refused=None),
    "a configuration with all that YAML has": Tried(
        files={"c.yaml": "beta: !!binary aGFsbG8=\nepsilon: !!set {a, b}\nreport_to: [2001-01-01, {2001-01-01: x}]\n"},
        command=FROM,
        is_refused=None,
    ),
    "a configuration in JSON with 5,000 digits": Tried(
        files={"c.json": f'{{"beta": {LONG}}}'},
        command=(*FROM[:2], "c.json", *FROM[3:]),
        said="5,000 characters",
    ),
    "a configuration that is deep": Tried(files={"c.yaml": f"beta: {DEEP}\n"}, command=FROM),
    "a configuration of 9,000 keys, each twice": Tried(
        files={"c.yaml": "".join(f"k{n % 2400}: 1\n" for n in range(4800))},
        command=FROM,
        is_refused=None,
    ),
    "--set with 60,000 letters": Tried(arguments=("--set", "description=" + "e+" * 30_000), is_refused=False),
    "--set with 5,000 digits": Tried(arguments=("--set", f"seed={LONG}"), said="too large"),
    "--set with a deep key": Tried(arguments=("--set", "a." * 20_000 + "b=1")),
    "--set with a deep value": Tried(arguments=("--set", f"trl={DEEP}")),
    "--set of a place of 5,000 digits": Tried(arguments=("--set", f"rewards[{LONG}].weight=1")),
    "a description of 60,000 e+": Tried(over("description: " + "e+" * 30_000), is_refused=False),
    "a description of 60,000 addresses": Tried(over("description: '" + "a:/" * 20_000 + "'"), is_refused=False),
    "a template of 60,000 brackets": Tried(over("dataset: {prompt: '" + "{{ (" * 15_000 + "'}")),
    "a power in a template": Tried(over("dataset: {prompt: '{{ 9 ** 9 ** 9 ** 9 }} {{ question }}'}"), is_refused=None),
    "a number of 5,000 digits in a template": Tried(over(f"dataset: {{prompt: '{{{{ {LONG} }}}}'}}"), is_refused=None),
    "a number beyond every float": Tried(over("grpo: {beta: 1e400}"), said="too large"),
    "a model name of 200,000 letters": Tried(over(f"model: {{model_name_or_path: {'m' * 200_000}}}"), is_refused=None),
    "a data name of 200,000 letters": Tried(data("./" + "d" * 200_000 + ".jsonl")),
    "a reward of 200,000 letters": Tried(over(f"rewards: [{{python: {'r' * 200_000}.py:f}}]")),
    "a docstring of a megabyte": Tried(tool(), tool_with("Says.", "Says." + " " * 900_000 + "."), is_refused=None),
    "a docstring of a hundred thousand Args": Tried(tool(), tool_with("Says.", "xArgs:\n" * 100_000), is_refused=None),
    "a type hint of thousands": Tried(tool(), tool_with("a: int", "a: " + "int|" * 2000 + "int"), is_refused=None),
    "a deep type hint": Tried(tool(), tool_with("a: int", "a: " + "list[" * 90 + "int" + "]" * 90), is_refused=False),
    "choices that are deep": Tried(tool(), tool_with("a: one", f"a: one (choices: {'[' * 50_000})")),
    "tools without end": Tried(over("tools: [" + "{python: t.py:f}, " * 10_000 + "]"), {"t.py": TOOL}),
    "rewards without end": Tried(over("rewards: [" + "{name: accuracy}, " * 10_000 + "]"), is_refused=None),
}


def _parents(count: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for number in range(count):
            (folder / f"p{number}.yaml").write_text(f"extends: p{number + 1}.yaml\n")

    return make


EXTENDS = {
    "a chain of a thousand parents": Tried("extends: p0.yaml\n", make=_parents(1000)),
    "a parent of 20 GiB": Tried("extends: h.yaml\n", make=sparse("h.yaml", 20 * GIB)),
    "a parent with a name of a megabyte": Tried(f"extends: {'p' * 200_000}\n"),
}
TRIED = {**DATA, **MODELS, **TEXTS, **EXTENDS}


@pytest.mark.hostile
@pytest.mark.parametrize("tried", TRIED.values(), ids=TRIED)
def test_it_is_judged_in_little_time_and_memory(tried: Tried, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harms.MEMORY", MEMORY)
    place = _placed(made_place(tmp_path), tried)
    target = () if "--target" in tried.command or tried.command[0] == "init" else ("--target", STACK)
    ended = run_apart(place, [command(*tried.command, *target, *tried.arguments)])
    assert harms(place, ended) == [], ended.printed[-3000:]
    assert len(ended.codes) == 1
    if tried.is_refused is not None:
        assert ended.codes == [2 if tried.is_refused else 0], ended.printed[-3000:]
    assert tried.said in ended.printed
    assert len(ended.printed) < 4 << 20


def _placed(place: Place, tried: Tried) -> Place:
    for name in tried.files:
        (place.team / name).parent.mkdir(exist_ok=True)
    return placed(place, Attempt("tried", tried.recipe, tried.files, tried.make))


@pytest.mark.hostile
def test_so_much_memory_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harms.MEMORY", MEMORY)
    place = made_place(tmp_path)
    sparse("h.jsonl", 900 << 20)(place.team)
    ended = run_apart(place, [lambda: len((place.team / "h.jsonl").read_bytes())])
    assert "crashed" in harms(place, ended)


@pytest.mark.parametrize(
    ("text", "rows"),
    [("", 0), ("a", 1), ("a\n", 1), ("\n \n\r\n", 0), ("a\nb\n\n", 2), ("x" * 600_000 + "\ny", 2), ("\n" * 600_000, 0)],
    ids=["nothing", "no end", "a line", "blank ones", "a blank last", "a long one", "many blank"],
)
def test_rows_are_counted_as_before(text: str, rows: int, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    assert file_content(str(file), count_rows=True).rows == rows
    assert rows_up_to(str(file), 10) == rows


def test_a_large_file_of_data_is_opened_and_one_of_holes_is_not(tmp_path: Path) -> None:
    sparse("holes", 2 * GIB, "a", "b")(tmp_path)
    with pytest.raises(NotRegular, match="mostly holes"):
        open_regular(tmp_path / "holes")
    sparse("small", GIB - 10, "a", "b")(tmp_path)
    open_regular(tmp_path / "small").close()


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/proc", "/tmp/.."])
def test_a_folder_of_the_system_is_not_read(folder: str) -> None:
    with pytest.raises(TooManyFiles):
        folder_content(folder)


def test_names_are_listed_as_far_as_they_can_be_read() -> None:
    assert name_list(["a", "b"]) == "a, b"
    assert name_list([str(n) for n in range(31)]).endswith("28, 29 and 1 more")
    assert len(name_list(["x" * 1000] * 1000)) < 4000


def test_targets_in_use_are_taken_as_before() -> None:
    stack, found = parse_target("trl==1.16.0,vllm==absent,gpus=2xA100-80GB+1xT4")
    assert found == []
    assert stack is not None
    assert stack.gpus is not None
    assert len(stack.gpus) == 3
