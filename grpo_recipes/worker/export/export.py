"""One export from the trained model to the folder in its place, proved before it is there."""

import gc
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from peft import PeftModel

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.answering.policy import Policy, processing_of
from grpo_recipes.worker.answering.trained import (
    FINAL,
    device_of,
    is_adapter,
    is_packed,
    load_base,
    load_plain,
    load_trained,
    make_own_model,
)
from grpo_recipes.worker.checkpoints.manifest import write_model_manifest
from grpo_recipes.worker.checkpoints.model_card import summary_of, write_files
from grpo_recipes.worker.ends.ends import Ends, ends_of
from grpo_recipes.worker.export.gguf import (
    Gguf,
    check_reader,
    check_vocabulary,
    convert,
    refuse_another,
    unreadable,
    words_of_ends,
)
from grpo_recipes.worker.export.progress import Stages
from grpo_recipes.worker.export.proof import (
    Dtypes,
    ExportProof,
    TrainedSaid,
    blindness,
    computed_in,
    largest,
    log_probs,
    refusal,
    rounding,
    seen,
)
from grpo_recipes.worker.export.texts import (
    Texts,
    texts_of,
    write_adapter,
    write_ends,
    write_tokenizer,
    write_weights,
    written_beside,
)
from grpo_recipes.worker.trainer.own_model import merged, rounded


class ExportAsked(NamedTuple):
    """What is to be exported. what: "model" or "adapter". dtype: of a model's weights, None for that they have.

    converter: llama.cpp's, for a GGUF file beside a model's weights, None for none.
    """

    what: str
    dtype: str | None
    place: Path
    converter: str | None = None


class Exported(NamedTuple):
    """What was written. notes: what has to be known of it, in whole sentences. gguf: None where none was asked for."""

    what: str
    dtype: str
    proof: ExportProof
    gguf: Gguf | None
    files: dict[str, int]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


class _Trained(NamedTuple):
    """What is known of the trained model when it is out of memory. rows: of its embedding."""

    texts: Texts
    seen: TrainedSaid
    ends: Ends
    generation_config: Any
    rows: int
    dtype: torch.dtype


def exported(plan: Plan, folder: Path, asked: ExportAsked, scratch: Path, progress: Stages) -> Exported:
    """Writes an export to its place. Raises Refused, with nothing there, where it is not what was trained.

    scratch: a folder that is removed afterwards.
    """
    if asked.converter is not None:
        check_reader()
    make_own_model(plan, folder)
    trained = _trained(plan, folder, asked, scratch, progress)
    gc.collect()
    dtype = trained.dtype if asked.dtype is None or asked.what == "adapter" else getattr(torch, asked.dtype)
    dtypes = Dtypes(dtype, dtype if asked.what == "adapter" else computed_in(dtype, trained.dtype, device_of(plan)))

    def load() -> Any:
        return load_trained(plan, folder, packed=False)

    moved = rounding(load, dtypes, trained.texts.texts, trained.seen.trained, progress)
    with written_beside(asked.place) as writing:
        if asked.what == "adapter":
            write_adapter(plan, folder, writing)
        else:
            progress.stage("merging and writing the weights" if is_adapter(plan) else "writing the weights")
            _write_model(load(), dtype, writing)
        write_tokenizer(folder, writing)
        gc.collect()
        if asked.what != "adapter":
            write_ends(trained.generation_config, trained.ends, writing)
        again = _loads(plan, folder, asked, writing)
        proof = _proof(plan, again, trained, moved, dtypes, writing, progress)
        notes = _notes(plan, asked, trained, dtype)
        gguf = None
        if asked.converter is not None:
            progress.stage("converting to GGUF")
            made = convert(writing, proof.dtype, asked.converter)
            end = check_vocabulary(writing / made, trained.ends)
            gguf = Gguf(made, _proof_of_gguf(plan, writing, made, trained, moved, dtypes, progress))
            notes.append(words_of_ends(made, end, trained.ends))
        write_card(plan, folder, writing, asked.what, proof, notes)
        write_model_manifest(writing, None)
        for file in writing.iterdir():
            shutil.copymode(writing / "README.md", file)  # safetensors lets nobody else read its files
        files = {file.name: file.stat().st_size for file in sorted(writing.iterdir())}
    findings = (blindness(proof),) if proof.is_blind and asked.what == "model" else ()
    return Exported(asked.what, proof.dtype, proof, gguf, files, tuple(notes), findings)


def _trained(plan: Plan, folder: Path, asked: ExportAsked, scratch: Path, progress: Stages) -> _Trained:
    progress.stage("loading the trained model")
    model = load_trained(plan, folder, packed=True)
    dtype = next(weight.dtype for weight in model.parameters() if weight.is_floating_point())
    if asked.what == "model" and not is_packed(plan):
        model = rounded(model, computed_in(dtype, dtype, device_of(plan)))
    policy = Policy(plan, model, processing_of(plan, folder / FINAL), [])
    texts = texts_of(plan, folder, policy, scratch)
    rows = model.get_input_embeddings().weight.shape[0]
    said = seen(model, texts.texts, progress)
    return _Trained(texts, said, ends_of(policy, plan), policy.own_generation_config, rows, dtype)


