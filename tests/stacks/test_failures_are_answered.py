"""Each of the five founding failures through grpo-run, on every stack: the same intent trains, or is refused before."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from environments import ENVIRONMENTS, ROOT, STACKS
from laboratory import OFFLINE, QUIET, Laboratory
from rendered import Rendered, rendered
from small_model import write_small_model
from stacks_table import THROUGH, StacksTable
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

Trained = Callable[[str, str, Rendered], dict[str, Any]]

LIMIT_S = 500
# Those with a deepspeed of their time, and some with that of .venv.
WITH_DEEPSPEED = [
    name
    for name in STACKS
    if "deepspeed" in ENVIRONMENTS[name].pins or name in ("0.19.1/4.52.4", "0.26.2/4.57.6", STACKS[-1])
]
# In the quick form each kind once: on a release that needs the shim for groups of tensors, and on the newest.
ZERO3 = [
    pytest.param(
        name,
        kind,
        id=f"{name}-{kind}",
        marks=() if (name, kind) in {("0.19.1/4.52.4", "LoRA"), (STACKS[-1], "full")} else pytest.mark.long,
    )
    for name in WITH_DEEPSPEED
    for kind in ("full", "LoRA")
]
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models and rows of sums."""
    folder = tmp_path_factory.mktemp("failures")
    write_small_model(folder / "model")
    rows = "".join(f'{{"question": "{a}+{b}="}}\n' for a in range(2, 20, 3) for b in range(3, 12, 2))
    (folder / "rows.jsonl").write_text(rows)
    (folder / "held_out.jsonl").write_text("".join(f'{{"question": "{a}+1="}}\n' for a in range(30, 36)))
    return folder


def made(
    stack: str, inputs: Path, folder: Path, kind: str = "full", without: tuple[str, ...] = (), **changes: Any
) -> Rendered:
    """A recipe of two steps with a loss that the stack has. without: shims to leave out."""
    training = {"max_steps": 2, "optim": "adamw_torch", "learning_rate": 1e-3, **changes.pop("training", {})}
    if stack.startswith("0.14."):
        training["per_device_train_batch_size"] = "auto"
    if stack.startswith("0.16."):
        training.setdefault("per_device_train_batch_size", 16)
    loss_type = "bnpo" if stack.startswith("0.16.") else "grpo"
    return rendered(recipe(inputs, loss_type, kind, training=training, **changes), stack, folder, without)


@pytest.fixture
def trained(laboratory: Laboratory, stacks_table: StacksTable) -> Trained:
    """What the training of a rendered recipe came to, with all its proofs. label: of the table."""

    def run(stack: str, label: str, made: Rendered) -> dict[str, Any]:
        assert made.errors == ()
        outcome = laboratory.run(stack, "trained_runs.trained", run_folder=str(made.folder))
        exit_code = "none" if outcome.result is None else outcome.result["exit_code"]
        stacks_table.fill(stack, THROUGH, "trains" if exit_code == 0 else f"exit {exit_code}", label)
        assert exit_code == 0, outcome.output[-4000:]
        result: dict[str, Any] = outcome.result
        return result

    return run


def refusal(made: Rendered) -> str:
    """What the table says of a recipe that is refused."""
    return f"refused by {', '.join(sorted(made.refused_by))}" if made.errors else "not refused"


