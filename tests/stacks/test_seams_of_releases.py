"""A member of an older TRL that is renamed stops the run by name, or the run stays the same."""

from pathlib import Path

import pytest
from laboratory import Laboratory
from test_worker_on_stacks import inputs, made

from grpo_recipes.contract.seams import seams_of

pytestmark = pytest.mark.stacks
MEMBERS = [
    (stack, seam.member)
    for stack in ("0.19.1/4.52.4", "0.26.2/4.57.6")
    for seam in seams_of(stack.partition("/")[0])
    if seam.owner == "trainer"
]
# Nothing of this training, which has no tools, stands around them.
WITHOUT_LAYERS = {"_move_model_to_vllm", "create_optimizer", "get_decay_parameter_names", "log"}
WITHOUT_LAYERS |= {"_generate_single_turn", "_tool_call_loop"}


@pytest.mark.parametrize(("stack", "member"), MEMBERS)
def test_a_renamed_member_is_named_or_changes_nothing(
    stack: str, member: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    rows = inputs(tmp_path / "rows")

    def trained(name: str) -> tuple[int, list[str], str]:
        run = made(stack, tmp_path / f"run-{name}", rows)
        outcome = laboratory.run(stack, "seam_experiments.renamed", run_folder=str(run.folder), member=name)
        assert outcome.result is not None, outcome.output[-4000:]
        return outcome.result["exit_code"], outcome.result["weights"], outcome.output

    exit_code, weights, output = trained(member)
    if member in WITHOUT_LAYERS:
        assert (exit_code, weights) == trained("")[:2], output[-4000:]
        return
    assert exit_code == 3, output[-4000:]
    assert f"grpo-run does not know this release: {member}" in output
