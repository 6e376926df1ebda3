"""TensorBoard: event files below `tensorboard/` of the run folder, or in TENSORBOARD_LOGGING_DIR."""

import os
from collections.abc import Mapping

from grpo_recipes.worker.trackers.about import About

FOLDER = "tensorboard"


class Tensorboard:
    """A writer of event files; steps that are trained again count in their place."""

    def begin(self, about: About, identity: str | None) -> str:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter

        place = identity or os.environ.get("TENSORBOARD_LOGGING_DIR") or FOLDER
        self._writer = SummaryWriter(str(about.folder / place), purge_step=about.step + 1 if identity else None)
        if identity is None:
            rows = [f"| {key} | {_cell(value)} |" for key, value in about.plan.items()]
            self._writer.add_text("run_folder", about.folder.name)
            self._writer.add_text("plan", "\n".join(["| key | value |", "|---|---|", *rows]))
        return place

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, status: str) -> None:
        self._writer.close()


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
