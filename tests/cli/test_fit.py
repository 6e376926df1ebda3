"""grpo-run fit: a table for each machine, and a verdict."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.stack.probe import machine_memory

RECIPES = Path(__file__).parents[2] / "recipes"
LORA, ZERO3 = str(RECIPES / "qwen2_lora.yaml"), str(RECIPES / "qwen2_5_7b_zero3.yaml")
TESTED = ("--target", "tested,vllm==0.30.0")


def test_machines_are_compared(grpo_run: Callable) -> None:
    answer = grpo_run("fit", LORA, *TESTED, "--gpus", "1xRTX-4090, 1xA100-80GB")
    assert answer.code == 0, answer.err
    heads = [line for line in answer.out.splitlines() if ": fits" in line]
    assert [line.partition(":")[0] for line in heads] == ["1xRTX-4090", "1xA100-80GB"]
    assert "of 24.0 GiB of each GPU" in heads[0]
    assert "  = assumed: prompts of at most 512 tokens" in answer.out
    assert "  = of it 0.6 of CUDA's context; the rest is what torch allocates" in answer.out


def test_a_range_is_shown_only_if_the_length_of_prompts_is_assumed(grpo_run: Callable) -> None:
    words = ("fit", LORA, *TESTED, "--gpus", "1xA100-80GB", "--json")
    assumed = json.loads(grpo_run(*words).out)["machines"][0]
    short = json.loads(grpo_run(*words, "--set", "generation.max_prompt_length=64").out)["machines"][0]
    assert assumed["least"] == short["peak"]
    assert assumed["least"]["bytes"] < assumed["peak"]["bytes"]
    assert short["least"] is None
    assert " to " in grpo_run(*words[:-1]).out.partition("\n")[0]
    known = grpo_run(*words[:-1], "--set", "generation.max_prompt_length=64").out
    assert " to " not in known.partition("\n")[0]


@pytest.mark.parametrize("torch", ["2.13.0+cpu", "2.13.0", None])
def test_a_declared_machine_does_not_depend_on_this_ones_build_of_torch(
    torch: str | None, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_recipes.cli.commands import fit
    from grpo_recipes.stack.probe import probe

    here = probe()
    packages = {**here.packages, "torch": torch, "vllm": None}
    built_for = "" if torch else None
    here = here._replace(packages=packages, torch_cuda=built_for, driver="470.1", c_compiler=False)
    monkeypatch.setattr(fit, "choose_stack", lambda target: here)
    answer = grpo_run("fit", LORA, "--gpus", "1xH200", "--set", "generation.use_vllm=true")
    assert answer.code == 0, answer.out
    assert answer.out.startswith("1xH200: fits, "), answer.out
    assert "this machine" not in answer.out


def test_bytes_for_programs_add_up(grpo_run: Callable) -> None:
    answer = grpo_run("fit", ZERO3, *TESTED, "--gpus", "8xH100-80GB", "--json")
    machine = json.loads(answer.out)["machines"][0]
    assert machine["verdict"] in ("fits", "tight")
    assert list(machine["phases"]) == ["load", "generate", "evaluation", "score", "update", "sync", "save"]
    assert sum(machine["phases"][machine["peak"]["phase"]].values()) == machine["peak"]["bytes"]


@pytest.mark.parametrize(
    ("settings", "gpus", "verdict"),
    [
        pytest.param(
            ("model.model_name_or_path=Qwen/Qwen2.5-7B", "lora=null"), "1xRTX-4090", "does not fit", id="too large"
        ),
        pytest.param(("model.model_name_or_path=google/gemma-2-2b",), "1xA100-80GB", "unknown", id="another family"),
        pytest.param(("model.model_name_or_path=nobody/nothing",), "1xA100-80GB", "unknown", id="no config.json"),
        pytest.param((), "1", "unknown", id="no memory"),
    ],
)
def test_what_does_not_fit_or_is_not_known_is_said(
    grpo_run: Callable, settings: tuple[str, ...], gpus: str, verdict: str
) -> None:
    overrides = [word for setting in settings for word in ("--set", setting)]
    answer = grpo_run("fit", LORA, *overrides, *TESTED, "--gpus", gpus)
    assert answer.code == 1
    assert answer.out.startswith(f"{gpus}: {verdict}")


def test_a_refused_recipe_says_why(grpo_run: Callable) -> None:
    answer = grpo_run("fit", ZERO3, *TESTED, "--gpus", "1xA100-40GB")
    assert answer.code == 1
    assert answer.out.startswith("1xA100-40GB: cannot run\n  = because: the recipe asks for 8 GPUs")


@pytest.mark.parametrize("gpus", ["", "0x0x0"])
def test_machines_that_cannot_be_read_are_refused(grpo_run: Callable, gpus: str) -> None:
    assert grpo_run("fit", LORA, *TESTED, "--gpus", gpus).code == 2


def test_a_recipe_that_is_not_there_is_no_answer(grpo_run: Callable) -> None:
    answer = grpo_run("fit", "nowhere.yaml", *TESTED)
    assert (answer.code, answer.out) == (2, "")
    assert "nowhere.yaml does not exist" in answer.err


def test_a_cpu_is_judged_by_the_memory_of_this_machine(grpo_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.cli.commands import fit
    from grpo_recipes.stack.probe import probe

    here = probe()._replace(gpus=())
    monkeypatch.setattr(fit, "choose_stack", lambda target: here)
    words = ("fit", str(RECIPES / "quickstart.yaml"), "--set", "generation.max_prompt_length=14")
    two = ("--set", "launch.num_processes=2")
    for memory, more, code, verdict in (
        (8 << 30, (), 0, "fits, 0.7 of 8.0 GiB of each process in update"),
        (8 << 30, two, 0, "fits, 0.6 of 4.0 GiB of each process in update"),
        (1 << 29, (), 1, "does not fit, 0.7 of 0.5 GiB of each process"),
        (None, (), 1, "unknown, 0.7 GiB of each process"),
    ):
        monkeypatch.setattr(fit, "machine_memory", lambda memory=memory: memory)
        answer = grpo_run(*words, *more)
        assert (answer.code, answer.out.startswith(f"this stack: {verdict}")) == (code, True), answer.out
        assert "GPU" not in answer.out


@pytest.mark.processes
def test_a_run_of_a_cluster_is_not_judged_by_this_machine(grpo_run: Callable, tmp_path: Path) -> None:
    on_the_cpu = ("--set", "launch.engine=slurm", "--set", "launch.gpus_per_node=0")
    answer = grpo_run("fit", str(RECIPES / "quickstart.yaml"), *on_the_cpu)
    assert (answer.code, answer.out.startswith("the cluster: unknown, ")) == (1, True), answer.out
    node = json.loads(grpo_run("doctor", "--json").out)
    gpu = {"name": "NVIDIA H100 80GB HBM3", "memory_gib": 79.6, "capability": [9, 0]}
    node["stack"] |= {"gpus": [gpu] * 8, "driver": "580.65.06", "torch_cuda": "13.0"}
    (tmp_path / "node.json").write_text(json.dumps(node))
    words = ("fit", str(RECIPES / "qwen2_5_7b_two_nodes.yaml"), "--target", str(tmp_path / "node.json"))
    answer = grpo_run(*words)
    assert answer.out.startswith(f"{tmp_path}/node.json: fits, "), answer.out
    assert " of 79.6 GiB of each GPU" in answer.out


def test_a_declared_cpu_has_a_memory_that_nobody_knows(grpo_run: Callable) -> None:
    answer = grpo_run("fit", str(RECIPES / "quickstart.yaml"), "--target", "tested,gpus=0")
    assert answer.code == 1
    assert "  = unknown: how much memory it has\n" in answer.out


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"a/b/memory.max": "4096\n", "a/memory.max": "max\n"}, 4096, id="its own group"),
        pytest.param({"a/b/memory.max": "max\n", "a/memory.max": "2048\n"}, 2048, id="a group above it"),
        pytest.param({"memory.max": "1024\n"}, 1024, id="a container"),
        pytest.param({"memory/memory.limit_in_bytes": "512\n"}, 512, id="version 1"),
        pytest.param({}, None, id="no limit"),
    ],
)
def test_the_least_limit_of_the_control_groups_counts(
    files: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    (tmp_path / "cgroup").write_text("1:cpu:/x\n0::/a/b\n")
    found = machine_memory(tmp_path / "groups", tmp_path / "cgroup")
    assert found == expected or (expected is None and found is not None and found > 1 << 28)
