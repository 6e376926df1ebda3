"""`grpo-run export`: writes a run's trained model to a folder, after proving that it equals what was trained."""

import os
import shutil
from functools import partial

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option
from grpo_recipes.cli.options import a_run
from grpo_recipes.cli.trained_run import print_answer, read_trained_run
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import of_record
from grpo_recipes.contract.findings.findings_text import findings_text
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.trained_text import export_text

CONVERTER = "convert_hf_to_gguf.py"
DTYPES = ("float32", "bfloat16", "float16")


@click.command()
@click.argument("run", metavar="RUNDIR", shell_complete=files, callback=a_run)
@click.option(
    "-o", "--out", required=True, metavar="FOLDER", shell_complete=files, help="Output folder; it must not exist yet."
)
@click.option(
    "--adapter/--merge",
    default=False,
    help="Export only the adapter, for PEFT and vLLM, or the whole model with the adapter merged in (the default).",
)
@click.option("--dtype", type=click.Choice(DTYPES), help="Data type of the whole model's weights. Default: as trained.")
@click.option("--gguf", is_flag=True, help="Also write a GGUF file with llama.cpp's converter, and prove it equal.")
@click.option(
    "--converter",
    metavar="FILE",
    shell_complete=files,
    help="With --gguf: path of llama.cpp's convert_hf_to_gguf.py. Default: the one on PATH.",
)
@click.option("--push", metavar="OWNER/NAME", help="Push the export to the Hugging Face hub after the proof.")
@click.option("--public", is_flag=True, help="With --push: make a new repository public. Default: private.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def export(
    run: str,
    out: str,
    adapter: bool,
    dtype: str | None,
    gguf: bool,
    converter: str | None,
    push: str | None,
    public: bool,
    allowed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Export a run's trained model for transformers, PEFT and vLLM.

    The folder is only written if the exported and the trained model give the same log-probabilities for completions of
    the run. Exit codes: 0 exported, 1 not written or not pushed, 2 nothing was started, 3 the proof failed.

    \b
    grpo-run export runs/addition-20260101-120000 -o exported --dtype bfloat16
    """
    what = "adapter" if adapter else "model"
    _check_options(what, dtype, push, public=public)
    if converter is not None and not gguf:
        raise Refusal.of("--converter needs --gguf", fix="add --gguf")
    if gguf and what == "adapter":
        raise Refusal.of("--gguf needs the whole model", fix="remove --adapter")
    converter = _converter(converter) if gguf else None
    target = _place(out)
    plan, folder = read_trained_run(run, allowed, with_rewards=False)
    if what == "adapter" and plan.arguments.LoraConfig is None:
        raise Refusal.of(f"{run} has no adapter", because="it trained all weights", fix="remove --adapter")
    request: dict[str, object] = {
        "run": folder,
        "what": what,
        "dtype": dtype,
        "place": target,
        "converter": converter,
        "push": push,
        "private": not public,
    }
    from grpo_recipes.launch.worker_part import part_answer  # only needed to run something

    answer = part_answer(plan, "export.start", "export", request)
    if as_json:
        answer["shown"] = {"folder": target if answer["shown"] else None, **(answer["shown"] or {})}
    code = print_answer(answer, "export", partial(export_text, target), as_json=as_json)
    if not as_json and answer["shown"] is not None and answer["findings"]:
        click.echo(redact(findings_text([of_record(record) for record in answer["findings"]], run)), err=True)
    return code


def _place(out: str) -> str:
    """The absolute path of the export. Raises Refusal if it exists and is not an empty folder."""
    path = os.path.abspath(out)
    if not out.strip() or path == os.getcwd():
        raise Refusal.of(f"-o '{out}' is the current folder", fix="-o with the path of a new folder")
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise Refusal.of(
            f"{out} already exists",
            because="export never overwrites anything",
            fix="-o with the path of a new folder",
        )
    return path


def _converter(file: str | None) -> str:
    """llama.cpp's converter: an absolute path, or the program's name on PATH. Raises Refusal if it is missing."""
    if file is None:
        if shutil.which(CONVERTER) is not None:
            return CONVERTER
        raise Refusal.of(
            "llama.cpp's converter is not installed",
            because=f"{CONVERTER} is not on PATH",
            fix=f"--converter with the path of {CONVERTER}, which is part of llama.cpp's repository",
        )
    if not os.path.isfile(file):
        raise Refusal.of(
            f"--converter {file}: the file does not exist", fix=f"the path of {CONVERTER} in llama.cpp's repository"
        )
    return os.path.abspath(file)


def _check_options(what: str, dtype: str | None, push: str | None, *, public: bool) -> None:
    if what == "adapter" and dtype is not None:
        raise Refusal.of("--adapter exports the trained tensors unchanged", fix="--merge for a different dtype")
    if public and push is None:
        raise Refusal.of("--public needs --push", fix="add --push OWNER/NAME")
    if push is not None and push.count("/") != 1:
        raise Refusal.of(f"--push {push}: a repository has an owner and a name", fix="--push OWNER/NAME")
