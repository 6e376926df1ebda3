"""Everything that is printed or written is redacted first: no secret, nothing that steers a terminal, no markup."""

import ast
import io
import json
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from harms import TOKEN, harms, looked_at, made_place, run_apart
from hostile_recipes import Attempt, over
from small_recipe import STACK
from test_hostile_recipes import command, placed
from test_hostile_runs import TRAINS, run

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import finding_text
from grpo_recipes.launch.display import PlainProgress
from grpo_recipes.launch.progress import NORMAL
from grpo_recipes.launch.screen import Screen
from grpo_recipes.worker.checkpoints.model_card import plain

PACKAGE = Path(__file__).parents[2] / "grpo_recipes"
SECRET_SHAPE = "ghp_q7ZpX2mK9vLtR4sWcB8nYd3F0123"
# What a command prints of its own: texts of this package alone.
OWN_TEXTS = {"STARTER", "text", "page", "schema_text(name)"}


def printed_unredacted(source: str) -> list[str]:
    """The arguments of click.echo in a module that are neither a constant nor what redact() gives."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print")):
            continue
        for argument in node.args[:1]:
            is_redacted = isinstance(argument, ast.Call) and ast.unparse(argument.func) == "redact"
            names = [one.id for one in ast.walk(argument) if isinstance(one, ast.Name)]
            if (
                not is_redacted
                and names
                and not ast.unparse(argument).startswith(("f'grpo-run {__version__}", "f'{one."))
            ):
                found.append(ast.unparse(argument))
    return found


def test_the_commands_print_nothing_that_was_not_redacted() -> None:
    found = {
        f"{path.name}: {text}"
        for path in sorted((PACKAGE / "cli").glob("*.py"))
        for text in printed_unredacted(path.read_text())
        if text not in OWN_TEXTS and "machines, within ten minutes" not in text and "one.description" not in text
    }
    assert found == set()


def test_an_unredacted_print_would_be_seen() -> None:
    assert printed_unredacted("click.echo(f'{record.message}', err=True)") == ["f'{record.message}'"]
    assert printed_unredacted("click.echo(redact(record.message))") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "recipe.yaml", "--format", TOKEN),
        ("validate", "recipe.yaml", f"--{TOKEN}"),
        ("plan", "recipe.yaml", f"--set={TOKEN}"),
        ("plan", "recipe.yaml", "--set", f"description={TOKEN}", "--json"),
        ("plan", "recipe.yaml", "--set", f"{TOKEN}=1"),
        ("plan", f"{TOKEN}.yaml"),
        ("validate", f"{TOKEN}.yaml", "--format", "sarif"),
        ("validate", f"{TOKEN}.yaml", "--format", "github"),
        ("validate", f"{TOKEN}.yaml", "--format", "json"),
        ("plan", "recipe.yaml", "--target", f"trl=={TOKEN}"),
        ("plan", "recipe.yaml", "--target", f"{TOKEN}==1"),
        ("plan", "recipe.yaml", "--target", f"{TOKEN}.json"),
        ("explain", TOKEN),
        ("diff", "recipe.yaml", f"{TOKEN}.yaml"),
        ("init", TOKEN),
        ("init", "--from", f"{TOKEN}.yaml"),
        ("schema", TOKEN),
        ("doctor", TOKEN),
        ("fit", f"{TOKEN}.yaml"),
        ("fit", "recipe.yaml", "--gpus", f"0x{TOKEN}"),
        ("fit", "recipe.yaml", "--gpus", "\x1b[2J"),
        ("run", "recipe.yaml", "--allow-code", TOKEN),
        ("allowed", "--forget", TOKEN),
        ("allowed", "--forget", "\x1b[2J"),
        ("run", f"runs/{TOKEN}", "--resume"),
        ("run", "recipe.yaml", "--dry-run", "--target", STACK, "--out", f"base.yaml/{TOKEN}"),
        ("preflight", f"{TOKEN}.yaml"),
        (TOKEN,),
        ("\x1b[2J" + SECRET_SHAPE,),
        ("validate", "\x1b]0;owned\x07.yaml"),
        ("explain", "\u202eevil"),
        ("validate", "recipe.yaml", "--format", "\x1b[31m"),
    ],
    ids=lambda arguments: ascii(" ".join(arguments)).replace(TOKEN, "TOKEN")[:60],
)
@pytest.mark.hostile
def test_a_command_line_that_is_refused_tells_no_secret(arguments: tuple[str, ...], tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("line", over("")))
    ended = run_apart(place, [command(*arguments)])
    assert harms(place, ended) == [], ended.printed
    assert SECRET_SHAPE not in ended.printed


@pytest.mark.hostile
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize(
    "text",
    [
        f'description: "{TOKEN}"',
        f"logging: {{report_to: ['{TOKEN}']}}",
        f"{TOKEN}: 1",
        f"trl: {{hub_token: {TOKEN}}}",
        f"model: {{model_name_or_path: 'https://me:{SECRET_SHAPE}@host/x'}}",
        f"launch: {{environment: {{A: '{TOKEN}'}}}}",
        f"dataset: {{prompt: '{{{{ {TOKEN} }}}}'}}",
        f"rewards: [{{name: {TOKEN}}}]",
    ],
    ids=["value", "list", "key", "field", "address", "variable", "template", "reward"],
)
def test_a_finding_tells_no_secret_in_any_form(text: str, form: str, tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("finding", over(text)))
    ended = run_apart(place, [command("validate", "recipe.yaml", "--target", STACK, "--format", form)])
    assert harms(place, ended) == [], ended.printed
    assert SECRET_SHAPE not in ended.printed


@pytest.mark.parametrize("terminal", [False, True], ids=["lines", "bar"])
def test_what_a_folder_tells_of_its_run_steers_no_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    echo = io.StringIO()
    progress = Screen(echo, NORMAL, 0.0) if terminal else PlainProgress(echo)
    evil = f"\x1b]52;c;Y3VybA==\x07\x1b[2J\u202e{TOKEN}"
    for event in (
        {"event": "start", "resumed": [evil]},
        {"event": "guard", "action": evil, "name": evil, "message": evil, "id": evil, "step": 1},
        {"event": "guard", "action": "warn", "message": "", "because": [evil], "fix": evil},
        {"event": "phase", "name": evil, "seconds": 1.0},
        {"event": "samples", "lines": [evil]},
        {"event": "server", "state": evil, "url": evil},
        {"event": "server", "state": "died", "how": evil, "restart": evil, "of": evil},
    ):
        progress.show(event)
    assert "<redacted>" in echo.getvalue()
    assert not any(one in echo.getvalue() for one in (TOKEN, "\x1b", "\x07", "\u202e"))


def test_a_file_name_with_a_line_break_begins_no_finding() -> None:
    text = finding_text(Finding("TRU001", "error", "no\r"), "a\n::error file=b::evil.yaml")
    assert len(text.splitlines()[0]) > 20
    assert not any(line.startswith("::error") for line in text.split("\n"))


@pytest.mark.hostile
def test_a_line_break_in_the_name_of_a_recipe_adds_nothing_to_the_merged_one(tmp_path: Path) -> None:
    name = "a\nlaunch: {environment: {EVIL: x}}\n#.yaml"
    place = placed(made_place(tmp_path), Attempt("named", over("")))
    (place.team / name).write_text(over(""))
    place = looked_at(place)
    ended = run_apart(place, [command("plan", name, "--recipe", "--target", STACK)])
    assert harms(place, ended) == []
    assert "launch" not in yaml.safe_load(ended.printed)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](https://evil.example/pixel.png)",
        "[click](javascript:alert(1))",
        "# A heading",
        "```\ncode",
        "a | b | c",
        "</td></table><h1>",
        "<!-- hidden",
        "- [x] done",
        "a\n---\nlicense: mit",
        "\u202eevil\x1b[2J",
    ],
)
def test_a_description_is_text_on_the_card(text: str) -> None:
    shown = plain(text)
    assert "<" not in shown
    assert "\n" not in shown
    assert all(one.isprintable() for one in shown)
    assert not any(f"{before}{one}" in shown for one in "[`" for before in " !" if f"\\{one}" not in shown)
    assert plain(text)[:1] not in "#-"


def test_ordinary_words_of_a_card_stay_as_they_are() -> None:
    text = "GSM8K with Qwen2.5-0.5B: 50% & more, a_b (LoRA), 1 > 0"
    assert plain(text) == text


@pytest.mark.stack
def test_tables_of_completions_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.worker.completions.kept_completions import redact_completions

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    kept = {
        "prompt": deque([[{"role": "user", "content": TOKEN}]], maxlen=4),
        "completion": deque([f"a {TOKEN}", "b"], maxlen=4),
        "rewards": defaultdict(deque, {"f": deque([0.5])}),
        "extra": defaultdict(deque, {"note": deque([TOKEN, 5, TOKEN.encode(), None]), TOKEN: deque(["x"])}),
    }
    around: list[Any] = []
    seams = SimpleNamespace(surround=lambda event, place, context: around.append(context), table=lambda: kept)
    redact_completions(SimpleNamespace(seams=seams))
    with around[0]():
        assert TOKEN not in str(kept)
    assert list(kept["extra"]["note"]) == ["<redacted>", 5, b"<redacted>", None]
    assert kept["completion"].maxlen == 4


@pytest.mark.stack
def test_tables_that_nothing_shows_cost_nothing() -> None:
    from grpo_recipes.worker.completions.kept_completions import redact_completions

    trainer = SimpleNamespace(log=print, log_completions=False, _logs={"prompt": deque(["a"])})
    redact_completions(trainer)
    assert trainer.log is print


TELLING = f"""
import base64, json, os, sys, urllib.parse
SECRET = os.environ["MY_PASSWORD"]
FORMS = [SECRET, json.dumps(SECRET), repr(SECRET), urllib.parse.quote(SECRET, safe=""),
         base64.b64encode(b"user:" + SECRET.encode()).decode(), os.environ["HF_TOKEN"], "{SECRET_SHAPE}"]

