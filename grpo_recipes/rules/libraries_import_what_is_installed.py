"""No key makes a library import a module, or write outside the run folder.

PEFT imports the modules in megatron_core and auto_mapping; DeepSpeed's monitors and profilers create files and folders
at any path. Code may come only from rewards and from the model, which `run` lists by sha256 and asks consent for, and a
run writes only into its run folder. The one path outside that DeepSpeed needs is nvme_path.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.rules._shared.context import Context, finding_at

ID = "TRU003"
IMPORTING = ("megatron_core", "auto_mapping")
DEEPSPEED: Path = ("distributed", "deepspeed")
NEEDED = "nvme_path"


def check(context: Context) -> Iterator[Finding]:
    for name in IMPORTING:
        if context.value(f"LoraConfig.{name}") not in (None, "megatron.core"):
            because = "PEFT would import the module"
            yield _refusal(context, ("lora", name), f"lora.{name} is refused", because)
    for path in _outside(context.mapping("distributed.deepspeed"), DEEPSPEED):
        name = ".".join(map(str, path[len(DEEPSPEED) :]))
        because = "DeepSpeed writes there, and a run may write only into its run folder; use a relative path"
        yield _refusal(context, path, f"the path of {name} is outside the run folder", because)
    if context.mapping("distributed.deepspeed").get("compile"):
        because = "some releases of DeepSpeed import the module in its backend"
        yield _refusal(context, (*DEEPSPEED, "compile"), "the DeepSpeed key compile is refused", because)


def _outside(value: object, path: Path) -> Iterator[Path]:
    """Texts that name a place outside the folder that a run is started in."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != NEEDED:
                yield from _outside(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _outside(item, (*path, index))
    elif isinstance(value, str) and (value.startswith(("/", "~")) or ".." in value.split(os.sep) or "$" in value):
        yield path


def _refusal(context: Context, path: Path, message: str, because: str) -> Finding:
    return finding_at(context.source, ID, path, message, because=[because], patch=[Patch(path, remove=True)])
