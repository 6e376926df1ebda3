"""The completions on which an exported model is held against the trained one."""

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from transformers import GenerationConfig
from transformers.utils import GENERATION_CONFIG_NAME

from grpo_recipes.contract.files.folder_files import is_file, names, open_to_read, read_bytes, remove_tree
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.integrity.digests import sync
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import evaluation_file, read_record
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.answering.policy import Policy, as_asked, as_trained
from grpo_recipes.worker.answering.trained import FINAL
from grpo_recipes.worker.completions.generation import answers, tokens_of_prompts, undisturbed
from grpo_recipes.worker.data.dataset import prepared_rows
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.ends.ends import Ends, ends_of, tokenizer_of
from grpo_recipes.worker.export.proof import ProofText

MOST_ROWS, MOST_TOKENS = 64, 1024
_EVALUATION, _LARGEST = "evaluation", 4 << 30


class Texts(NamedTuple):
    """The texts, with what they are in words."""

    texts: list[ProofText]
    what: str


def texts_of(plan: Plan, folder: Path, policy: Policy, scratch: Path) -> Texts:
    """What the run recorded when what it handed over was last evaluated; where it was not, completions made now.

    Each has the tokens of its prompt too, which are not counted. Behind them is one text of all tokens that the recipe
    added, whether or not a completion has them. Raises Refused where the data cannot be read.
    """
    found = _recorded(plan, folder, policy) or _made(plan, policy, scratch)
    added = tokenizer_of(policy).convert_tokens_to_ids(list(plan.tokenizer.add_tokens))
    if not added:
        return found
    start = found.texts[0].ids[:1]
    return Texts([*found.texts, ProofText([*start, *added], 1)], f"{found.what} and the added tokens")


def _recorded(plan: Plan, folder: Path, policy: Policy) -> Texts | None:
    head = "" if plan.evaluation is None else evaluation_file(plan.evaluation.name, 0).removesuffix("0.jsonl")
    files = [f"{_EVALUATION}/{name}" for name in names(folder, _EVALUATION)]
    steps = [file.removeprefix(head).removesuffix(".jsonl") for file in files if file.startswith(head)]
    record = read_record(str(folder))
    last = None if record is None else record.final_step
    newest = max((int(step) for step in steps if step.isdigit() and int(step) <= (last or int(step))), default=None)
    if newest is None or plan.evaluation is None:
        return None
    file = evaluation_file(plan.evaluation.name, newest)
    lines = read_bytes(folder, file, _LARGEST).splitlines()[:MOST_ROWS]
    rows = [json.loads(line) for line in lines]
    data = plan.evaluation.data
    # A recorded prompt has the shape that a template of the recipe gave it, else it is text.
    is_text = data.prompt is None or data.prompt_format == "standard"
    asked = [row["prompt"] if is_text else as_asked(data, row["prompt"]) for row in rows]
    prompts, _ = tokens_of_prompts(policy, asked)
    tokenizer = tokenizer_of(policy)
    texts = []
    for row, prompt in zip(rows, prompts, strict=True):
        completion = tokenizer(row["completion"], add_special_tokens=False)["input_ids"][:MOST_TOKENS]
        texts.append(_spoken(prompt, [*completion, tokenizer.eos_token_id]))
    shown = ", without their images" if data.images else ""
    return Texts(texts, f"{len(texts)} completions that the run recorded at step {newest}{shown}")


