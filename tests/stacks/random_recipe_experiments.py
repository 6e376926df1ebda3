"""GRPOConfigs of plans, built by the release at hand."""

import warnings
from pathlib import Path
from typing import Any


def _built(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What is raised, and the warnings; `differs`: arguments whose attribute has another value."""
    from trl import GRPOConfig

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = GRPOConfig(output_dir=str(folder / "out"), **arguments)
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {error}", "warnings": [], "differs": []}
    told = sorted({str(warning.message) for warning in caught})
    plain = {name: value for name, value in arguments.items() if isinstance(value, bool | int | float)}
    differs = [name for name, value in plain.items() if getattr(made, name) != value]
    return {"raised": "", "warnings": told, "differs": differs}


def built(folder: Path, *, plans: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """For each number of processes and its arguments what came of it, less what a bare GRPOConfig warns of too."""
    from transformers import TrainingArguments

    bare = _built(folder, use_cpu=True, bf16=False)
    found = []
    for processes, arguments in plans:
        TrainingArguments.world_size = property(lambda self, size=processes: size)
        one = _built(folder, **arguments)
        one["warnings"] = [told for told in one["warnings"] if told not in bare["warnings"]]
        found.append(one)
    return found
