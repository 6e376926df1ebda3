"""What the worker makes equal on every stack: the order of the rows, resumed runs, prompts, what draws completions.

On older releases by the shims prompt_order (SHM011), prompt_tokens (SHM014) and generation_cache (SHM015).
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory, Outcome
from rendered import Rendered, rendered
from resumed_runs import trained_lines, weights
from small_model import PAD, WORDS, write_small_model
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

NEWEST = STACKS[-1]
# trl 0.16 has no other loss than bnpo.
OTHERS = [stack for stack in STACKS if not stack.startswith("0.16.")]
# The checkpoint is between two lines of figures, in the second epoch.
ROWS, PER_STEP, EPOCHS, SAVED, PER_LINE = 11, 2, 3, 7, 3
STEPS = ROWS // PER_STEP * EPOCHS
OWN_SAMPLING = {
    "do_sample": False,  # with a temperature: transformers 4 reads such a file and refuses to write it
    "temperature": 0.1,
    "top_k": 1,
    "repetition_penalty": 3.0,
    "no_repeat_ngram_size": 2,
    "transformers_version": "4.51.0",  # transformers 4.50 to 4.57 let files of 4.50 and newer win
}


def inputs(folder: Path, sampling: dict[str, Any] | None = None) -> Path:
    """A folder with the model and eleven rows, whose prompts all differ."""
    write_small_model(folder / "model", sampling)
    letters = WORDS[-ROWS:]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"question": letter * 3}) + "\n" for letter in letters))
    return folder


def made(stack: str, folder: Path, rows: Path, **changes: Any) -> Rendered:
    """The run folder of a few short steps of two groups of two."""
    training = {
        "prompts_per_step": PER_STEP,
        "per_device_train_batch_size": "auto" if stack.startswith("0.14.") else 2 * PER_STEP,
        "max_steps": 2,
        "learning_rate": 1e-3,
        **changes.pop("training", {}),
    }
    rewards, without = changes.pop("rewards", None), changes.pop("without", ())
    sources = changes.pop("datasets", None)
    sections = {"grpo": {"num_generations": 2, "beta": 0.0}, "generation": {"max_completion_length": 6}, **changes}
    wanted = recipe(rows, "grpo", "full", training=training, **sections)
    if sources is not None:
        wanted = {name: one for name, one in wanted.items() if name != "dataset"} | {"datasets": sources}
    found = rendered(wanted if rewards is None else wanted | {"rewards": rewards}, stack, folder, without)
    assert found.errors == ()
    return found


def trained(laboratory: Laboratory, stack: str, run: Rendered) -> Outcome:
    outcome = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(run.folder), resume=False)
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    return outcome


def epochs(
    laboratory: Laboratory, stack: str, folder: Path, iterations: int = 1, without: tuple[str, ...] = ()
) -> tuple[list[list[int]], Path]:
    """The prompts of three epochs in their order, and the run folder. iterations: steps that train a generation."""
    changes = {"max_steps": None, "num_train_epochs": EPOCHS, "save_steps": SAVED * iterations}
    short = {"generation": {"max_completion_length": 2}, "logging": {"logging_steps": PER_LINE}}
    loss = {"num_generations": 2, "beta": 0.0, "num_iterations": iterations}
    run = made(stack, folder / "it", inputs(folder / "rows"), training=changes, grpo=loss, without=without, **short)
    found = trained(laboratory, stack, run).result["prompts"]
    assert run.folder is not None
    return found, run.folder


def forget_after(run: Path) -> None:
    """Leaves the run as it was when it was killed after its first checkpoint."""
    for checkpoint in (run / "checkpoints").iterdir():
        if checkpoint.name != f"checkpoint-{SAVED}":
            shutil.rmtree(checkpoint)
    shutil.rmtree(run / "final")


@pytest.fixture(scope="session")
def newest_order(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """The prompts of three epochs of the newest stack."""
    return epochs(laboratory, NEWEST, tmp_path_factory.mktemp("order"))[0]


@pytest.mark.parametrize("stack", OTHERS)
def test_rows_come_in_the_same_whole_steps_over_epochs_and_after_a_resume(
    stack: str, newest_order: list[list[int]], laboratory: Laboratory, tmp_path: Path
) -> None:
    found, run = epochs(laboratory, stack, tmp_path)
    assert found == newest_order
    assert len(found) == STEPS * PER_STEP
    record = json.loads((run / "run.json").read_text())
    assert (record["step"], record["max_steps"]) == (STEPS, STEPS)

    lines, tensors = trained_lines(run), weights(run)
    forget_after(run)
    resumed = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(run), resume=True)
    assert resumed.result is not None and resumed.result["exit_code"] == 0, resumed.output[-4000:]
    assert resumed.result["prompts"] == found[SAVED * PER_STEP :]
    assert trained_lines(run) == lines
    assert weights(run) == tensors != {}


@pytest.mark.parametrize("stack", ["0.14.0/4.48.3", "0.15.2/4.48.3", "0.19.1/4.52.4"])
def test_without_the_shim_rows_come_in_other_steps(
    stack: str, newest_order: list[list[int]], laboratory: Laboratory, tmp_path: Path
) -> None:
    found, run = epochs(laboratory, stack, tmp_path, without=("prompt_order",))
    planned_steps = json.loads((run / "run.json").read_text())["max_steps"]
    assert (found, planned_steps) != (newest_order, STEPS), "the defect is gone: remove the shim"


@pytest.mark.parametrize("stack", ["0.19.1/4.52.4"])
def test_rows_that_are_trained_twice_come_in_the_same_steps(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    found, newest = (epochs(laboratory, each, tmp_path / each, iterations=2)[0] for each in (stack, NEWEST))
    assert found == newest


@pytest.mark.parametrize("stack", OTHERS)
def test_a_plain_prompt_begins_with_the_tokenizers_own_token(
    stack: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    rows = inputs(tmp_path / "rows")
    path = rows / "model" / "tokenizer.json"
    first = {"SpecialToken": {"id": PAD, "type_id": 0}}
    adds = {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {PAD: {"id": PAD, "ids": [WORDS.index(PAD)], "tokens": [PAD]}},
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": adds}))
    data = {"path": str(rows / "rows.jsonl"), "prompt": "{{ question }}", "prompt_format": "standard"}

    run = made(stack, tmp_path / "it", rows, dataset=data)
    prompts = trained(laboratory, stack, run).result["prompts"]

    letters = [WORDS.index(letter) for letter in WORDS[-ROWS:]]
    assert len(prompts) == 4
    assert all(prompt[0] == WORDS.index(PAD) and prompt[1:] in [[each] * 3 for each in letters] for prompt in prompts)
    if "prompt_tokens" not in run.shims:
        return
    assert run.folder is not None
    before, after = (
        json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"]
        for folder in (rows / "model", run.folder / "final")
    )
    assert after.removesuffix("Fast") == before.removesuffix("Fast")
    run = made(stack, tmp_path / "without", rows, dataset=data, without=("prompt_tokens",))
    prompts = trained(laboratory, stack, run).result["prompts"]
    assert all(prompt in [[each] * 3 for each in letters] for prompt in prompts), "the defect is gone"


@pytest.mark.parametrize("shape", ["conversational", "standard"])
@pytest.mark.parametrize("stack", OTHERS)
def test_the_same_rows_are_chosen_by_the_tokens_that_the_policy_gets(
    stack: str, shape: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    rows, letters, around = inputs(tmp_path / "rows"), WORDS[-ROWS:], 3 if shape == "conversational" else 0
    questions = [letter * count for count, letter in enumerate(letters, start=1)]
    (rows / "rows.jsonl").write_text("".join(json.dumps({"question": each}) + "\n" for each in questions))
    data = {
        "path": str(rows / "rows.jsonl"),
        "prompt": "{{ question }}",
        "prompt_format": shape,
        "filter": f"{{{{ prompt_tokens > {around + 2} and question != '{questions[4]}' }}}}",
        "max_prompt_tokens": {"limit": around + 9},
        "shuffle_seed": 3,
        "max_rows": 4,
    }
    found = trained(laboratory, stack, made(stack, tmp_path / "it", rows, dataset=data)).result["prompts"]
    of_letters = [sum(letter in map(WORDS.__getitem__, prompt) for prompt in found) for letter in letters]
    assert {len(prompt) - around for prompt in found} <= set(range(3, 10))
    # The first four of the order 6 5 9 0 8 2 1 3 4 7 10, of those with three to nine letters and not five.
    assert [place for place, times in enumerate(of_letters) if times] == [2, 5, 6, 8]
    assert [times for times in of_letters if times] == [1] * 4


@pytest.mark.parametrize("stack", [stack for stack in OTHERS if not stack.startswith(("0.14.", "0.15."))])
def test_rows_are_trained_in_the_order_of_a_column(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    rows, letters = inputs(tmp_path / "rows"), WORDS[-ROWS:]
    levels = [(7 * place) % ROWS for place in range(ROWS)]
    content = [{"question": letter, "level": level} for letter, level in zip(letters, levels, strict=True)]
    (rows / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    data = {"path": str(rows / "rows.jsonl"), "prompt": "{{ question }}", "sort_by": "level"}
    found = trained(laboratory, stack, made(stack, tmp_path / "it", rows, dataset=data)).result["prompts"]
    drawn = [
        place for prompt in found for place, letter in enumerate(letters) if letter in map(WORDS.__getitem__, prompt)
    ]
    assert [levels[place] for place in dict.fromkeys(drawn)] == list(range(len(dict.fromkeys(drawn))))
    assert len(set(drawn)) >= 2


def completions(
    laboratory: Laboratory, stack: str, folder: Path, rows: Path, prompts: int = 1, **changes: Any
) -> list[list[int]]:
    """What the first step draws. One prompt is drawn in one call on every release. changes: of the training."""
    without, size = changes.pop("without", ()), 8 * prompts
    changes = {"gradient_checkpointing": False, **changes}
    training = {"prompts_per_step": prompts, "per_device_train_batch_size": size, **changes}
    run = made(stack, folder, rows, training=training, grpo={"num_generations": 8, "beta": 0.0}, without=without)
    result = trained(laboratory, stack, run).result
    assert result["checkpoints"] == changes["gradient_checkpointing"], "also after the policy has generated"
    drawn: list[list[int]] = result["completions"][:size]
    return drawn


@pytest.fixture(scope="session")
def newest_drawn(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """What the newest stack draws for the first prompt."""
    folder = tmp_path_factory.mktemp("drawn")
    return completions(laboratory, NEWEST, folder / "it", inputs(folder / "rows"))


@pytest.mark.parametrize("stack", ["0.15.2/4.48.3"])
def test_checkpointing_does_not_reach_what_is_drawn(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    rows = inputs(tmp_path / "rows")
    questions = [{"question": letter * (2 * count + 1)} for count, letter in enumerate(WORDS[-ROWS:])]
    (rows / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    plain = completions(laboratory, stack, tmp_path / "plain", rows, 2)
    checkpointed = {"gradient_checkpointing": True}
    assert completions(laboratory, stack, tmp_path / "checkpointed", rows, 2, **checkpointed) == plain
    training = {"prompts_per_step": 2, "per_device_train_batch_size": 16, **checkpointed}
    groups = {"num_generations": 8, "beta": 0.0}
    run = made(stack, tmp_path / "others", rows, training=training, grpo=groups, without=("generation_cache",))
    outcome = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(run.folder), resume=False)
    assert outcome.result["completions"][:16] != plain, "the defect is gone: remove the shim"
    assert outcome.result["exit_code"] == 3
    assert "generation: the proof failed in step 1 [PRF038]" in outcome.output


@pytest.mark.parametrize("stack", ["0.15.2/4.48.3", "0.23.1/4.57.6", NEWEST])
def test_the_models_own_sampling_is_neither_used_nor_lost(
    stack: str, newest_drawn: list[list[int]], laboratory: Laboratory, tmp_path: Path
) -> None:
    rows = inputs(tmp_path / "rows", OWN_SAMPLING)
    run = tmp_path / "it"
    assert completions(laboratory, stack, run, rows) == newest_drawn
    record = json.loads((run / "run" / "run.json").read_text())
    ignored = {name: value for name, value in OWN_SAMPLING.items() if name not in ("transformers_version", "do_sample")}
    assert {name: record["generation_config_ignored"].get(name) for name in ignored} == ignored
    saved = json.loads((run / "run" / "final" / "generation_config.json").read_text())
    assert {name: saved.get(name) for name in ignored} == ignored


@pytest.mark.parametrize("stack", [OTHERS[0], "0.26.2/4.57.6", NEWEST])
def test_an_asynchronous_reward_is_waited_for(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    rows = inputs(tmp_path / "rows")
    (rows / "mine.py").write_text(
        "import asyncio\n\n\n"
        "async def letters(completions, **kwargs):\n"
        "    await asyncio.sleep(0)\n"
        "    return [float(len(completion[0]['content'])) for completion in completions]\n"
    )
    run = made(stack, tmp_path / "it", rows, rewards=[{"python": str(rows / "mine.py:letters")}])
    trained(laboratory, stack, run)
    metrics = json.loads((tmp_path / "it" / "run" / "run.json").read_text())["metrics"]
    assert 0 < metrics["rewards/letters/mean"] == metrics["reward"] <= 6


@pytest.mark.parametrize("stack", OTHERS)
def test_a_trained_adapter_is_merged_and_exported(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    run = made(stack, tmp_path / "it", inputs(tmp_path / "rows"), lora={"r": 4, "target_modules": "all-linear"})
    outcome = laboratory.run(stack, "worker_experiments.exported", run_folder=str(run.folder))
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(outcome.result or ()), outcome.output[-4000:]


SHUFFLING = [stack for stack in STACKS if stack.startswith(("0.19.", "0.23.", "0.26.", "1."))]


def mixture(laboratory: Laboratory, stack: str, folder: Path) -> tuple[list[list[int]], Path]:
    """The prompts of a mixture in their order, and the run folder."""
    rows, letters = inputs(folder / "rows"), WORDS[-ROWS:]
    (rows / "others.jsonl").write_text("".join(json.dumps({"word": each * 4}) + "\n" for each in letters[:5]))
    sources = [
        {"source": "rows", "path": str(rows / "rows.jsonl"), "prompt": "{{ question }}", "weight": 2.0},
        {"source": "others", "path": str(rows / "others.jsonl"), "prompt": "{{ word }}", "weight": 1.0, "from_step": 4},
    ]
    training = {"max_steps": 12, "save_steps": SAVED}
    run = made(stack, folder / "it", rows, training=training, datasets=sources)
    assert run.folder is not None
    return trained(laboratory, stack, run).result["prompts"], run.folder


@pytest.fixture(scope="session")
def newest_mixture(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """The prompts of a mixture on the newest stack."""
    return mixture(laboratory, NEWEST, tmp_path_factory.mktemp("mixture"))[0]


@pytest.mark.parametrize("stack", SHUFFLING)
def test_a_mixture_comes_in_the_same_order_and_goes_on_in_it(
    stack: str, newest_mixture: list[list[int]], laboratory: Laboratory, tmp_path: Path
) -> None:
    found, run = mixture(laboratory, stack, tmp_path)
    assert found == newest_mixture
    is_other = [len([token for token in prompt if token in map(WORDS.index, WORDS[-ROWS:])]) == 4 for prompt in found]
    assert not any(is_other[: 3 * PER_STEP]) and sum(is_other[3 * PER_STEP :]) == 9 * PER_STEP // 3

    lines, tensors = trained_lines(run), weights(run)
    forget_after(run)
    resumed = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(run), resume=True)
    assert resumed.result is not None and resumed.result["exit_code"] == 0, resumed.output[-4000:]
    assert resumed.result["prompts"] == found[SAVED * PER_STEP :]
    assert trained_lines(run) == lines
    assert weights(run) == tensors != {}
