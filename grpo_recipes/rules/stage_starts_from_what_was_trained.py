"""A recipe that starts from a run finds the trained model there.

`model.from_run` names a run folder with its trained model, one of its checkpoints, or a LoRA adapter of PEFT: a folder,
or a hub id in the local cache. TRL itself loads only whole models: it looks for anything else on the hub, or fails
because config.json is missing. The model of an adapter has to exist where the run, the adapter or `model_name_or_path`
says. The initialisations `pissa`, `olora`, `corda` and `loftq` move a part of each weight into the adapter; the model
that it was trained on is in no file, so nothing can start from it.

grpo-run compares plan, record, tokenizer, chat template, adapter_config.json and weights of a run with the content
hashes that the run wrote. A file that is damaged, edited, missing or from another run is an error. `validate` reads
files of up to 16 MiB and checks only the size of larger ones; the command that starts a run reads all of them. A run of
an older grpo-run without hashes is a warning. A copy of a trained model, an adapter or a checkpoint is compared with
its grpo_run.json, also if `model_name_or_path` names it. A folder without it, as other programs write, is accepted
unchecked.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.ancestor import NoStart, StartingPoint, ancestor_of, why_no_model, written_folder
from grpo_recipes.user_files.local_files import local_path

ID = "MDL006"
KEY, MODEL = "model.from_run", "model.model_name_or_path"
STARTS = ("pissa", "olora", "corda", "loftq")


def check(context: Context) -> Iterator[Finding]:
    named = _written(context).get("model_name_or_path")
    path = (
        local_path(named, context.source.directory(("model", "model_name_or_path"))) if isinstance(named, str) else None
    )
    if path is not None and isinstance(why := written_folder(str(named), path), NoStart):
        yield context.finding(why.message, MODEL, why.because, fix=why.fix)
    if context.value(KEY) is None:
        return
    found = ancestor_of(context.source)
    if isinstance(found, NoStart):
        yield _finding(context, found)
    elif found is not None:
        yield from _of(context, found)


def _finding(context: Context, why: NoStart) -> Finding:
    return context.finding(why.message, KEY, why.because, fix=why.fix)


def _of(context: Context, found: StartingPoint) -> Iterator[Finding]:
    is_given = "model_name_or_path" in _written(context)
    start = str(found.shape(context.facts).get("init_lora_weights")).lower()
    if found.adapter is None and is_given:
        said = f"{found.name} trained a whole model, but model_name_or_path names a different one"
        yield context.wrong(
            said, MODEL, f"{found.weights} already has the whole model, its tokenizer and its chat template"
        )
    elif found.method not in (None, "LORA"):
        because = ("grpo-run trains, continues and merges only LoRA adapters",)
        yield _finding(context, NoStart(f"{found.name} is an adapter of type {found.method}, not LORA", because))
    elif start.startswith(STARTS):
        because = (f"its init_lora_weights is {start}, which removes a part of each weight from the model",)
        fix = "train it again with init_lora_weights: true"
        yield _finding(context, NoStart(f"the model that {found.name} was trained on is in no file", because, fix))
    elif not is_given and (why := why_no_model(found)) is not None:
        yield _finding(context, why)
    elif found.is_old:
        message = f"{found.name} has no content hashes, so grpo-run cannot detect damage"
        yield context.finding(message, KEY, "an older grpo-run wrote it", severity="warning")


def _written(context: Context) -> dict[str, object]:
    model = context.source.values.get("model")
    return model if isinstance(model, dict) else {}
