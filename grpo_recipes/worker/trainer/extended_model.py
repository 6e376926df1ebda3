"""The model with the new tokens of the recipe, as a folder that all ranks start from."""

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


def write_extended_model(plan: Plan, place: Path) -> None:
    """Writes model and tokenizer with the tokens of `tokenizer.add_tokens` to `place`, if they are not yet there.

    They are not special, so they stay in the decoded text that rewards see. New embeddings are drawn
    around the mean of the others, from the run's seed. Embeddings are never made fewer: many models have
    spare rows. Call it before GRPOConfig is built, which under ZeRO-3 makes every load a collective one.
    What is there and was not written so by this user is made anew: the same model and seed give the same.
    """
    there = status(place.parent, place.name)
    if there is not None:
        because = why_not_own(place) if stat.S_ISDIR(there.st_mode) else "it is no folder of its own"
        if because is None:
            return
        print(f"{place.name} is made anew: {because}", flush=True)
    set_seed(plan.arguments.GRPOConfig["seed"])
    origin: dict[str, Any] = {
        "revision": plan.model.commit or plan.model.revision,
        "trust_remote_code": trust_remote_code(plan),
    }
    tokenizer = AutoTokenizer.from_pretrained(plan.model.path, **origin)
    tokenizer.add_tokens(list(plan.tokenizer.add_tokens), special_tokens=False)
    dtype = {key: value for key, value in plan.arguments.model_init_kwargs.items() if key in ("dtype", "torch_dtype")}
    model = AutoModelForCausalLM.from_pretrained(plan.model.path, **dtype, **origin)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    writing = place.with_name(f".{place.name}.writing")
    remove_tree(writing.parent, writing.name)
    model.save_pretrained(writing)
    tokenizer.save_pretrained(writing)
    write_model_manifest(writing)
    with contextlib.suppress(NotADirectoryError):
        remove_tree(place.parent, place.name)
    put_in_place(writing, place)


def why_not_own(place: Path) -> str | None:
    """Why a folder is not the model with new tokens as this user wrote it, None where it is."""
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
