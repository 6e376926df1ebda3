"""The job of a run on several machines, in the form that every cluster engine needs."""

import shlex
from dataclasses import dataclass

from grpo_recipes.contract.plan import Plan


@dataclass(frozen=True, slots=True)
class Job:
    """The machines of a job: each runs launch.sh once with its number; there may be one more for a vLLM server.

    name: one line. nodes: machines that train; server_nodes: 1 if the vLLM server has a separate machine, after those,
    else 0. processes_per_node, gpus_per_node: of each machine that trains, 0 GPUs on a CPU. port: where the first
    machine's processes accept the others; address: its name if known.
    """

    name: str
    nodes: int
    processes_per_node: int
    gpus_per_node: int
    server_nodes: int
    port: int
    address: str | None

    @property
    def all_nodes(self) -> int:
        """The total number of machines."""
        return self.nodes + self.server_nodes


def job_of(plan: Plan) -> Job:
    """The job of a plan."""
    world = plan.world
    has_server_node = plan.vllm is not None and plan.vllm.server is not None and plan.vllm.server.own_node
    per_node = world.num_processes // world.num_nodes
    return Job(
        name=" ".join(plan.name.split()),
        nodes=world.num_nodes,
        processes_per_node=per_node,
        gpus_per_node=per_node if world.device == "cuda" else 0,
        server_nodes=int(has_server_node),
        port=world.main_process_port,
        address=world.main_process_ip,
    )


def machine_commands(job: Job, folder: str, python: str, *, resume: bool) -> list[str]:
    """The commands to type on each machine, the first one first and a vLLM server's last.

    folder, python: absolute, the same on all machines. ADDRESS stands for the first machine's address if it is unknown.
    """
    start = f"PYTHON={shlex.quote(python)} bash {shlex.quote(f'{folder}/launch.sh')}"
    address, more = job.address or "ADDRESS", " --resume" if resume else ""
    numbered = [f" --node {node} --address {address} --port {job.port}" for node in range(job.nodes)]
    trainers = [f"{start}{arguments}{more}" for arguments in (numbered if job.nodes > 1 else [""])]
    return [*trainers, *[f"{start} --server --address {address}"] * job.server_nodes]
