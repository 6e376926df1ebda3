"""The live trainer against the plan, before the first step, on what a process may have seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worker_runs import plan_of

from grpo_recipes.contract import read_plan
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Expect, Vllm
from grpo_recipes.worker.proofs.before_training.catalog import compared
from grpo_recipes.worker.proofs.before_training.compared import Comparison, Loaded, VllmTokens, as_records, line

TENSORS = frozenset({"a.lora_A", "a.lora_B"})


def planned(world_size: int = 1, stop: tuple[str, ...] = (), **changes: Any) -> Plan:
    """A plan of two tensors and a learning rate."""
    plan = read_plan.plan_of(plan_of(Path("/model"), Path("/rows"), "lora"))
    arguments = {"learning_rate": 1e-5, "average_tokens_across_devices": True}
    expect = Expect(world_size, 0, "lora", 8, arguments, adapter_dtype="float32", stop=stop)
    return replace(plan, expect=expect, vllm=Vllm("server", "bfloat16"), **changes)


def seen(**changes: Any) -> Loaded:
    """What a process of that plan sees."""
    values: dict[str, Any] = {
        "rank": 0,
        "deepspeed_stage": 0,
        "arguments": {"learning_rate": 1e-5, "average_tokens_across_devices": False},
        "trained": TENSORS,
        "expected": TENSORS,
        "numbers": 8,
        "weights": ("float32",),
        "device": "cpu",
        "parameter_devices": ("cpu",),
        "vllm_dtype": "bfloat16",
        "vllm_tokens": VllmTokens(32, (), (("</a>", (3, 4), "</a>"),), True),
    }
    return Loaded(**{**values, **changes})


def failed(comparisons: list[Comparison]) -> dict[str, list[str]]:
    """By the id of each proof that failed what was seen."""
    return {one.id: list(one.finding.seen) for one in comparisons if one.finding is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vllm_dtype": None, "vllm_tokens": None},
        {"vllm_tokens": VllmTokens(None, (), (), False)},
        {"vllm_tokens": VllmTokens(32, (), (("a", (3,), "ba"),), True)},
    ],
    ids=["as planned", "no vLLM is seen", "it tells nothing of tokens", "the stop is part of a token"],
)
def test_a_trainer_as_planned_is_not_refused(changes: dict[str, Any]) -> None:
    assert failed(compared(planned(), (seen(**changes),))) == {}


@pytest.mark.parametrize(
    ("changes", "identity", "said"),
    [
        ({"deepspeed_stage": 3}, "PRF012", "DeepSpeed stage: plan 0, live 3"),
        ({"arguments": {"learning_rate": 1}}, "PRF013", "GRPOConfig.learning_rate: plan 1e-05, live 1"),
        ({"arguments": {}}, "PRF013", "GRPOConfig.learning_rate: plan 1e-05, live 'no such argument'"),
        ({"trained": TENSORS | {"b"}}, "PRF014", "trained but not planned: plan 'none', live 'b'"),
        ({"expected": TENSORS | {"b"}}, "PRF014", "planned but not trained: plan 'none', live 'b'"),
        ({"numbers": 9}, "PRF014", "trainable parameters: plan 8, live 9"),
        (
            {"weights": ("bfloat16",)},
            "PRF015",
            "dtype of the weights: plan 'float32', live 'bfloat16'",
        ),
        ({"vllm_dtype": "float16"}, "PRF017", "dtype of vLLM: plan 'bfloat16', live 'float16'"),
        (
            {"vllm_tokens": VllmTokens(32, ("40 '<s>'",), (), True)},
            "PRF018",
            "vocabulary of vLLM: plan 'every token', live \"32 rows, without token 40 '<s>'\"",
        ),
        (
            {"vllm_tokens": VllmTokens(32, (), (("ab", (3, 4), "ba"),), True)},
            "PRF018",
            "stop as vLLM spells it: plan 'ab', live 'ba'",
        ),
    ],
)
def test_each_difference_is_refused_by_its_proof(changes: dict[str, Any], identity: str, said: str) -> None:
    assert failed(compared(planned(), (seen(**changes),))) == {identity: [said]}


def test_a_model_that_is_placed_when_it_is_loaded_lies_on_its_device() -> None:
    elsewhere = seen(device="cuda:1", parameter_devices=("cuda:0", "cuda:1"))
    assert failed(compared(planned(), (elsewhere,))) == {}
    plan = planned()
    placed = replace(plan.arguments, model_init_kwargs={**plan.arguments.model_init_kwargs, "device_map": "local_rank"})
    found = failed(compared(replace(plan, arguments=placed), (elsewhere,)))
    assert found == {"PRF016": ["device: plan 'cuda:1', live 'cuda:0, cuda:1'"]}


def test_another_process_is_told_apart_only_where_it_differs() -> None:
    several = replace(planned(2), vllm=None)
    same = {"learning_rate": 1e-5, "average_tokens_across_devices": True}
    everyone = (seen(arguments=same), seen(rank=1, arguments=same, numbers=9), seen(rank=2, arguments=same, numbers=9))
    comparisons = compared(several, everyone)
    assert failed(comparisons) == {"PRF014": ["trainable parameters (rank 1): plan 8, live 9"]}
    names = [row["name"] for row in as_records(comparisons) if row["id"] == "PRF014"]
    assert names[-2:] == ["trainable parameters", "trainable parameters (rank 1)"]


def test_a_failure_says_all_differences_of_its_proof_at_once() -> None:
    (finding,) = [one.finding for one in compared(planned(), (seen(arguments={}, numbers=8),)) if one.finding]
    assert bare_text([finding]) == (
        "arguments: the proof failed before the first step [PRF013]\n"
        "  GRPOConfig.learning_rate: plan 1e-05, live 'no such argument'\n"
        "  = because: training it would be a different experiment than the plan's\n"
        "  = fix: plan again on this machine, with the packages that are installed here\n"
        "  = more: grpo-run explain PRF013"
    )


def test_what_agrees_is_one_line() -> None:
    assert line(compared(planned(), (seen(),))) == (
        "proofs before the first step  DeepSpeed stage 0 · trainable parameters 8 · dtype of the weights float32"
        " · dtype of vLLM bfloat16 · vocabulary of vLLM every token · stop as vLLM spells it </a>"
        " · trained tensors as planned · 1 arguments as planned"
    )
