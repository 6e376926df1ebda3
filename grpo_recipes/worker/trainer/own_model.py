"""The model with new tokens or a merged adapter, as a folder that all ranks, and vLLM, start from."""

import contextlib
import stat
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from grpo_recipes.contract.files.folder_files import remove_tree, status
from grpo_recipes.contract.integrity.manifest import MANIFEST, NotWhole, faults, refuse, stated_of_model
from grpo_recipes.contract.integrity.seal import YOU
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import trust_remote_code
from grpo_recipes.worker.checkpoints.checkpoint import put_in_place
from grpo_recipes.worker.checkpoints.manifest import write_model_manifest
from grpo_recipes.worker.trainer.merged_model import DTYPES, merged_model


def write_own_model(plan: Plan, place: Path) -> None:
    """Writes the model that the run starts from, with its tokenizer, to `place`, if it is not yet there.

    The adapter of model.from_run is merged into it. The tokens of `tokenizer.add_tokens` are not special, so they stay
    in the decoded text that rewards see. New embeddings are drawn around the mean of the others, from the run's seed.
    Embeddings are never made fewer: many models have spare rows. Call it before GRPOConfig is built, which under
    ZeRO-3 makes every load a collective one. What is there and was not written so by this user is made anew: the same
    model, adapter and seed give the same.
    """
    there = status(place.parent, place.name)
    if there is not None:
        because = why_not_own(place) if stat.S_ISDIR(there.st_mode) else "it is no folder of its own"
        if because is None:
            return
        print(f"{place.name} is made anew: {because}", flush=True)
    set_seed(plan.arguments.GRPOConfig["seed"])
    tokenizer, model = _merged(plan) if plan.ancestor is not None and plan.ancestor.use == "merge" else _plain(plan)
    tokenizer.add_tokens(list(plan.tokenizer.add_tokens), special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    writing = place.with_name(f".{place.name}.writing")
    remove_tree(writing.parent, writing.name)
    model.save_pretrained(writing)
    tokenizer.save_pretrained(writing)
    write_model_manifest(writing, place.parent)
    with contextlib.suppress(NotADirectoryError):
        remove_tree(place.parent, place.name)
    put_in_place(writing, place)


def _origin(plan: Plan) -> dict[str, Any]:
    revision = plan.model.commit or plan.model.revision
    return {"revision": revision, "trust_remote_code": trust_remote_code(plan)}


def _plain(plan: Plan) -> tuple[Any, Any]:
    """Tokenizer and model as they are planned."""
    origin = _origin(plan)
    tokenizer = AutoTokenizer.from_pretrained(plan.model.path, **origin)
    dtype = {key: value for key, value in plan.arguments.model_init_kwargs.items() if key in DTYPES}
    return tokenizer, AutoModelForCausalLM.from_pretrained(plan.model.path, **dtype, **origin)


def _merged(plan: Plan) -> tuple[Any, Any]:
    """Tokenizer and model with the adapter merged; the tokenizer is the adapter's own, if it brought one."""
    assert plan.ancestor is not None
    brought = plan.ancestor.source == "folder" and Path(plan.ancestor.path, "tokenizer_config.json").is_file()
    origin = _origin(plan)
    tokenizer = AutoTokenizer.from_pretrained(plan.ancestor.path if brought else plan.model.path, **origin)
    return tokenizer, merged_model(plan, plan.ancestor, origin)


def why_not_own(place: Path) -> str | None:
    """Why a folder is not such a model as this user wrote it, None where it is."""
    try:
        listed, signer = stated_of_model(place)
        if signer != YOU:
            return f"its {MANIFEST} was not written by you"
        refuse(faults(place, listed, contents=True))
    except FileNotFoundError:
        return f"it has no {MANIFEST}, which lists what was written"
    except NotWhole as problem:
        return str(problem)
    return None
