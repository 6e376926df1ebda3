"""The model with the new tokens of the recipe, as a folder that all ranks start from."""

import contextlib
import stat
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from grpo_recipes.folder_files import read_text, remove_tree, status, write_whole
from grpo_recipes.integrity.digests import digests_of, sizes_in
from grpo_recipes.integrity.seal import YOU, Damaged, opened, sealed
from grpo_recipes.worker.checkpoint import put_in_place
from grpo_recipes.worker.model import trust_remote_code
from grpo_recipes.worker.planned import Plan

FILES = "files.json"
MOST_NAMES = 4
_PURPOSE = "model with new tokens"


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
    write_whole(writing, FILES, sealed(_PURPOSE, {"files": _files(writing)}))
    with contextlib.suppress(NotADirectoryError):
        remove_tree(place.parent, place.name)
    put_in_place(writing, place)


def why_not_own(place: Path) -> str | None:
    """Why a folder is not the model with new tokens as this user wrote it, None where it is."""
    try:
        found = opened(_PURPOSE, read_text(place, FILES))
        if found.signer != YOU:
            return f"its {FILES} was not written by you"
        listed, there = found.content["files"], _files(place)
    except FileNotFoundError:
        return f"it has no {FILES}, which lists what was written"
    except (OSError, ValueError, KeyError, Damaged) as problem:
        return f"it cannot be read: {problem}"
    different = sorted(name for name in listed.keys() | there.keys() if listed.get(name) != there.get(name))
    if not different:
        return None
    more = f" and {len(different) - MOST_NAMES} more" if len(different) > MOST_NAMES else ""
    return f"{', '.join(different[:MOST_NAMES])}{more} changed, came or went since it was written"


def _files(folder: Path) -> dict[str, str | None]:
    """The digest of each file below a folder but the list itself and what Python compiles; None for no regular file."""
    sizes = {name: size for name, size in sizes_in(folder).items() if name != FILES and "__pycache__" not in name}
    regular = digests_of(folder, [name for name, size in sizes.items() if size is not None])
    return {name: regular[name].sha256 if name in regular else None for name in sizes}
