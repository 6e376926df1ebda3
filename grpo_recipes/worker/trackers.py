"""Reports metrics.jsonl to tracking services, under the same names.

The callbacks of transformers, 4.48.3 to 5.23.0, are not suitable: they put train/ before each name, begin a new run
after a resume, write every argument including secrets, and end the training if the service fails.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from grpo_recipes.contract.metrics import number, of_set
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact_value
from grpo_recipes.worker._shared.record import Record

PROJECT = "huggingface"
"""transformers' default project name; source: integration_utils.py of 5.23.0."""
_OF_THE_TIME = ("step", "time")
_LONGEST_VALUE = 500
_AT_ONCE = 100  # maximum parameters per call
_NOT_IN_A_NAME = re.compile(r"[^\w\-. :/]", re.ASCII)
_STATES = {"completed": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class About(NamedTuple):
    """A run as services see it. name: in the service; folder: the run folder; project: groups runs in the service.

    plan: every planned value without secrets, by its recipe key. step: the last valid one, of the checkpoint that the
    run resumes from; 0 for a new run.
    """

    name: str
    folder: Path
    project: str
    plan: Mapping[str, object]
    step: int = 0


class Tracker(Protocol):
    """One service."""

    def begin(self, about: About, identity: str | None) -> str:
        """Begins a run in the service, or continues the one with this identity; returns the identity to keep."""

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Reports the figures of an optimizer step."""

    def end(self, status: str) -> None:
        """Ends the run in the service: completed, interrupted or failed."""


class Mlflow:
    """Reports to the active run of mlflow. A parameter is written once, so a resumed run keeps the first values.

    MLflow's own variables apply: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME.
    """

    def begin(self, about: About, identity: str | None) -> str:
        import mlflow

        self._mlflow = mlflow
        run = mlflow.start_run(run_id=identity, run_name=about.name if identity is None else None)
        if identity is None:
            values = {"run_folder": about.folder.name, **about.plan}
            named = [(_name(key), str(value)[:_LONGEST_VALUE]) for key, value in values.items()]
            for start in range(0, len(named), _AT_ONCE):
                mlflow.log_params(dict(named[start : start + _AT_ONCE]))
        return str(run.info.run_id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._mlflow.log_metrics({_name(key): value for key, value in figures.items()}, step=step)

    def end(self, status: str) -> None:
        self._mlflow.end_run(_STATES[status])


def _name(key: str) -> str:
    return _NOT_IN_A_NAME.sub("_", key)


class Tensorboard:
    """Writes event files; steps that are trained again replace the earlier ones.

    They are in `tensorboard/` of the run folder, or in TENSORBOARD_LOGGING_DIR.
    """

    def begin(self, about: About, identity: str | None) -> str:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter

        path = identity or os.environ.get("TENSORBOARD_LOGGING_DIR") or "tensorboard"
        self._writer = SummaryWriter(str(about.folder / path), purge_step=about.step + 1 if identity else None)
        if identity is None:
            rows = [f"| {key} | {_cell(value)} |" for key, value in about.plan.items()]
            self._writer.add_text("run_folder", about.folder.name)
            self._writer.add_text("plan", "\n".join(["| key | value |", "|---|---|", *rows]))
        return path

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, status: str) -> None:
        self._writer.close()


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


class Trackio:
    """Reports to the open run of trackio. Trackio finds runs only by name, so it is named after its run folder.

    Trackio's own variables apply: TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL.
    """

    def begin(self, about: About, identity: str | None) -> str:
        import trackio

        self._trackio = trackio
        name = identity or about.folder.name
        trackio.init(
            project=about.project,
            name=name,
            config={"run_name": about.name, "run_folder": about.folder.name, **about.plan},
            resume="never" if identity is None else "allow",
            embed=False,
        )
        return name

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._trackio.log(dict(figures), step=step)

    def end(self, status: str) -> None:
        self._trackio.finish()


class Wandb:
    """Reports to the open run of wandb, which also gets TRL's tables of completions.

    Its own variables apply: WANDB_PROJECT, WANDB_MODE, WANDB_ENTITY, WANDB_DIR.
    """

    def begin(self, about: About, identity: str | None) -> str:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", about.project),
            name=about.name,
            id=identity,
            resume=None if identity is None else "allow",
            config={"run_folder": about.folder.name, "plan": dict(about.plan)},
            allow_val_change=True,
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        return str(self._run.id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._run.log({"step": step, **figures})

    def end(self, status: str) -> None:
        self._run.finish(exit_code=int(status == "failed"))


TRACKERS: dict[str, type[Tracker]] = {
    "mlflow": Mlflow,
    "tensorboard": Tensorboard,
    "trackio": Trackio,
    "wandb": Wandb,
}


class Reports:
    """Sends events of metrics.jsonl to each service. A service that fails is dropped, and the run continues."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self._trackers = dict(trackers)

    def tell(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Reports the figures of an event; an end event ends the run in the services."""
        reported = figures(event, values)
        for name, tracker in list(self._trackers.items()):
            try:
                if reported:
                    tracker.log(step, reported)
                elif event == "end":
                    tracker.end(str(values.get("status")))
            except Exception as problem:
                print(f"{name} failed and gets no more reports: {type(problem).__name__}: {problem}", flush=True)
                del self._trackers[name]

    def fail(self) -> None:
        """Ends the run in the services as failed."""
        self.tell("end", 0, {"status": "failed"})
        self._trackers.clear()


def begin_reports(trainer: Any, plan: Plan, folder: Path, record: Record, step: int) -> Reports:
    """Begins or continues the run in each known service of `report_to`, on the first process.

    The identities are kept in run.json. step: of the checkpoint to resume from, 0 for a new run. An exception from a
    service here, such as a missing login, ends the run before its first step.
    """
    asked = [name for name in trainer.args.report_to if name in TRACKERS]
    for name in asked:
        if name in INTEGRATION_TO_CALLBACK:  # older releases do not know trackio
            trainer.remove_callback(INTEGRATION_TO_CALLBACK[name])
    earlier = record.read().get("trackers")
    before = earlier if step and isinstance(earlier, dict) else {}
    about = About(
        str(trainer.args.run_name or plan.name),
        folder,
        str(getattr(trainer.args, "project", None) or PROJECT),
        values_of_plan(plan),
        step,
    )
    trackers = {name: TRACKERS[name]() for name in asked if trainer.is_world_process_zero()}
    identities = {name: tracker.begin(about, before.get(name)) for name, tracker in trackers.items()}
    record.update(trackers=identities)
    return Reports(trackers)


def figures(event: str, values: Mapping[str, Any]) -> dict[str, float]:
    """Returns an event's finite figures by name: a step's as in metrics.jsonl, others prefixed with the event.

    Examples: evaluation/reward, evaluation/rewards/NAME, and evaluation/SET/reward for one of several sets; guards/NAME
    is the value that made the guard alarm.
    """
    if event == "step":
        return _numbers(values)
    if event == "evaluation":
        rewards = values.get("rewards")
        named = {f"rewards/{name}": value for name, value in rewards.items()} if isinstance(rewards, dict) else {}
        prefix = f"evaluation{of_set(values, '/')}"
        return {f"{prefix}/{name}": value for name, value in _numbers({**values, **named}).items()}
    return _numbers({f"guards/{values.get('name')}": values.get("value")}) if event == "guard" else {}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    names = (name for name in values if name not in _OF_THE_TIME)
    return {name: value for name in names if (value := number(values, name)) is not None}


def values_of_plan(plan: Plan) -> dict[str, object]:
    """Returns a plan's values by recipe key, or by their own names if they have none."""
    values = {setting.recipe_key or setting.key: setting.value for setting in plan.settings}
    return cast("dict[str, object]", redact_value(values))
