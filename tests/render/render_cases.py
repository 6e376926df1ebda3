"""One plan per form of launch, small and complete."""

import dataclasses
import json

from support.plans import small_plan

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import Arguments, World
from grpo_recipes.contract.plan_sections import Vllm, VllmServer
from grpo_recipes.engines.slurm_job import SlurmContainer, SlurmJob

ZERO2 = {"zero_stage": 2, "offload_optimizer_device": "none", "offload_param_device": "none", "extra": {}}
ZERO3_OFFLOAD = {
    "zero_stage": 3,
    "offload_optimizer_device": "cpu",
    "offload_param_device": "cpu",
    "extra": {"zero_optimization": {"overlap_comm": True}, "steps_per_print": 100},
}
ZERO2_AUTOCAST = {**ZERO2, "torch_autocast": "bfloat16"}


def plan_for(world: World, *, deepspeed: dict[str, object] | None = None, **grpo_config: object) -> Plan:
    """A plan that trains on this world; keywords are fields of GRPOConfig."""
    arguments = Arguments(GRPOConfig={"max_steps": 2, **grpo_config}, model_init_kwargs={"dtype": "float32"})
    environment = {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "it's $HOME"}
    return small_plan(world, arguments=arguments, deepspeed=deepspeed, environment=environment)


def beside_a_server(plan: Plan, *gpus: int) -> Plan:
    """The plan with a vLLM server of its own on these GPUs."""
    server = VllmServer(("-m", "vllm", "serve", "{model}"), {}, gpus, None, 600, 2)
    return dataclasses.replace(plan, vllm=Vllm("server", "bfloat16", server=server))


def beside_a_server_node(plan: Plan, *gpus: int) -> Plan:
    """The plan with a vLLM server that has these GPUs of one machine more."""
    plan = beside_a_server(plan, *gpus)
    assert plan.vllm is not None and plan.vllm.server is not None
    server = dataclasses.replace(plan.vllm.server, own_node=True)
    return dataclasses.replace(plan, vllm=dataclasses.replace(plan.vllm, server=server))


def with_slurm(plan: Plan, slurm: SlurmJob) -> Plan:
    """The plan as a job of Slurm."""
    job = json.loads(json.dumps(dataclasses.asdict(slurm)))  # as plan.json has it
    return dataclasses.replace(plan, world=dataclasses.replace(plan.world, engine="slurm"), job=job)


CASES: dict[str, Plan] = {
    "single_cpu": plan_for(World("local", 1, 1, "cpu", "single"), bf16=False),
    "single_cuda": plan_for(World("local", 1, 1, "cuda", "single"), bf16=True),
    "ddp_cpu_2": plan_for(World("local", 1, 2, "cpu", "ddp")),
    "ddp_cuda_8": dataclasses.replace(plan_for(World("local", 1, 8, "cuda", "ddp"), bf16=True), environment={}),
    "zero2_cpu_2": plan_for(World("local", 1, 2, "cpu", "zero2"), deepspeed=ZERO2, bf16=True),
    "zero2_autocast_cuda_8": plan_for(World("local", 1, 8, "cuda", "zero2"), deepspeed=ZERO2_AUTOCAST, bf16=True),
    "zero3_offload_cuda_8": plan_for(World("local", 1, 8, "cuda", "zero3"), deepspeed=ZERO3_OFFLOAD, bf16=True),
    "fsdp2_cuda_8": plan_for(World("local", 1, 8, "cuda", "fsdp2"), bf16=True),
    "nodes_2_ddp_cuda_8": plan_for(World("by_hand", 2, 16, "cuda", "ddp"), bf16=True),
    "nodes_2_zero3_cuda_8": plan_for(World("by_hand", 2, 16, "cuda", "zero3"), deepspeed=ZERO3_OFFLOAD, bf16=True),
    "nodes_2_ddp_cpu": plan_for(World("by_hand", 2, 2, "cpu", "ddp")),
    "nodes_2_zero2_cpu": plan_for(World("by_hand", 2, 2, "cpu", "zero2"), deepspeed=ZERO2),
    "nodes_2_and_server_node": beside_a_server_node(plan_for(World("by_hand", 2, 16, "cuda", "ddp"), bf16=True), 0, 1),
    "node_and_server_node": beside_a_server_node(plan_for(World("local", 1, 8, "cuda", "ddp"), bf16=True), 0, 1),
    "server_cpu": beside_a_server(plan_for(World("local", 1, 1, "cpu", "single"))),
    "server_cuda_1_of_4": beside_a_server(plan_for(World("local", 1, 3, "cuda", "ddp"), bf16=True), 3),
    "server_cuda_1_of_2": beside_a_server(plan_for(World("local", 1, 1, "cuda", "single"), bf16=True), 1),
    "slurm_nodes_2_cpu": with_slurm(
        plan_for(World("by_hand", 2, 2, "cpu", "ddp")), SlurmJob(None, None, None, None, 0, None, None, 60, 10)
    ),
    "slurm_nodes_2_cuda_8": with_slurm(
        plan_for(World("by_hand", 2, 16, "cuda", "ddp"), bf16=True),
        SlurmJob(
            "low,high",
            "team",
            "long",
            "1-00:00:00",
            8,
            "h100",
            64,
            600,
            10,
            {"exclusive": True, "comment": "ours # not theirs", "mem": "0"},
        ),
    ),
    "slurm_node_1_cuda_1": with_slurm(
        plan_for(World("local", 1, 1, "cuda", "single"), bf16=True),
        SlurmJob("low", None, None, "60", 1, None, 8, 600, 0),
    ),
    "slurm_nodes_2_cuda_8_pyxis": with_slurm(
        plan_for(World("by_hand", 2, 16, "cuda", "ddp"), bf16=True),
        SlurmJob(
            *(None, None, None, None, 8, None, None, 600, 10),
            container=SlurmContainer("nvcr.io#team/run:1", "pyxis", ("/data", "/it's here:/b:ro")),
        ),
    ),
    "slurm_server_node_apptainer": with_slurm(
        beside_a_server_node(plan_for(World("local", 1, 1, "cuda", "single"), bf16=True), 0),
        SlurmJob(
            *(None, None, None, None, 1, None, None, 600, 10),
            container=SlurmContainer("/images/a b.sif", "apptainer", (), "/opt/venv/bin/python"),
        ),
    ),
    "slurm_nodes_2_and_server_node": with_slurm(
        beside_a_server_node(plan_for(World("by_hand", 2, 16, "cuda", "ddp"), bf16=True), *range(8)),
        SlurmJob("low", None, None, "240", 8, None, 64, 600, 10),
    ),
}
