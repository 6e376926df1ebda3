"""An accelerate file for several machines becomes a recipe for as many."""

from pathlib import Path

import pytest
from taken import BASE, recipe_of, row, taken

from grpo_recipes.takeover.takeover import take_over

MACHINES = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 2
num_processes: 16
machine_rank: 1
main_process_ip: 10.0.0.7
main_process_port: 29501
rdzv_backend: c10d
same_network: false
"""


def test_gpus_are_those_of_each_machine(tmp_path: Path) -> None:
    one = taken(tmp_path, BASE, accelerate=MACHINES)
    assert one.is_complete, [row for row in one.rows if row.fate == "refused"]
    launch = {"num_nodes": 2, "gpus_per_node": 8, "main_process_ip": "10.0.0.7", "main_process_port": 29501}
    assert recipe_of(one)["launch"] == launch
    # Eight completions of each of 16 processes, in groups of eight.
    assert recipe_of(one)["training"]["prompts_per_step"] == 16


def test_processes_without_gpus_are_counted_in_all(tmp_path: Path) -> None:
    text = MACHINES.replace("MULTI_GPU", "MULTI_CPU").replace("16", "4") + "use_cpu: true\n"
    launch = recipe_of(taken(tmp_path, BASE, accelerate=text))["launch"]
    assert (launch["num_nodes"], launch["num_processes"], launch["gpus_per_node"]) == (2, 4, 0)


def test_one_machine_needs_no_address(tmp_path: Path) -> None:
    text = MACHINES.replace("num_machines: 2", "num_machines: 1").replace("machine_rank: 1", "machine_rank: 0")
    one = taken(tmp_path, BASE, accelerate=text)
    assert recipe_of(one)["launch"] == {"gpus_per_node": 16}
    assert row(one, "accelerate: main_process_ip").fate == "emulated"


def test_the_server_of_a_run_has_one_machine_more(tmp_path: Path) -> None:
    one = taken(tmp_path, BASE + "use_vllm: true\nvllm_mode: server\n", accelerate=MACHINES)
    recipe = recipe_of(one)
    assert (recipe["launch"]["num_nodes"], recipe["launch"]["gpus_per_node"]) == (3, 8)
    assert recipe["training"]["prompts_per_step"] == 16
    asked = BASE + "use_vllm: true\nvllm_mode: server\nvllm_server_host: node-7\n"
    assert recipe_of(taken(tmp_path, asked, accelerate=MACHINES))["launch"]["num_nodes"] == 2


@pytest.mark.parametrize(
    ("written", "instead", "key"),
    [
        ("16", "15", "num_processes"),
        ("16", "many", "num_processes"),
        ("num_machines: 2", "num_machines: two", "num_machines"),
    ],
)
def test_what_is_no_number_of_them_is_refused(written: str, instead: str, key: str, tmp_path: Path) -> None:
    one = taken(tmp_path, BASE, accelerate=MACHINES.replace(written, instead))
    assert row(one, f"accelerate: {key}").fate == "refused"


ONE_MACHINE = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 7\n"


@pytest.mark.parametrize(
    ("release", "keys", "gpus"),
    [
        pytest.param("trl==0.18.0", "use_vllm: false\n", 7, id="transformers generates"),
        pytest.param("trl==1.16.0", "use_vllm: true\n", 7, id="in the training processes, the default"),
        pytest.param("trl==0.15.2", "use_vllm: true\n", 7, id="in the first process"),
        pytest.param("trl==0.18.0", "use_vllm: true\nvllm_mode: colocate\n", 7, id="in the training processes"),
        pytest.param("trl==0.18.0", "use_vllm: true\nvllm_server_host: node\n", 7, id="a server of the author"),
        pytest.param("trl==0.17.0", "use_vllm: true\n", 8, id="a server alone"),
        pytest.param("trl==0.18.0", "use_vllm: true\n", 8, id="a server, the default"),
        pytest.param("trl==1.16.0", "use_vllm: true\nvllm_mode: server\n", 8, id="a server"),
    ],
)
def test_gpus_of_a_server_are_beside_those_of_the_processes(release: str, keys: str, gpus: int, tmp_path: Path) -> None:
    text = BASE + keys + "num_generations: 7\nper_device_train_batch_size: 7\n"
    recipe = recipe_of(taken(tmp_path, text, release, accelerate=ONE_MACHINE))
    assert recipe["launch"]["gpus_per_node"] == gpus
    assert recipe["training"]["prompts_per_step"] == 7


@pytest.mark.parametrize(
    ("release", "version", "fate"),
    [
        pytest.param("trl==0.14.0", 1, "refused", id="which no release then could"),
        pytest.param("trl==0.17.0", 1, "refused", id="the last that could not"),
        pytest.param("trl==0.18.0", 1, "emulated", id="the first that could"),
        pytest.param("trl==1.16.0", 2, "mapped", id="the second"),
    ],
)
def test_fsdp_is_taken_over_from_releases_that_generate_with_it(
    release: str, version: int, fate: str, tmp_path: Path
) -> None:
    text = f"distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {{fsdp_version: {version}}}\n"
    one = taken(tmp_path, BASE, release, accelerate=text)
    assert row(one, "accelerate: distributed_type").fate == fate
    assert recipe_of(one).get("distributed", {}).get("strategy") == (None if fate == "refused" else "fsdp2")


@pytest.mark.parametrize(
    ("version", "written", "fate", "settings"),
    [
        (2, "fsdp_reshard_after_forward: false", "mapped", {"reshard_after_forward": False}),
        (2, "fsdp_reshard_after_forward: 'no'", "mapped", {"reshard_after_forward": False}),
        (2, "fsdp_reshard_after_forward: true", "mapped", None),
        (2, "fsdp_reshard_after_forward: 2", "refused", None),
        (2, "fsdp_cpu_ram_efficient_loading: false", "mapped", {"cpu_ram_efficient_loading": False}),
        (2, "fsdp_sharding_strategy: SHARD_GRAD_OP", "emulated", None),
        (2, "fsdp_offload_params: true", "refused", None),
        (1, "fsdp_sharding_strategy: SHARD_GRAD_OP", "mapped", {"reshard_after_forward": False}),
        (1, "fsdp_sharding_strategy: 2", "mapped", {"reshard_after_forward": False}),
        (1, "fsdp_sharding_strategy: FULL_SHARD", "mapped", None),
        (1, "fsdp_sharding_strategy: HYBRID_SHARD", "refused", None),
        (1, "fsdp_reshard_after_forward: SHARD_GRAD_OP", "emulated", None),
    ],
)
def test_settings_of_fsdp_are_taken_over(
    version: int, written: str, fate: str, settings: dict[str, bool] | None, tmp_path: Path
) -> None:
    text = f"distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {{fsdp_version: {version}, {written}}}\n"
    one = taken(tmp_path, BASE, accelerate=text)
    assert row(one, f"accelerate: fsdp_config.{written.partition(':')[0]}").fate == fate
    assert recipe_of(one)["distributed"].get("fsdp") == settings


@pytest.mark.parametrize(("kind", "release"), [("MULTI_GPU", "trl==1.16.0"), ("FSDP", "trl==0.17.0")])
def test_settings_of_fsdp_stay_away_from_other_strategies(kind: str, release: str, tmp_path: Path) -> None:
    text = f"distributed_type: {kind}\nnum_processes: 8\nfsdp_config: {{fsdp_cpu_ram_efficient_loading: false}}\n"
    one = taken(tmp_path, BASE, release, accelerate=text)
    assert row(one, "accelerate: fsdp_config.fsdp_cpu_ram_efficient_loading").fate == "emulated"
    assert "fsdp" not in recipe_of(one).get("distributed", {})


@pytest.mark.parametrize("release", ["trl==0.16.0", "trl==0.19.1"])
def test_a_loss_of_the_micro_batch_keeps_its_cut(release: str, tmp_path: Path) -> None:
    text = BASE + "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n"
    one = taken(tmp_path, text, release, accelerate=ONE_MACHINE)
    training = recipe_of(one)["training"]
    assert recipe_of(one)["grpo"]["loss_type"] == "bnpo"
    assert training["cut"] == {"processes": 7, "per_device_train_batch_size": 8}
    assert (training["prompts_per_step"], "per_device_train_batch_size" in training) == (14, False)
    default = row(one, f"loss_type (the default of trl {release.removeprefix('trl==')})")
    assert (default.fate, default.where) == ("emulated", ("grpo.loss_type", "training.cut"))
    assert row(one, "per_device_train_batch_size").where == ("training.cut.per_device_train_batch_size",)


def test_a_loss_without_a_cut_keeps_the_batch_of_any_machine(tmp_path: Path) -> None:
    text = BASE + "per_device_train_batch_size: 8\nloss_type: dapo\n"
    assert "cut" not in recipe_of(taken(tmp_path, text, accelerate=ONE_MACHINE))["training"]


def test_processes_of_the_command_line_win_over_those_of_the_file(tmp_path: Path) -> None:
    text = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n"
    (tmp_path / "beside.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "config.yaml").write_text(f"{BASE}num_processes: 4\n", encoding="utf-8")
    config, beside = str(tmp_path / "config.yaml"), str(tmp_path / "beside.yaml")
    for accelerate in (None, beside):
        one = take_over(config, accelerate=accelerate, processes=7, written_for="trl==1.16.0")
        assert recipe_of(one)["launch"]["gpus_per_node"] == 7
        assert (row(one, "--num-processes").fate, row(one, "num_processes").because) == (
            "mapped",
            "--num-processes wins",
        )


@pytest.mark.parametrize(("release", "fate"), [("trl==0.17.0", "refused"), ("trl==1.16.0", "mapped")])
def test_fsdp_by_its_name_in_trl_is_the_same(release: str, fate: str, tmp_path: Path) -> None:
    one = taken(tmp_path, BASE + "accelerate_config: fsdp1\n", release)
    assert row(one, "accelerate_config").fate == fate
