"""MLflow. Its own variables count: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME."""

import re
from collections.abc import Mapping

from grpo_recipes.worker.trackers.about import About

_LONGEST_VALUE = 500
_AT_ONCE = 100  # the most parameters that a server takes in one call
_NOT_IN_A_NAME = re.compile(r"[^\w\-. :/]", re.ASCII)
_STATES = {"completed": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class Mlflow:
    """The active run of mlflow. A parameter is written once, so a run that goes on keeps those of its beginning."""

    def begin(self, about: About, identity: str | None) -> str:
        import mlflow

        self._mlflow = mlflow
        run = mlflow.start_run(run_id=identity, run_name=about.name if identity is None else None)
        if identity is None:
            values = {"run_folder": about.folder.name, **about.plan}
            named = [(_name(key), str(value)[:_LONGEST_VALUE]) for key, value in values.items()]
            for place in range(0, len(named), _AT_ONCE):
                mlflow.log_params(dict(named[place : place + _AT_ONCE]))
        return str(run.info.run_id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._mlflow.log_metrics({_name(key): value for key, value in figures.items()}, step=step)

    def end(self, status: str) -> None:
        self._mlflow.end_run(_STATES[status])


def _name(key: str) -> str:
    return _NOT_IN_A_NAME.sub("_", key)
