"""The list of engines, which start the processes of a run; engines/ has a module for each."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Asked = Literal["local", "slurm"]
"""The values of `launch.engine` in a recipe."""


class EngineKind(NamedTuple):
    """The facts about an engine that planner and run folder need; its module starts the run.

    section: of the recipe, which only this engine reads. trains_elsewhere: the planning machine's hardware says nothing
    about the training machines. of_several: the engine that replaces it for several machines. scripts: files of a run
    folder that are written for it. traces: files that it leaves there.
    """

    section: str | None = None
    trains_elsewhere: bool = False
    of_several: str | None = None
    scripts: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(of_several="by_hand"),
    "by_hand": EngineKind(),
    "slurm": EngineKind(
        section="slurm",
        trains_elsewhere=True,
        scripts=("job.sbatch",),
        traces=("slurm.log", "job.json", "job_ends.jsonl", ".submit.lock"),
    ),
}
SECTIONS = {kind.section: name for name, kind in ENGINES.items() if kind.section is not None}


def in_an_image(job: Mapping[str, object]) -> bool:
    """Whether a plan with this job trains with the stack of a container image, whatever this machine has installed."""
    return bool(job.get("container"))


def engine_for(asked: str, machines: int) -> str:
    """The engine for the one that a recipe names and its number of machines. Raises KeyError for an unknown name."""
    kind = ENGINES[asked]
    return asked if machines == 1 or kind.of_several is None else kind.of_several
