"""A run that may begin anew with half the micro-batch: what its recipe says of that, and what its record does."""

from collections.abc import Mapping

from grpo_recipes.contract.run_record import RunRecord

ON_OUT_OF_MEMORY = "training.on_out_of_memory"
MICRO_BATCH = ("training", "per_device_train_batch_size")


def half_of(record: RunRecord | None) -> int | None:
    """The micro-batch to begin anew with, None where the run ended otherwise, or its recipe does not ask for it."""
    if record is None or record.status != "failed":
        return None
    for finding in record.findings or []:
        for patch in finding.get("patch") or [] if isinstance(finding, Mapping) else []:
            if patch.get("path") == [*MICRO_BATCH] and isinstance(patch.get("value"), int):
                return int(patch["value"])
    return None
