"""`grpo-run export`: what a run trained, as a folder that is handed over, proved to be what was trained."""

import json
import os
import shutil
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option
from grpo_recipes.cli.trained.trained_run import trained_run
from grpo_recipes.contract.findings.finding import of_record
from grpo_recipes.contract.findings.findings_text import bare_text, findings_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.report.trained.export_text import export_text

EXPORT, CONVERTER = "export", "convert_hf_to_gguf.py"
DTYPES = ("float32", "bfloat16", "float16")


@click.command()
@click.argument("run", metavar="RUNDIR", shell_complete=files)
@click.option(
    "-o", "--out", required=True, metavar="FOLDER", shell_complete=files, help="Where; it must not exist yet."
)
@click.option("--merge", is_flag=True, help="The whole model, an adapter merged into it (the default).")
@click.option("--adapter", is_flag=True, help="The adapter alone, for PEFT and vLLM.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Of the weights of a whole model. Default: as trained.")
@click.option("--gguf", is_flag=True, help="A GGUF file beside the weights, by llama.cpp's own converter, proved too.")
@click.option(
    "--converter",
    metavar="FILE",
    shell_complete=files,
    help="With --gguf: convert_hf_to_gguf.py of a copy of llama.cpp. Default: the one on PATH.",
)
@click.option("--push", metavar="OWNER/NAME", help="Push it to the Hugging Face hub when it is proved.")
@click.option("--public", is_flag=True, help="With --push: a new repository is public, not private.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def export(
    run: str,
    out: str,
    merge: bool,
    adapter: bool,
    dtype: str | None,
    gguf: bool,
    converter: str | None,
    push: str | None,
    public: bool,
    allowed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Hand over what a run trained, for transformers, PEFT and vLLM.

    The folder is there when log-probabilities of exported and trained model agree on completions of the run, else
    nothing is. Exits 0 exported, 1 it could not be written or pushed, 2 nothing was begun, 3 the proof refused it.

    \b
    grpo-run export runs/addition-20260101-120000 -o exported --dtype bfloat16
    """
    if merge and adapter:
        raise Refusal.of("--merge and --adapter exclude each other", fix="one of them, the other in a new folder")
    what = "adapter" if adapter else "model"
    _check_words(what, dtype, push, public=public)
    if converter is not None and not gguf:
        raise Refusal.of("--converter is for a GGUF file", fix="--gguf with it")
    if gguf and what == "adapter":
        raise Refusal.of("--gguf is for the whole model", fix="leave out --adapter")
    converter = _converter(converter) if gguf else None
    place = _place(out)
    plan, folder = trained_run(run, allowed, with_rewards=False)
    if what == "adapter" and plan.arguments.LoraConfig is None:
        raise Refusal.of(f"{run} has no adapter", because="it trained the model itself", fix="leave out --adapter")
    request: dict[str, object] = {
        "run": folder,
        "what": what,
        "dtype": dtype,
        "place": place,
        "converter": converter,
        "push": push,
        "private": not public,
    }
    answer = _answer(plan, request)
    if as_json:
        click.echo(redact(_json(place, answer)))
    else:
        _say(run, place, answer)
    return int(answer["exit_code"])


def _place(out: str) -> str:
    """Where the export will be, absolute. Raises Refusal for what is there, but an empty folder."""
    place = os.path.abspath(out)
    if not out.strip() or place == os.getcwd():
        raise Refusal.of(
            f"-o '{out}' is the folder in which this was started", fix="-o with a folder that is not there yet"
        )
    if os.path.lexists(place) and not (os.path.isdir(place) and not os.listdir(place)):
        raise Refusal.of(
            f"{out} is there already", because="an export replaces nothing", fix="-o with a folder that is not there"
        )
    return place


def _converter(file: str | None) -> str:
    """The converter of llama.cpp: a file, absolute, or the name of the program on PATH. Raises Refusal for none."""
    if file is None:
        if shutil.which(CONVERTER) is not None:
            return CONVERTER
        raise Refusal.of(
            "llama.cpp's converter is not installed here",
            because=f"no {CONVERTER} is on PATH",
            fix=f"--converter with the {CONVERTER} of a copy of llama.cpp",
        )
    if not os.path.isfile(file):
        raise Refusal.of(f"--converter {file}: there is no such file", fix=f"the {CONVERTER} of a copy of llama.cpp")
    return os.path.abspath(file)


def _check_words(what: str, dtype: str | None, push: str | None, *, public: bool) -> None:
    if what == "adapter" and dtype is not None:
        raise Refusal.of("--adapter exports what was trained as it is", fix="--merge for weights of another dtype")
    if public and push is None:
        raise Refusal.of("--public is for a repository of the hub", fix="--push OWNER/NAME with it")
    if push is not None and push.count("/") != 1:
        raise Refusal.of(f"--push {push}: a repository has an owner and a name", fix="--push OWNER/NAME")


def _answer(plan: Plan, request: dict[str, object]) -> dict[str, Any]:
    from grpo_recipes.launch.part import answer_of, temporary_folder
    from grpo_recipes.render.part_folder import write_part_folder

    with temporary_folder(EXPORT) as temporary:
        write_part_folder(plan, temporary, "export.start", request)
        return answer_of(temporary, EXPORT)


def _say(run: str, place: str, answer: dict[str, Any]) -> None:
    findings = [of_record(record) for record in answer["findings"]]
    if answer["shown"] is None:
        click.echo(redact(f"error: {bare_text(findings)}"), err=True)
        return
    click.echo(redact(export_text(place, answer["shown"])))
    if findings:
        click.echo(redact(findings_text(findings, run)), err=True)


def _json(place: str, answer: dict[str, Any]) -> str:
    shown = answer["shown"] or {}
    content = {"export": 1, "folder": place if answer["shown"] else None, **shown, "findings": answer["findings"]}
    return json.dumps(content, indent=2)
