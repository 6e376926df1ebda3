"""LOS001: the threshold of entropies is that of all processes, so any number of them has the gradient of one."""

from pathlib import Path

import pytest
from library import Library, environment_of_ranks
from planned import resolved

pytestmark = pytest.mark.stack


def _marked(library: Library, ranks: int) -> list[list[int]]:
    """The marks of all rows, in the order of the ranks."""
    environment = {**environment_of_ranks(ranks), "ACCELERATE_USE_CPU": "true"}
    answer = library.call("in_two_processes.marked_entropies", environment=environment, ranks=ranks)
    assert answer.raised == "", answer
    return [row for rows in answer.result for row in rows]


def test_two_processes_mark_the_tokens_that_one_marks(library: Library) -> None:
    marked = _marked(library, 2)
    assert marked == _marked(library, 1)
    assert sum(map(sum, marked[:4])) > sum(map(sum, marked[4:])) > 0


@pytest.mark.parametrize(("size", "refused"), [("auto", []), (16, []), (8, ["LOS001"])])
def test_processes_alone_are_not_refused(tmp_path: Path, size: int | str, refused: list[str]) -> None:
    training = {"prompts_per_step": 8, "max_steps": 1, "per_device_train_batch_size": size}
    resolution = resolved(tmp_path, 2, {"num_generations": 4, "top_entropy_quantile": 0.2}, training)
    assert [finding.rule for finding in resolution.findings if finding.severity == "error"] == refused
