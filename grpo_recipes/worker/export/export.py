"""Writes one export of the trained model, and proves it before it appears at its final path."""

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from peft import PeftModel

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.answering.policy import Policy
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
from grpo_recipes.worker.checkpoints.checkpoint import write_model_manifest
from grpo_recipes.worker.checkpoints.model_card import summary_of, write_files
from grpo_recipes.worker.ends.ends import Ends, ends_of
from grpo_recipes.worker.export.gguf import (
    check_reader,
    check_vocabulary,
    convert,
    refuse_another,
    unreadable,
    words_of_ends,
)
from grpo_recipes.worker.export.proof import (
    Dtypes,
    ExportProof,
    Say,
    TrainedSaid,
    blindness,
    dtype_of_proof,
    largest,
    log_probs,
    measure_trained,
    refusal,
    repeat_in_float64,
    rounding,
)
from grpo_recipes.worker.export.texts import (
    Texts,
    texts_of,
    write_adapter,
    write_beside,
    write_ends,
    write_tokenizer,
    write_weights,
)
from grpo_recipes.worker.model.adapters import with_adapter
from grpo_recipes.worker.model.build_trainer import processing_of
from grpo_recipes.worker.model.merging import merged, rounded


class ExportAsked(NamedTuple):
    """What to export. what: "model" or "adapter". dtype: of a model's weights, None to keep theirs.

    converter: llama.cpp's, to write a GGUF file next to the weights, or None.
    """

    what: str
    dtype: str | None
    place: Path
    converter: str | None = None


class _Trained(NamedTuple):
    """Facts about the trained model that are needed after it is unloaded. rows: of its embedding."""

    texts: Texts
    seen: TrainedSaid
    ends: Ends
    generation_config: Any
    rows: int
    dtype: torch.dtype


def write_export(
    plan: Plan, folder: Path, asked: ExportAsked, scratch: Path, say: Say
) -> tuple[dict[str, Any], list[Finding]]:
    """Writes an export to its final path, and returns its summary. Raises Refused if it differs from the trained model.

    In that case nothing is written. scratch: a folder that is removed afterwards.
    """
    if asked.converter is not None:
        check_reader()
    make_own_model(plan, folder)
    trained = _load_and_measure(plan, folder, asked, scratch, say)
    gc.collect()
    is_model = asked.what == "model"
    dtype = getattr(torch, asked.dtype) if is_model and asked.dtype is not None else trained.dtype
    dtypes = Dtypes(dtype, dtype_of_proof(dtype, trained.dtype, device_of(plan)) if is_model else dtype)

    def load() -> Any:
        return load_trained(plan, folder, packed=False)

    moved = rounding(load, dtypes, trained.texts.texts, trained.seen.trained, say)
    with write_beside(asked.place) as writing:
        if is_model:
            say("merging and writing the weights" if is_adapter(plan) else "writing the weights")
            model = load()
            is_adapted = isinstance(model, PeftModel)
            plain = merged(model, dtype, "--adapter exports it as it is") if is_adapted else rounded(model, dtype)
            write_weights(plain, writing)
            write_ends(trained.generation_config, trained.ends, writing)
            del model, plain
        else:
            write_adapter(plan, folder, writing)
        write_tokenizer(folder, writing)
        gc.collect()
        _check_tokens(plan, writing, trained)
        proof = _proof(_load_again(plan, folder, asked, writing), trained, moved, dtypes, say, load)
        notes = _notes(plan, asked, trained, dtype)
        gguf: dict[str, Any] | None = None
        if asked.converter is not None:
            say("converting to GGUF")
            made = convert(writing, proof.dtype, asked.converter)
            end = check_vocabulary(writing / made, trained.ends)
            gguf = {"file": made, **_proof_of_gguf(plan, writing, made, trained, moved, dtypes, say).as_json()}
            notes.append(words_of_ends(made, end, trained.ends))
        write_card(plan, folder, writing, asked.what, proof, notes)
        write_model_manifest(writing, None)
        files = {file.name: file.stat().st_size for file in sorted(writing.iterdir())}
    shown = {"what": asked.what, "dtype": proof.dtype, "proof": proof.as_json(), "gguf": gguf, "files": files}
    findings = [blindness(proof)] if proof.is_blind and is_model else []
    return {**shown, "notes": notes, "pushed": None}, findings


