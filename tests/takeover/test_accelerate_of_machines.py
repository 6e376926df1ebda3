"""An accelerate file for several machines becomes a recipe for as many."""

from pathlib import Path

import pytest
from taken import BASE, recipe_of, row, taken

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
    [("16", "15", "num_processes"), ("num_machines: 2", "num_machines: two", "num_machines")],
)
def test_what_is_no_number_of_them_is_refused(written: str, instead: str, key: str, tmp_path: Path) -> None:
    one = taken(tmp_path, BASE, accelerate=MACHINES.replace(written, instead))
    assert row(one, f"accelerate: {key}").fate == "refused"
