"""Where the weights come from that a run starts from, and what they came from themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grpo_recipes.contract.files.digest import files_sha256

_WEIGHTS = (".safetensors", ".bin", ".pt")
_OF_THE_TRAINING = ("optimizer", "scheduler", "rng_state", "training_args", "reference_")


@dataclass(frozen=True, slots=True)
class Forebear:
    """A run further back. use: what the run after it made of it; weights_sha256: as of an ancestor.

    What nobody knows is None.
    """

    use: str
    name: str
    plan_sha256: str | None
    weights_sha256: str | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Ancestor:
    """What the weights come from that are trained on.

    use: "weights" of a whole model; "merge" of an adapter into its model, before the run; "continue" of an adapter;
    "extend" of a whole run, whose checkpoint lies at path, with the digests of its files.
    named: the absolute folder or hub id that the recipe names; run: the run folder, None for an adapter that another
    program left. plan_sha256: of the run's plan.json. path: of the weights, source as for a model; commit of the hub.
    files: the digest of each file of a folder, by its name, as for a model; weights_sha256: over those that hold
    weights, None where the folder was not read. quantization, dtype: under which it was trained, for a merge.
    before: what the run came from itself, the nearest first.
    """

    use: Literal["weights", "merge", "continue", "extend"]
    name: str
    named: str
    run: str | None
    plan_sha256: str | None
    step: int | None
    source: Literal["hub", "folder"]
    path: str
    commit: str | None = None
    weights_sha256: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    quantization: dict[str, object] | None = None
    dtype: str | None = None
    before: tuple[Forebear, ...] = ()


def lineage(ancestor: Ancestor | None, extends: Ancestor | None = None) -> tuple[Forebear, ...]:
    """What a run came from, the nearest first. extends: the run that it is the longer form of, which counts."""
    ancestor = extends or ancestor
    if ancestor is None:
        return ()
    own = Forebear(ancestor.use, ancestor.name, ancestor.plan_sha256, ancestor.weights_sha256, ancestor.step)
    return (own, *ancestor.before)


def weights_sha256(files: Mapping[str, str]) -> str | None:
    """One digest over the files that hold weights, whatever lies beside them; None where none does."""
    held = [(name, files[name]) for name in sorted(files) if _holds_weights(name)]
    return files_sha256(held) if held else None


def _holds_weights(name: str) -> bool:
    return name.endswith(_WEIGHTS) and not name.rpartition("/")[2].startswith(_OF_THE_TRAINING)
