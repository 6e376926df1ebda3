"""The engines: what starts the processes of a run. Here is the one list of them; engines/ has a module for each."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Asked = Literal["local", "slurm", "kubernetes", "skypilot"]
"""What `launch.engine` of a recipe takes."""


class EngineKind(NamedTuple):
    """What planner and run folder know of an engine; how it starts a run is in its module.

    section: of the recipe, which is read for this engine alone. trains_elsewhere: the hardware of the machine that
    plans says nothing about those that train. of_several: the engine that takes its place where the run has several
    machines. scripts: files of a run folder that are written for it. traces: files that it leaves there.
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
    "kubernetes": EngineKind(section="kubernetes", trains_elsewhere=True, scripts=("job.yaml",)),
    "skypilot": EngineKind(section="skypilot", trains_elsewhere=True, scripts=("task.yaml",)),
}
SECTIONS = {kind.section: name for name, kind in ENGINES.items() if kind.section is not None}


def in_an_image(job: Mapping[str, object]) -> bool:
    """Whether a plan with this job trains with the stack of an image, whatever the machine has that starts it."""
    return bool(job.get("image") or job.get("container"))


def engine_for(asked: str, machines: int) -> str:
    """The engine that starts a run for which a recipe asks for one. Raises KeyError for a name that is none."""
    kind = ENGINES[asked]
    return asked if machines == 1 or kind.of_several is None else kind.of_several