def launched(laboratory: Laboratory, stack: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command with the packages of a stack, as its user would type it."""
    before = os.pathsep.join(map(str, ENVIRONMENTS[stack].folders()))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, **OFFLINE, **QUIET, "PYTHONPATH": before, "PATH": programs}
    before_s = children_cpu_s()
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    laboratory.cpu_s[stack] = laboratory.cpu_s.get(stack, 0.0) + children_cpu_s() - before_s
    return done


def children_cpu_s() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("stack", STACKS)
def test_0_the_loss_gets_the_logits_of_the_completion_alone(
    stack: str, inputs: Path, trained: Trained, tmp_path: Path
) -> None:
    trained(stack, "0", made(stack, inputs, tmp_path / "it"))  # PRF003 has seen their shape


@pytest.mark.parametrize("stack", ["0.14.0/4.52.4"])
def test_0_logits_that_would_be_those_of_the_prompt_are_refused(
    stack: str, inputs: Path, laboratory: Laboratory, stacks_table: StacksTable, tmp_path: Path
) -> None:
    it = made(stack, inputs, tmp_path / "it")
    stacks_table.fill(stack, THROUGH, refusal(it), "0")
    assert "STK013" in it.refused_by


@pytest.mark.parametrize(("stack", "kind"), ZERO3)
def test_1_zero3_trains_and_evaluates_with_two_processes(
    stack: str, kind: str, inputs: Path, laboratory: Laboratory, stacks_table: StacksTable, tmp_path: Path
) -> None:
    it = made(
        stack,
        inputs,
        tmp_path / "it",
        kind,
        distributed={"strategy": "zero3"},
        launch={"num_processes": 2},
        training={"per_device_train_batch_size": 8, "bf16": False},
        evaluation={"path": str(inputs / "held_out.jsonl"), "at_start": True, "every_steps": 1},
    )
    if it.errors:
        stacks_table.fill(stack, THROUGH, refusal(it), f"1 {kind}")
    if stack.startswith("0.16."):
        assert "LOS001" in it.refused_by  # all it has is bnpo, which is another loss with every number of processes
        return
    if kind == "LoRA" and stack.startswith(("0.14.", "0.15.")):
        assert it.refused_by == {"STK015"}
        return
    assert it.errors == ()
    assert ("empty_parameter_groups" in it.shims) == (kind == "LoRA" and stack != STACKS[-1])
    done = launched(laboratory, stack, ["bash", str(it.folder / "launch.sh")], tmp_path)  # type: ignore[operator]
    stacks_table.fill(stack, THROUGH, "trains" if done.returncode == 0 else f"exit {done.returncode}", f"1 {kind}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("stack", ["0.14.0/4.48.3 with deepspeed 0.16.9"])
def test_1_a_deepspeed_that_trl_cannot_use_is_refused(
    stack: str, inputs: Path, laboratory: Laboratory, stacks_table: StacksTable, tmp_path: Path
) -> None:
    it = made(
        stack,
        inputs,
        tmp_path / "it",
        distributed={"strategy": "zero3"},
        launch={"num_processes": 2},
    )
    stacks_table.fill(stack, THROUGH, refusal(it), "1")
    assert it.errors and all("deepspeed" in finding.message for finding in it.errors)


@pytest.mark.parametrize("stack", STACKS)
def test_2_a_quantized_model_trains_with_an_adapter_and_not_without(
    stack: str, inputs: Path, trained: Trained, stacks_table: StacksTable, tmp_path: Path
) -> None:
    bare = made(stack, inputs, tmp_path / "bare", quantization=NF4)
    stacks_table.fill(stack, THROUGH, refusal(bare), "2 without adapter")
    assert bare.refused_by == {"QNT001"}
    it = made(stack, inputs, tmp_path / "it", kind="LoRA", quantization=NF4)
    assert ("bnb_without_ipex" in it.shims) == (STACKS.index(stack) < STACKS.index("0.23.1/4.57.6"))
    result = trained(stack, "2", it)
    assert (result["adapters"], result["zero"]) == (14, [])


@pytest.mark.parametrize(
    ("stack", "quantization", "without", "others"),
    [
        ("0.19.1/4.52.4", NF4, (), {}),
        ("0.19.1/4.52.4", NF4, ("adapter_dtype",), {"lora_A": "float32"}),
        # On a CPU this TRL prepares 8-bit models alone.
        ("0.23.1/4.57.6", {"load_in_8bit": True}, (), {}),
        ("0.23.1/4.57.6", {"load_in_8bit": True}, ("no_kbit_preparation",), {"norm": "float32"}),
    ],
)
def test_2_a_quantized_model_has_the_dtypes_of_the_newest_release(
    stack: str,
    quantization: dict[str, Any],
    without: tuple[str, ...],
    others: dict[str, str],
    inputs: Path,
    laboratory: Laboratory,
    tmp_path: Path,
) -> None:
    has_magnitudes = quantization is NF4
    it = made(
        stack,
        inputs,
        tmp_path / "it",
        kind="LoRA",
        without=without,
        quantization=quantization,
        model={"dtype": "bfloat16"},
        lora={"use_dora": has_magnitudes},
        training={"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}},
    )
    assert it.errors == ()
    outcome = laboratory.run(stack, "trained_runs.dtypes", run_folder=str(it.folder))
    assert outcome.result["exit_code"] == 0 or without, outcome.output[-4000:]
    newest = {"lora_A": "bfloat16", "norm": "bfloat16"} | ({"lora_magnitude": "float32"} if has_magnitudes else {})
    assert outcome.result["dtypes"] == {**newest, **others}


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointed"])
@pytest.mark.parametrize("stack", STACKS)
def test_3_every_adapter_has_moved_after_two_steps(
    stack: str, checkpointing: bool, inputs: Path, trained: Trained, tmp_path: Path
) -> None:
    it = made(stack, inputs, tmp_path / "it", kind="LoRA", training={"gradient_checkpointing": checkpointing})
    result = trained(stack, "3" if checkpointing else "3 without checkpointing", it)
    assert (result["adapters"], result["zero"]) == (14, [])


@pytest.mark.parametrize("stack", STACKS)
def test_4_a_stop_ends_completion_and_mask(stack: str, inputs: Path, trained: Trained, tmp_path: Path) -> None:
    it = made(stack, inputs, tmp_path / "it", generation={"stop": ["a", "7"]})
    trained(stack, "4", it)  # PRF008 has seen every mask, but those of trl 0.14: test_completion_ends.py has


@pytest.mark.parametrize("stack", [STACKS[0], *(pytest.param(name, marks=pytest.mark.long) for name in STACKS[1:])])
def test_the_quickstart_runs_as_a_user_types_it(
    stack: str, laboratory: Laboratory, stacks_table: StacksTable, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / "quickstart.yaml"), "--out", "run"]
    small = ["training.max_steps=2", "evaluation.max_rows=16", f"grpo.loss_type={_loss(stack)}", "generation.top_k=50"]
    # trl 0.16 knows bnpo alone, which is defined by its one micro-batch
    small += ["training.per_device_train_batch_size=128"] if _loss(stack) == "bnpo" else []
    done = launched(laboratory, stack, [*command, *(word for each in small for word in ("--set", each))], tmp_path)
    stacks_table.fill(stack, THROUGH, "trains" if done.returncode == 0 else f"exit {done.returncode}", "quickstart")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def _loss(stack: str) -> str:
    return "bnpo" if stack.startswith("0.16.") else "grpo"
