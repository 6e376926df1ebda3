"""Numbers of steps that a configuration says as a share of all."""

import math
from collections.abc import Mapping


def whole_steps(values: Mapping[str, object], share: object) -> int | None:
    """The steps of a share where the configuration says max_steps, else None.

    Source: transformers 5.23.0, trainer_callback.py: TrainerState.compute_steps.
    """
    most = values.get("max_steps")
    known = isinstance(most, int) and not isinstance(most, bool) and most > 0
    if not known or not isinstance(share, float) or not 0 < share < 1:
        return None
    return math.ceil(int(str(most)) * share)