def _write_model(model: Any, dtype: torch.dtype, place: Path) -> None:
    is_adapted = isinstance(model, PeftModel)
    plain = merged(model, dtype, "--adapter exports it as it is") if is_adapted else rounded(model, dtype)
    write_weights(plain, place)


def _loads(plan: Plan, folder: Path, asked: ExportAsked, place: Path) -> Callable[[], Any]:
    """How the export is loaded by whoever gets it."""
    if asked.what == "adapter":
        return lambda: PeftModel.from_pretrained(load_base(plan, folder, packed=True), str(place)).eval()
    return lambda: load_plain(place, plan)


def _proof(
    plan: Plan,
    load: Callable[[], Any],
    trained: _Trained,
    moved: float,
    dtypes: Dtypes,
    place: Path,
    progress: Stages,
) -> ExportProof:
    """The proof of a written export. Raises Refused where it is not the trained model."""
    _check_tokens(plan, place, trained)
    model = load()
    rows = model.get_input_embeddings().weight.shape[0]
    if rows != trained.rows:
        raise Refused.of(
            "the exported model is not the trained one, nothing was written",
            because=f"its embedding has {rows:,} rows, that of the trained model {trained.rows:,}",
            fix="report this as a defect of grpo-run",
        )
    progress.stage("proving what was written", len(trained.texts.texts))
    proof = _held_against(model, trained, moved, dtypes, progress)
    if not proof.holds:
        raise Refused(refusal(proof))
    return proof


def _held_against(model: Any, trained: _Trained, moved: float, dtypes: Dtypes, progress: Stages) -> ExportProof:
    if dtypes.computed != dtypes.weights:
        model = rounded(model, dtypes.computed)
    differing = largest(log_probs(model, trained.texts.texts, progress.count), trained.seen.trained)
    without = trained.seen.without
    of_adapter = None if without is None else largest(without, trained.seen.trained)
    name = str(dtypes.weights).removeprefix("torch.")
    return ExportProof(trained.texts.what, len(trained.seen.trained), name, differing, moved, of_adapter)


def _proof_of_gguf(
    plan: Plan, place: Path, file: str, trained: _Trained, moved: float, dtypes: Dtypes, progress: Stages
) -> ExportProof:
    """The proof of a GGUF file. Raises Refused where it is not the trained model, or nobody can tell."""
    try:
        model = load_plain(place, plan, dtypes.weights, file)
    except (ValueError, KeyError, ImportError, NotImplementedError, RuntimeError) as problem:
        raise unreadable(problem) from problem
    progress.stage("proving the GGUF file", len(trained.texts.texts))
    proof = _held_against(model, trained, moved, dtypes, progress)
    refuse_another(proof)
    return proof


def _check_tokens(plan: Plan, place: Path, trained: _Trained) -> None:
    """Raises Refused where the exported tokenizer gives other tokens for the same text."""
    processing, own = processing_of(plan, place), trained.ends.tokenizer
    tokenizer = getattr(processing, "tokenizer", processing)
    for text in trained.texts.texts:
        words = own.decode(text.ids, skip_special_tokens=False)
        if _ids(tokenizer, words) != _ids(own, words):
            raise Refused.of(
                "the exported tokenizer is not that of the trained model, nothing was written",
                because=f"it gives other tokens for {words[:60]!r}",
                fix="report this as a defect of grpo-run",
            )


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _notes(plan: Plan, asked: ExportAsked, trained: _Trained, dtype: torch.dtype) -> list[str]:
    notes = []
    if is_packed(plan) and asked.what == "adapter":
        packing = ", ".join(f"{name}={value!r}" for name, value in (plan.arguments.BitsAndBytesConfig or {}).items())
        notes.append(f"It was trained beside packed weights, and belongs to these: BitsAndBytesConfig({packing}).")
    if is_packed(plan) and asked.what == "model":
        notes.append(
            "The weights beside the adapter were packed into 4 or 8 bits when it was trained; here they are what was "
            f"computed with, as {str(dtype).removeprefix('torch.')}, and not the weights of the base model."
        )
    if asked.what == "adapter" and plan.model.source == "folder":
        notes.append("Its base is a local folder, which adapter_config.json names and who gets the adapter needs.")
    if trained.ends.texts:
        texts = ", ".join(repr(text) for text in trained.ends.texts)
        notes.append(
            f"A completion ends at these texts too, which whoever generates has to name as stop texts: {texts}."
        )
    return notes


def write_card(plan: Plan, folder: Path, place: Path, what: str, proof: ExportProof, notes: Sequence[str]) -> None:
    """Writes README.md and run.json into the folder of an export."""
    record = cast("dict[str, Any]", read_json(folder, "run.json"))
    commit = (record.get("verified") or {}).get("model.commit")
    export = {
        "what": what,
        "merged": what == "model" and is_adapter(plan),
        "dtype": proof.dtype,
        "completions": proof.completions,
        "tokens": proof.tokens,
        "difference": proof.difference,
        "rounding": proof.rounding,
        "of_adapter": proof.of_adapter,
        "notes": list(notes),
    }
    adapter = {} if what == "adapter" else {"adapter": None}
    write_files(place, summary_of(folder, commit, export=export, **adapter))
