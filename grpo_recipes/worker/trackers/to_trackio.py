"""Trackio. Its own variables count: TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL."""

from collections.abc import Mapping

from grpo_recipes.worker.trackers.about import About


class Trackio:
    """The run that trackio has open. Trackio finds runs by their names alone, so it is named by its run folder."""

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