def _made(plan: Plan, policy: Policy, scratch: Path) -> Texts:
    how = plan.evaluation
    data, where = (plan.data, "dataset") if how is None else (how.data, how.section)
    rows = prepared_rows(data, where, scratch, 0, tokens=PromptTokens(plan, lambda: policy.processing_class, tuple))
    shown = " without their images" if data.images else ""
    prompts = [row["prompt"] for row in rows.select(range(min(len(rows), MOST_ROWS // 2)))]
    how = as_trained(plan, data, greedy=False)
    with undisturbed(policy):
        _, tokens = answers(policy, prompts, how, ends_of(policy, plan), lambda: None)
    texts = [
        _spoken(prompt, completion[:MOST_TOKENS])
        for prompt, completion in zip(tokens_of_prompts(policy, prompts)[0], tokens, strict=True)
    ]
    return Texts(texts, f"{len(texts)} completions made now{shown}, since the run recorded none,")


def _spoken(prompt: list[int], completion: list[int]) -> ProofText:
    prompt = prompt[-MOST_TOKENS:]
    return ProofText([*prompt, *completion], len(prompt))


# The folder that an export is written in: beside its place, and there when it is whole, or not at all.


_WRITING = "exporting"


@contextlib.contextmanager
def written_beside(place: Path) -> Iterator[Path]:
    """A new folder that has the name of the place when the block ends well, and is gone when it does not.

    What exports that were killed left there is removed; that of one which is still at it is locked, and stays.
    Raises Refused where something is at the place already, Mistake where no folder can be made, OSError.
    """
    refuse_taken(place)
    writing = place.with_name(f".{place.name}.{_WRITING}-{uuid.uuid4().hex[:12]}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(place)
        writing.mkdir()
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as problem:
        raise Mistake.of(
            f"{place} cannot be written: no folder can be made there",
            because=f"{place.parent}: {problem.strerror}",
            fix="-o with a folder elsewhere",
        ) from problem
    lock = os.open(writing, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield writing
        refuse_taken(place)
        os.rename(writing, place)
        sync(place.parent)
    finally:
        if writing.exists():
            remove_tree(writing.parent, writing.name)
        os.close(lock)


def refuse_taken(place: Path) -> None:
    """Raises Refused for a place that is not free: an empty folder is."""
    if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        raise Refused.of(
            f"{place} already exists",
            because="export never overwrites anything",
            fix="-o with a folder that does not exist",
        )


def _remove_left(place: Path) -> None:
    for left in place.parent.glob(f".{place.name}.{_WRITING}-*"):
        with contextlib.suppress(OSError):
            number = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(left.parent, left.name)
            finally:
                os.close(number)


# Writes what an export consists of into a folder.


SHARD = "5GB"
ADAPTER_CONFIG = "adapter_config.json"
# Of a trained model: what an export writes anew.
_ANEW = (
    "README.md",
    "run.json",
    "grpo_run.json",
    "config.json",
    "generation_config.json",
    "training_args.bin",
)
_OF_WEIGHTS = (".safetensors", ".bin", ".index.json", ".pt")


def write_weights(model: Any, place: Path) -> None:
    """The weights in files of 5 GB at most, and the configuration of the model."""
    own = model.generation_config
    model.generation_config = GenerationConfig()  # transformers refuses to write some that it reads; see write_ends
    model.save_pretrained(place, max_shard_size=SHARD)
    model.generation_config = own


def write_adapter(plan: Plan, folder: Path, place: Path) -> None:
    """The adapter as it was trained; its base by its id and commit where it is of the hub."""
    for name in names(folder, FINAL):
        if name.startswith("adapter_"):
            _copy(folder, name, place)
    configuration = json.loads((place / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if plan.model.source == "hub" and not plan.tokenizer.add_tokens:
        configuration["base_model_name_or_path"] = plan.model.path
        configuration["revision"] = plan.model.commit or plan.model.revision
    text = json.dumps(configuration, indent=2, sort_keys=True) + "\n"
    (place / ADAPTER_CONFIG).write_text(text, encoding="utf-8")


def write_tokenizer(folder: Path, place: Path) -> None:
    """The files of tokenizer, processor and chat template, as the run left them."""
    for name in names(folder, FINAL):
        is_other = name in _ANEW or name.startswith("adapter_") or name.endswith(_OF_WEIGHTS)
        if is_file(folder, f"{FINAL}/{name}") and not is_other:
            _copy(folder, name, place)


def write_ends(own: Any, ends: Ends, place: Path) -> None:
    """The model's own generation_config.json, with all tokens that end a completion of the recipe.

    An added token that has a stop text in it is one of them. Texts themselves are not in it: transformers then asks
    every caller of `generate` for a tokenizer.
    """
    tokens = list(dict.fromkeys([*ends.tokens, *ends.added_tokens_with_text()]))
    values = {
        **own.to_dict(),
        "eos_token_id": tokens if len(tokens) > 1 else tokens[0],
        "pad_token_id": ends.tokenizer.pad_token_id,
    }
    kept = {name: value for name, value in values.items() if value is not None}
    (place / GENERATION_CONFIG_NAME).write_text(
        GenerationConfig.from_dict(kept).to_json_string(), encoding="utf-8", newline="\n"
    )


def _copy(folder: Path, name: str, place: Path) -> None:
    with open_to_read(folder, f"{FINAL}/{name}") as source, (place / name).open("wb") as copy:
        shutil.copyfileobj(source, copy)
