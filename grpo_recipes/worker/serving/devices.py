"""Which GPUs the server and the trainer may see."""

import os
from collections.abc import Mapping, Sequence

from grpo_recipes.worker.serving.problem import ServerProblem

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible(places: Sequence[int], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variable that shows the GPUs at these places of those that this run may see; {} for no places.

    Raises ServerProblem when it may see fewer.
    """
    if not places:
        return {}
    listed = environment.get(VISIBLE)
    if listed is None:
        return {VISIBLE: ",".join(map(str, places))}
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if max(places) >= len(names):
        raise ServerProblem.of(
            f"the run needs {max(places) + 1} GPUs for trainer and vLLM server, it may see {len(names)}",
            because=f"{VISIBLE} is {listed!r}",
            fix="start it where it sees them, or plan again there",
        )
    return {VISIBLE: ",".join(names[place] for place in places)}
