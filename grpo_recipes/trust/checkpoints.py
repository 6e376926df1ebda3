"""Which files of a run folder's checkpoint may run code when they are read, and were not written by this user."""

import os
from pathlib import Path

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.integrity.checkpoints import KIND, judged_checkpoints, strange_pickles
from grpo_recipes.trust.code import MOST_NAMES, CodePart


def checkpoint_parts(folder: str) -> list[CodePart]:
    """The pickles of the checkpoint that the run goes on from, as one part; none where this user wrote them.

    Their contents are compared with their digests by the worker, before they are read.
    """
    for judged in judged_checkpoints(Path(folder, "checkpoints")):
        if judged.manifest is None:
            continue
        try:
            found = strange_pickles(judged.folder, judged.manifest)
        except OSError as problem:
            raise Refusal.of(
                f"{judged.folder}: its files cannot be read",
                because=str(problem.strerror or problem),
                fix="let this user read them",
            ) from problem
        if found is None:
            return []
        names, sha256 = found
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        where = os.path.join(folder, "checkpoints", judged.folder.name)
        return [CodePart(KIND, f"{where} ({', '.join(names[:MOST_NAMES])}{more})", sha256)]
    return []