def f(completions, log_extra=None, **kwargs):
    for form in FORMS:
        print("told", form, flush=True)
        print("told", form, end="\\r", file=sys.stderr, flush=True)
    if log_extra is not None:
        log_extra("note", [" ".join(FORMS)] * len(completions))
    return [float(len(str(one)) % 3) for one in completions]
"""
LOGS = TRAINS + "logging: {log_completions: true, logging_steps: 1}\ngeneration: {max_completion_length: 8}\n"


@pytest.mark.stack
def test_a_run_tells_no_secret_in_any_of_its_files(tmp_path: Path, warm_python: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("telling", LOGS, {"r.py": TELLING}))
    asked = run(place, "run", "recipe.yaml")
    sha256 = asked.printed.rsplit("--allow-code ", 1)[1][:64]
    allowed = ("--out", "runs/one", "--allow-code", sha256)
    ended = run(place, "run", "recipe.yaml", *allowed, seconds=300, python=str(warm_python / "python"))
    run_folder = place.team / "runs" / "one"
    assert ended.codes == [0], ended.printed
    assert "told <redacted>" in (run_folder / "train.log").read_text()
    import pandas

    tables = [pandas.read_parquet(path).to_json() for path in run_folder.rglob("*.parquet")]
    assert any("note" in table and "redacted" in table for table in tables)
    texts = [path.read_bytes() for path in run_folder.rglob("*") if path.is_file()]
    texts += [*(table.encode() for table in tables), ended.printed.encode()]
    base = b"correct-horse-battery"
    for secret in (base, TOKEN.encode(), SECRET_SHAPE.encode(), b"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", b"OmNvcnJlY3QtaG9yc2"):
        assert not [text for text in texts if secret in text and b"SECRET = os.environ" not in text], secret
    assert json.loads((run_folder / "run.json").read_text())["status"] == "completed"
