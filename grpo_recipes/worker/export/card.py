"""The card of an export: that of the run's own model, and what the export was proved to be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.answering.trained import is_adapter
from grpo_recipes.worker.checkpoints.model_card import summary_of, write_files
from grpo_recipes.worker.export.proof import ExportProof


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
