"""Selects the completions on which an exported model is compared with the trained one."""

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
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.answering.policy import Policy, as_asked, as_trained
from grpo_recipes.worker.answering.trained import FINAL
from grpo_recipes.worker.completions.generation import answers, tokens_of_prompts
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.data.dataset import prepare_rows
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.ends.ends import Ends, ends_of, tokenizer_of
from grpo_recipes.worker.export.proof import ProofText

MOST_ROWS, MOST_TOKENS = 64, 1024
_EVALUATION, _LARGEST = "evaluation", 4 << 30


class Texts(NamedTuple):
    """Texts and their description."""

    texts: list[ProofText]
    what: str


def texts_of(plan: Plan, folder: Path, policy: Policy, scratch: Path) -> Texts:
    """Returns completions from the exported model's last evaluation, or new ones if it was not evaluated.

    Each includes its prompt's tokens, which are not compared. The last text has all tokens that the recipe added, even
    those in no completion. Raises Refused if the data cannot be read.
    """
    completions = _read_completions(plan, folder, policy) or _make_completions(plan, policy, scratch)
    added = tokenizer_of(policy).convert_tokens_to_ids(list(plan.tokenizer.add_tokens))
    if not added:
        return completions
    start = completions.texts[0].ids[:1]
    return Texts([*completions.texts, ProofText([*start, *added], 1)], f"{completions.what} and the added tokens")


def _read_completions(plan: Plan, folder: Path, policy: Policy) -> Texts | None:
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
    # A recorded prompt is rendered by the recipe's template, otherwise it is text.
    is_text = data.prompt is None or data.prompt_format == "standard"
    asked = [row["prompt"] if is_text else as_asked(data, row["prompt"]) for row in rows]
    prompts, _ = tokens_of_prompts(policy, asked)
    tokenizer = tokenizer_of(policy)
    texts = []
    for row, prompt in zip(rows, prompts, strict=True):
        completion = tokenizer(row["completion"], add_special_tokens=False)["input_ids"][:MOST_TOKENS]
        texts.append(_proof_text(prompt, [*completion, tokenizer.eos_token_id]))
    shown = ", without their images" if data.images else ""
    return Texts(texts, f"{len(texts)} completions that the run recorded at step {newest}{shown}")


def _make_completions(plan: Plan, policy: Policy, scratch: Path) -> Texts:
    how = plan.evaluation
    data, where = (plan.data, "dataset") if how is None else (how.data, how.section)
    rows = prepare_rows(data, where, scratch, 0, tokens=PromptTokens(plan, lambda: policy.processing_class, tuple))
    shown = " without their images" if data.images else ""
    prompts = [row["prompt"] for row in rows.select(range(min(len(rows), MOST_ROWS // 2)))]
    how = as_trained(plan, data, greedy=False)
    with undisturbed(policy):
        _, tokens = answers(policy, prompts, how, ends_of(policy, plan), lambda: None)
    texts = [
        _proof_text(prompt, completion[:MOST_TOKENS])
        for prompt, completion in zip(tokens_of_prompts(policy, prompts)[0], tokens, strict=True)
    ]
    return Texts(texts, f"{len(texts)} new completions{shown}, since the run recorded none,")


def _proof_text(prompt: list[int], completion: list[int]) -> ProofText:
    prompt = prompt[-MOST_TOKENS:]
    return ProofText([*prompt, *completion], len(prompt))


_WRITING = "exporting"


@contextlib.contextmanager
def write_beside(target: Path) -> Iterator[Path]:
    """Yields a new folder that is renamed to `target` if the block succeeds, and removed otherwise.

    Folders left by killed exports are removed; those of running exports are locked, and stay. Raises Refused if
    `target` exists, Mistake if no folder can be created, OSError.
    """
    refuse_taken(target)
    writing = target.with_name(f".{target.name}.{_WRITING}-{uuid.uuid4().hex[:12]}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(target)
        writing.mkdir()
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as problem:
        raise Mistake.of(
            f"{target} cannot be written: no folder can be created there",
            because=f"{target.parent}: {problem.strerror}",
            fix="-o with a folder elsewhere",
        ) from problem
    lock = os.open(writing, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield writing
        refuse_taken(target)
        os.rename(writing, target)
        sync(target.parent)
    finally:
        if writing.exists():
            remove_tree(writing.parent, writing.name)
        os.close(lock)


def refuse_taken(target: Path) -> None:
    """Raises Refused if the path exists and is not an empty folder."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise Refused.of(
            f"{target} already exists",
            because="export never overwrites anything",
            fix="-o with a folder that does not exist",
        )


def _remove_left(target: Path) -> None:
    for left in target.parent.glob(f".{target.name}.{_WRITING}-*"):
        with contextlib.suppress(OSError):
            number = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(left.parent, left.name)
            finally:
                os.close(number)


SHARD = "5GB"
ADAPTER_CONFIG = "adapter_config.json"
# The files of a trained model that an export writes itself.
_ANEW = (
    "README.md",
    "run.json",
    "grpo_run.json",
    "config.json",
    "generation_config.json",
    "training_args.bin",
)
_OF_WEIGHTS = (".safetensors", ".bin", ".index.json", ".pt")


def write_weights(model: Any, target: Path) -> None:
    """Writes the weights in files of at most 5 GB, and the model's configuration."""
    own = model.generation_config
    model.generation_config = GenerationConfig()  # transformers cannot write some that it reads; see write_ends
    model.save_pretrained(target, max_shard_size=SHARD)
    model.generation_config = own


def write_adapter(plan: Plan, folder: Path, target: Path) -> None:
    """Writes the adapter as trained, with its base by hub id and commit if it is from the hub."""
    for name in names(folder, FINAL):
        if name.startswith("adapter_"):
            _copy(folder, name, target)
    configuration = json.loads((target / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if plan.model.source == "hub" and not plan.tokenizer.add_tokens:
        configuration["base_model_name_or_path"] = plan.model.path
        configuration["revision"] = plan.model.commit or plan.model.revision
    text = json.dumps(configuration, indent=2, sort_keys=True) + "\n"
    (target / ADAPTER_CONFIG).write_text(text, encoding="utf-8")


def write_tokenizer(folder: Path, target: Path) -> None:
    """Copies the run's tokenizer, processor and chat template files."""
    for name in names(folder, FINAL):
        is_other = name in _ANEW or name.startswith("adapter_") or name.endswith(_OF_WEIGHTS)
        if is_file(folder, f"{FINAL}/{name}") and not is_other:
            _copy(folder, name, target)


def write_ends(own: Any, ends: Ends, target: Path) -> None:
    """Writes the model's generation_config.json with all tokens that end the recipe's completions.

    This includes added tokens that contain a stop string. The texts themselves are left out: with them, transformers
    requires a tokenizer in every call of `generate`.
    """
    tokens = list(dict.fromkeys([*ends.tokens, *ends.added_tokens_with_text()]))
    values = {
        **own.to_dict(),
        "eos_token_id": tokens if len(tokens) > 1 else tokens[0],
        "pad_token_id": ends.tokenizer.pad_token_id,
    }
    given_values = {name: value for name, value in values.items() if value is not None}
    (target / GENERATION_CONFIG_NAME).write_text(
        GenerationConfig.from_dict(given_values).to_json_string(), encoding="utf-8", newline="\n"
    )


def _copy(folder: Path, name: str, target: Path) -> None:
    with open_to_read(folder, f"{FINAL}/{name}") as source, (target / name).open("wb") as copy:
        shutil.copyfileobj(source, copy)
