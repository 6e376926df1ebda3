"""The services that a run reports to, and what of metrics.jsonl they are told.

The callbacks of transformers, 4.48.3 to 5.23.0, cannot do it: they put train/ before each name, begin a new run after a
resume, write every argument with the secrets in it, and end the training when the service fails.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.integrations import integration_utils

from grpo_recipes.contract.metrics import number
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.trackers.about import About, Tracker, planned_values
from grpo_recipes.worker.trackers.to_mlflow import Mlflow
from grpo_recipes.worker.trackers.to_tensorboard import Tensorboard
from grpo_recipes.worker.trackers.to_trackio import Trackio
from grpo_recipes.worker.trackers.to_wandb import Wandb

# Service -> what reports to it, and the callback of transformers that would, under names of its own.
TRACKERS: dict[str, tuple[type[Tracker], str]] = {
    "mlflow": (Mlflow, "MLflowCallback"),
    "tensorboard": (Tensorboard, "TensorBoardCallback"),
    "trackio": (Trackio, "TrackioCallback"),
    "wandb": (Wandb, "WandbCallback"),
}
PROJECT = "huggingface"
"""What transformers groups runs by where nobody says otherwise; source: integration_utils.py of 5.23.0."""
_OF_THE_TIME = ("step", "time")


class Reports:
    """Tells each service what metrics.jsonl is told. One that fails is left out from then on, and the run goes on."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self._trackers = dict(trackers)

    def tell(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Reports the figures of an event; its end ends the run in the services."""
        told = figures(event, values)
        for name, tracker in list(self._trackers.items()):
            try:
                if told:
                    tracker.log(step, told)
                elif event == "end":
                    tracker.end(str(values.get("status")))
            except Exception as problem:
                print(f"{name} is not reported to any more: {type(problem).__name__}: {problem}", flush=True)
                del self._trackers[name]

    def fail(self) -> None:
        """Ends the run in the services as a failed one."""
        self.tell("end", 0, {"status": "failed"})
        self._trackers.clear()


def begin_reports(trainer: Any, plan: Plan, folder: Path, record: Record, step: int) -> Reports:
    """Begins, or goes on with, the run in each service of `report_to` that is known here; on the first process.

    The identities are kept in run.json. step: of the checkpoint that is gone on from, 0 for a beginning. What a service
    raises here, such as a login that is missing, ends the run before its first step.
    """
    asked = [name for name in trainer.args.report_to if name in TRACKERS]
    for name in asked:
        callback = getattr(integration_utils, TRACKERS[name][1], None)
        if callback is not None:
            trainer.remove_callback(callback)
    kept = record.read().get("trackers")
    before = kept if step and isinstance(kept, dict) else {}
    about = About(
        str(trainer.args.run_name or plan.name),
        folder,
        str(getattr(trainer.args, "project", None) or PROJECT),
        planned_values(plan),
        step,
    )
    trackers = {name: TRACKERS[name][0]() for name in asked if trainer.is_world_process_zero()}
    identities = {name: tracker.begin(about, before.get(name)) for name, tracker in trackers.items()}
    record.update(trackers=identities)
    return Reports(trackers)


def figures(event: str, values: Mapping[str, Any]) -> dict[str, float]:
    """The finite figures of an event by their names: a step's as in metrics.jsonl, of others with the event before it.

    evaluation/reward, evaluation/rewards/NAME; guards/NAME has the value that the guard was alarmed by.
    """
    if event == "step":
        return _numbers(values)
    if event == "evaluation":
        rewards = values.get("rewards")
        named = {f"rewards/{name}": value for name, value in rewards.items()} if isinstance(rewards, dict) else {}
        return {f"evaluation/{name}": value for name, value in _numbers({**values, **named}).items()}
    return _numbers({f"guards/{values.get('name')}": values.get("value")}) if event == "guard" else {}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    names = (name for name in values if name not in _OF_THE_TIME)
    return {name: value for name in names if (value := number(values, name)) is not None}
