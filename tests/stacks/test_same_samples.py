"""With transformers' generation on the CPU every stack that accepts a recipe samples the same tokens at each step."""

from pathlib import Path
from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory
from rendered import rendered
from small_model import write_small_model
from stacks_table import SAME_SAMPLES, StacksTable
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

STEPS = 4
NEWEST = STACKS[-1]
# A user's model folder may ask for another sampling than the recipe does.
OTHER_SAMPLING = {
    "do_sample": True,
    "temperature": 0.1,
    "top_k": 1,
    "repetition_penalty": 3.0,
    "transformers_version": "4.51.0",  # transformers 4.50 to 4.57 let files of 4.50 and newer win
}
# trl 0.16 has only bnpo, trl 0.14 one prompt in a micro-batch, and one draw serves one micro-batch there.
CASES = [
    *((stack, 1, "plain") for stack in STACKS if not stack.startswith("0.16.")),
    *((stack, 2, "plain") for stack in STACKS if not stack.startswith(("0.14.", "0.16."))),
    *((stack, 1, "other sampling") for stack in STACKS if not stack.startswith("0.16.")),
]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model with a plain generation_config.json and with one that says otherwise; both with the rows."""
    made = {}
    for name, sampling in {"plain": None, "other sampling": OTHER_SAMPLING}.items():
        made[name] = tmp_path_factory.mktemp("samples")
        write_small_model(made[name] / "model", sampling)
        rows = "".join(f'{{"question": "{a}+{b}="}}\n' for a in range(2, 20, 6) for b in range(3, 12, 4))
        (made[name] / "rows.jsonl").write_text(rows)
    return made


def sampled(laboratory: Laboratory, stack: str, inputs: Path, prompts: int, folder: Path) -> dict[str, Any]:
    """What a stack generates in four steps of AdamW."""
    changes = {
        "grpo": {"num_generations": 8, "beta": 0.0},
        "generation": {"max_completion_length": 10, "temperature": 0.8},
        "training": {
            "prompts_per_step": prompts,
            "per_device_train_batch_size": 8 * prompts,
            "learning_rate": 1e-2,
            "optim": "adamw_torch",
            "max_steps": STEPS,
        },
    }
    made = rendered(recipe(inputs, "grpo", "full", **changes), stack, folder)
    assert made.errors == ()
    outcome = laboratory.run(stack, "trained_runs.samples", run_folder=str(made.folder))
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    result: dict[str, Any] = outcome.result
    return result


@pytest.fixture(scope="session")
def newest(
    laboratory: Laboratory, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Any]:
    """The same of the newest stack, by the prompts of a step."""
    return {
        prompts: sampled(laboratory, NEWEST, folders["plain"], prompts, tmp_path_factory.mktemp("newest") / "it")
        for prompts in (1, 2)
    }


@pytest.mark.parametrize(("stack", "prompts", "says"), CASES, ids=[f"{s}-{p} prompts-{m}" for s, p, m in CASES])
def test_the_samples_are_those_of_the_newest_stack(
    stack: str,
    prompts: int,
    says: str,
    folders: dict[str, Path],
    newest: dict[int, dict[str, Any]],
    laboratory: Laboratory,
    stacks_table: StacksTable,
    tmp_path: Path,
) -> None:
    found = sampled(laboratory, stack, folders[says], prompts, tmp_path / "it")
    same = found["generated"] == newest[prompts]["generated"]
    label = f"{prompts} prompt{'s' * (prompts > 1)} a step" + (", other generation_config" if says != "plain" else "")
    stacks_table.fill(stack, SAME_SAMPLES, "identical" if same else "other", label)
    assert len(found["generated"]) == STEPS
    assert found["generated"] == newest[prompts]["generated"]
    assert found["distance"] == pytest.approx(newest[prompts]["distance"], rel=1e-4)
    assert len({str(tokens) for step in found["generated"] for tokens in step}) > STEPS  # they are samples
