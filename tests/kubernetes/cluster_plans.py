"""Plans of twelve shipped recipes for a cluster, from one machine on the CPU to two with eight GPUs each."""

import dataclasses
from typing import Any

import yaml

from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.base import engine_of
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target

# Each recipe with the GPUs of each machine.
RECIPES = {
    "recipes/quickstart.yaml": 0,
    "recipes/calculator.yaml": 0,
    "recipes/guess.yaml": 0,
    "recipes/qwen2_lora.yaml": 1,
    "recipes/qwen2_qlora.yaml": 1,
    "recipes/qwen3_alphabet_sort.yaml": 1,
    "recipes/qwen2_5_7b_zero3.yaml": 8,
    "recipes/qwen2_5_7b_two_nodes.yaml": 8,
    "recipes/catalogue/gemma3_1b_gsm8k_lora.yaml": 1,
    "recipes/catalogue/qwen3_1_7b_gsm8k_full.yaml": 1,
    "recipes/catalogue/qwen2_5_7b_math_lora.yaml": 2,
    "recipes/catalogue/qwen2_5_32b_dapo_math_two_nodes.yaml": 8,
}
KUBERNETES = (
    "launch.engine=kubernetes",
    "kubernetes.image=registry.example.com/team/grpo-run:1",
    "kubernetes.volume_claim=runs",
    "kubernetes.secrets=[hf-token]",
    "kubernetes.resources={cpu: 16, memory: 128Gi}",
    "kubernetes.labels={kueue.x-k8s.io/queue-name: gpu}",
    "kubernetes.annotations={k8s.v1.cni.cncf.io/networks: rdma}",
    "kubernetes.security_context={capabilities: {drop: [ALL], add: [IPC_LOCK]}}",
    "kubernetes.pod={tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}",
)
SKYPILOT = (
    "launch.engine=skypilot",
    "skypilot.image=registry.example.com/team/grpo-run:1",
    "skypilot.volume=runs",
    "skypilot.secrets=[HF_TOKEN]",
    "skypilot.use_spot=true",
)
FOLDER = "/runs/addition-20260101-120000"


def cluster_plan(recipe: str, *overrides: str) -> Plan:
    """The plan that `grpo-run RECIPE --set ...` would write into FOLDER."""
    gpus = RECIPES[recipe]
    stack, findings = parse_target(f"tested,gpus={f'{gpus}xH100-80GB' if gpus else 0}")
    assert stack is not None, findings
    stack = stack._replace(packages={**stack.packages, "vllm": "0.30.0"})
    resolution = resolve(recipe, stack, [f"launch.gpus_per_node={gpus}", *overrides])
    assert not resolution.refused, [finding for finding in resolution.findings if finding.severity == "error"]
    return dataclasses.replace(plan_of(resolution), folder=FOLDER)


def cluster_file(plan: Plan) -> str:
    """The text of the one file that a run folder has for its cluster."""
    (text,) = engine_of(plan).files(plan).values()
    return text


def documents(text: str) -> list[dict[str, Any]]:
    """What a file of YAML has."""
    return list(yaml.safe_load_all(text))
