"""What is different from when a plan was made: named line by line, and a different experiment is not launched."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import REWARD, STACK, drift_of, make_project, planned, states
from support.releases import TRANSFORMERS, pinned

pytestmark = pytest.mark.slow

EXPERIMENT, MACHINE = "experiment", "machine"


def _append(file: Path, text: str) -> None:
    file.write_bytes(file.read_bytes() + text.encode())


def _own_template(model: Path) -> None:
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": "{{ messages[0].content }}"}))


def test_nothing_differs_where_nothing_changed(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines), states(lines, "cannot be verified")) == (0, {}, {})
    parts = {"model", "chat template", "dataset", "evaluation", "rewards.last_digit", "seed", "world"}
    assert parts | {"rules and facts", "training code"} <= states(lines, "same").keys()


def test_the_same_plan_is_written_again(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    again = tmp_path / "again"
    assert grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(again)).code == 0
    first, second = (json.loads((folder / "plan.json").read_text()) for folder in (run, again))
    assert (first.pop("folder"), second.pop("folder")) == (str(run), str(again))
    # the reward is that of the run folder, which nobody changes
    assert first["rewards"][0].pop("path") == str(tmp_path / "a" / "rewards.py")
    assert second["rewards"][0].pop("path") == str(run / "worker" / "user" / "rewards.py")
    assert first == second


CHANGES = [
    pytest.param(
        lambda folder: _append(folder / "model" / "model.safetensors", "x"),
        {"model": EXPERIMENT},
        "in model.safetensors",
        id="the-weights",
    ),
    pytest.param(
        lambda folder: (folder / "model" / "added.json").write_text("{}"),
        {"model": EXPERIMENT},
        "in added.json",
        id="a-file-more-in-the-model",
    ),
    pytest.param(lambda folder: shutil.rmtree(folder / "model"), {"model": EXPERIMENT}, "it was ", id="no-model"),
    pytest.param(
        lambda folder: _append(folder / "rows.jsonl", '{"question": "2+2="}\n'),
        {"dataset": EXPERIMENT},
        "8 -> 9 rows",
        id="a-row-more",
    ),
    pytest.param(lambda folder: (folder / "rows.jsonl").unlink(), {"dataset": EXPERIMENT}, "it was ", id="no-data"),
    pytest.param(
        lambda folder: _append(folder / "chat.jinja", "\n"), {"chat template": EXPERIMENT}, "", id="the-chat-template"
    ),
]


@pytest.mark.parametrize(("change", "differs", "why"), CHANGES)
def test_a_changed_file_is_another_experiment_and_is_not_launched(
    tmp_path: Path, grpo_run: Callable, change: Callable[[Path], object], differs: dict[str, str], why: str
) -> None:
    project = make_project(tmp_path / "a")
    run = planned(project, grpo_run)
    change(project)
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (2, differs)
    assert why in str(lines[next(iter(differs))]["why"])
    refused = grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(tmp_path / "again"))
    assert (refused.code, refused.out, (tmp_path / "again").exists()) == (2, "", False)
    assert f"differs (experiment)  {next(iter(differs))}" in refused.err
    is_missing = lines[next(iter(differs))]["new"] == "missing"
    accepted = grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(tmp_path / "b"), "--accept-drift")
    assert accepted.code == (2 if is_missing else 0), "what is not there cannot be accepted"
    if not is_missing:
        assert json.loads((tmp_path / "b" / "plan.json").read_text())["accept_drift"] is True


def test_the_models_own_template_is_named_beside_the_model(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a", {"tokenizer": None})
    run = planned(project, grpo_run)
    _own_template(project / "model")
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (2, {"model": EXPERIMENT, "chat template": EXPERIMENT})
    assert lines["model"]["why"] == "in tokenizer_config.json"


def test_pages_and_hidden_files_are_no_part_of_a_model(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    run = planned(project, grpo_run)
    (project / "model" / "README.md").write_text("a page")
    (project / "model" / ".gitattributes").write_text("a setting")
    assert drift_of(run, grpo_run)[0] == 0


def test_only_a_plan_has_drift_to_accept(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    refused = grpo_run(str(project / "recipe.yaml"), "--target", STACK, "--dry-run", "--accept-drift")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_other_held_out_rows_are_said_and_forbid_nothing(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    run = planned(project, grpo_run)
    _append(project / "held-out.jsonl", '{"question": "2+2="}\n')
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (0, {"evaluation": "bookkeeping"})


def test_the_run_folders_copy_of_a_reward_is_launched_and_its_changed_original_is_named(
    tmp_path: Path, grpo_run: Callable
) -> None:
    project = make_project(tmp_path / "a")
    run = planned(project, grpo_run)
    (project / "rewards.py").write_text(REWARD + "# changed\n")
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (0, {})
    assert f"{project / 'rewards.py'} has changed since" in str(lines["rewards.last_digit"]["why"])
    again = tmp_path / "again"
    assert grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(again)).code == 0
    assert (again / "worker" / "user" / "rewards.py").read_text() == REWARD


def test_a_reward_that_is_changed_wherever_it_lies_is_another_experiment(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    run = planned(project, grpo_run)
    copy = run / "worker" / "user" / "rewards.py"
    copy.write_text(REWARD + "# changed\n")
    assert drift_of(run, grpo_run)[0] == 0, "the original is as planned"
    (project / "rewards.py").write_text(REWARD + "# changed, too\n")
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines)) == (2, {"rewards.last_digit": EXPERIMENT})
    shutil.copy(run / "plan.json", tmp_path / "plan.json")
    code, lines = drift_of(tmp_path / "plan.json", grpo_run)
    assert (code, states(lines)) == (2, {"rewards.last_digit": EXPERIMENT}), "a plan alone has no copy"


OVERRIDES = [
    pytest.param("seed=8", {"seed": EXPERIMENT}, id="seed"),
    pytest.param("grpo.beta=0.1", {"grpo.beta": EXPERIMENT}, id="a-value"),
    pytest.param("training.prompts_per_step=8", {"prompts per optimizer step": EXPERIMENT}, id="the-global-batch"),
    pytest.param("rewards[0].weight=0.5", {"rewards.last_digit.weight": EXPERIMENT}, id="a-weight"),
    pytest.param("dataset.prompt='{{ question }} '", {"dataset.prompt": EXPERIMENT}, id="a-prompt"),
    pytest.param("lora=null", {"lora.r": EXPERIMENT}, id="no-adapter"),
    pytest.param("model.model_name_or_path=owner/model", {"model": EXPERIMENT}, id="another-model"),
]


@pytest.mark.parametrize(("override", "differs"), OVERRIDES)
def test_a_changed_value_is_named_by_its_key(
    tmp_path: Path, grpo_run: Callable, override: str, differs: dict[str, str]
) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    code, lines = drift_of(run, grpo_run, "--set", override)
    found = states(lines)
    assert code == 2
    assert differs.items() <= found.items()
    others = {what for what, kind in found.items() if kind == EXPERIMENT and not what.startswith("lora.")}
    assert others - differs.keys() <= {"completions per optimizer step"}


def test_another_package_of_the_same_experiment_is_the_machines(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    code, lines = drift_of(run, grpo_run, stack=STACK.replace(pinned("transformers"), "transformers==5.22.0"))
    assert (code, states(lines)) == (0, {"transformers": MACHINE})
    assert (lines["transformers"]["old"], lines["transformers"]["new"]) == (TRANSFORMERS, "5.22.0")


def test_what_a_stack_does_not_say_cannot_be_verified(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    code, lines = drift_of(run, grpo_run, stack=STACK.replace("torch==2.13.0,", "").replace("python==3.11.9,", ""))
    assert (code, states(lines)) == (0, {})
    assert states(lines, "cannot be verified") == {"python": MACHINE, "torch": MACHINE}


def test_a_package_that_cannot_express_the_experiment_is_refused_with_the_rule(
    tmp_path: Path, grpo_run: Callable
) -> None:
    project = make_project(tmp_path / "a", {"grpo": {"num_generations": 4, "loss_type": "grpo"}})
    run = planned(project, grpo_run)
    older = "trl==0.16.1,transformers==4.49.0,peft==0.15.0,gpus=0"
    refused = grpo_run(str(run), "--target", older, "--dry-run", "--out", str(tmp_path / "b"), "--accept-drift")
    assert refused.code == 2
    assert "[FCT004]" in refused.err
    assert not (tmp_path / "b").exists()


def test_another_world_gets_another_micro_batch_and_keeps_the_global_one(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    out = tmp_path / "again"
    two = STACK.replace("gpus=0", "gpus=2xH100-80GB")
    answer = grpo_run(str(run), "--target", two, "--dry-run", "--out", str(out))
    assert answer.code == 0, answer.err
    assert "differs (machine)  world" in answer.err
    first, second = (json.loads((folder / "plan.json").read_text()) for folder in (run, out))
    assert (first["world"]["num_processes"], second["world"]["num_processes"]) == (1, 2)
    sizes = [
        plan["arguments"]["GRPOConfig"]["per_device_train_batch_size"]
        * plan["arguments"]["GRPOConfig"]["gradient_accumulation_steps"]
        * plan["world"]["num_processes"]
        for plan in (first, second)
    ]
    assert sizes == [16, 16]
    changed = {row["key"] for row in second["settings"] if row not in first["settings"] and row["kind"] == EXPERIMENT}
    assert changed == set()


def test_a_world_that_cannot_keep_the_global_batch_is_refused(tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    three = STACK.replace("gpus=0", "gpus=3xH100-80GB")
    refused = grpo_run(str(run), "--target", three, "--dry-run", "--out", str(tmp_path / "b"), "--accept-drift")
    assert refused.code == 2
    assert "16 completions per step cannot be split over 3 processes [BAT001]" in refused.err


def test_trls_own_batch_fields_make_another_world_another_experiment(tmp_path: Path, grpo_run: Callable) -> None:
    training = {"max_steps": 2, "per_device_train_batch_size": 8}
    project = make_project(tmp_path / "a", {"training": training, "trl": {"gradient_accumulation_steps": 2}})
    run = planned(project, grpo_run)
    code, lines = drift_of(run, grpo_run, stack=STACK.replace("gpus=0", "gpus=2xH100-80GB"))
    assert code == 2
    assert states(lines)["completions per optimizer step"] == EXPERIMENT
    assert (lines["completions per optimizer step"]["old"], lines["completions per optimizer step"]["new"]) == (16, 32)