def _load_and_measure(plan: Plan, folder: Path, asked: ExportAsked, scratch: Path, say: Say) -> _Trained:
    say("loading the trained model")
    model = load_trained(plan, folder, packed=True)
    if asked.converter is not None and "vision_config" in getattr(model.config, "sub_configs", ()):
        raise Refused.of(
            "a GGUF file of a vision model cannot be verified here, nothing was written",
            because="transformers does not read its vision part, which llama.cpp's converter writes to a second file",
            fix="remove --gguf, and convert the exported folder: convert_hf_to_gguf.py, and again with --mmproj",
        )
    dtype = next(weight.dtype for weight in model.parameters() if weight.is_floating_point())
    if asked.what == "model" and not is_packed(plan):
        model = rounded(model, dtype_of_proof(dtype, dtype, device_of(plan)))
    policy = Policy(plan, model, processing_of(plan, str(folder / FINAL)), [])
    texts = texts_of(plan, folder, policy, scratch)
    rows = model.get_input_embeddings().weight.shape[0]
    scores = measure_trained(model, texts.texts, say)
    return _Trained(texts, scores, ends_of(policy, plan), policy.own_generation_config, rows, dtype)


def _load_again(plan: Plan, folder: Path, asked: ExportAsked, target: Path) -> Any:
    """Loads the export as its recipient would."""
    if asked.what == "adapter":
        return with_adapter(load_base(plan, folder, packed=True), target).eval()
    return load_plain(target, plan)


def _proof(
    model: Any, trained: _Trained, moved: float, dtypes: Dtypes, say: Say, load: Callable[[], Any]
) -> ExportProof:
    """Proves a written export. Raises Refused if it is not the trained model, which `load` loads again."""
    rows = model.get_input_embeddings().weight.shape[0]
    if rows != trained.rows:
        raise Refused.of(
            "the exported model is not the trained one, nothing was written",
            because=f"its embedding has {rows:,} rows, that of the trained model {trained.rows:,}",
            fix="report this as a defect of grpo-run",
        )
    say("proving what was written")
    proof = _compare_with_trained(model, trained, moved, dtypes)
    proof = repeat_in_float64(proof, load, model, dtypes, trained.texts.texts, say)
    if not proof.holds:
        raise Refused(refusal(proof))
    return proof


def _compare_with_trained(model: Any, trained: _Trained, moved: float, dtypes: Dtypes) -> ExportProof:
    if dtypes.computed != dtypes.weights:
        model = rounded(model, dtypes.computed)
    differing = largest(log_probs(model, trained.texts.texts), trained.seen.trained)
    without = trained.seen.without
    of_adapter = None if without is None else largest(without, trained.seen.trained)
    name = str(dtypes.weights).removeprefix("torch.")
    return ExportProof(trained.texts.what, len(trained.seen.trained), name, differing, moved, of_adapter)


def _proof_of_gguf(
    plan: Plan, target: Path, file: str, trained: _Trained, moved: float, dtypes: Dtypes, say: Say
) -> ExportProof:
    """Proves a GGUF file. Raises Refused if it is not the trained model, or if this cannot be decided."""
    try:
        model = load_plain(target, plan, dtypes.weights, file)
    except (ValueError, KeyError, ImportError, NotImplementedError, RuntimeError) as problem:
        raise unreadable(problem) from problem
    say("proving the GGUF file")
    proof = _compare_with_trained(model, trained, moved, dtypes)
    refuse_another(proof)
    return proof


def _check_tokens(plan: Plan, target: Path, trained: _Trained) -> None:
    """Raises Refused if the exported tokenizer gives different tokens for the same text."""
    processing, own = processing_of(plan, str(target)), trained.ends.tokenizer
    tokenizer = getattr(processing, "tokenizer", processing)
    for text in trained.texts.texts:
        words = own.decode(text.ids, skip_special_tokens=False)
        if _ids(tokenizer, words) != _ids(own, words):
            raise Refused.of(
                "the exported tokenizer is not that of the trained model, nothing was written",
                because=f"it gives different tokens for {words[:60]!r}",
                fix="report this as a defect of grpo-run",
            )


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _notes(plan: Plan, asked: ExportAsked, trained: _Trained, dtype: torch.dtype) -> list[str]:
    notes = []
    if is_packed(plan) and asked.what == "adapter":
        packing = ", ".join(f"{name}={value!r}" for name, value in (plan.arguments.BitsAndBytesConfig or {}).items())
        notes.append(f"It was trained on a quantized base model; use it with one: BitsAndBytesConfig({packing}).")
    if is_packed(plan) and asked.what == "model":
        notes.append(
            "The base weights were quantized to 4 or 8 bits during training; this export has their dequantized values, "
            f"as {str(dtype).removeprefix('torch.')}, not the weights of the base model."
        )
    if asked.what == "adapter" and plan.model.source == "folder":
        notes.append("Its base is a local folder, named in adapter_config.json, which users of the adapter also need.")
    if trained.ends.texts:
        texts = ", ".join(repr(text) for text in trained.ends.texts)
        notes.append(f"Completions also end at these texts; pass them as stop strings when generating: {texts}.")
    return notes


def write_card(plan: Plan, folder: Path, target: Path, what: str, proof: ExportProof, notes: Sequence[str]) -> None:
    """Writes README.md and run.json into an export's folder."""
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
    write_files(target, summary_of(folder, commit, export=export, **adapter))
