"""With less padding the gradients are TRL's, of fewer tokens, and a model that would score otherwise is stopped."""

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, Trained, environment

from grpo_recipes.worker.shims.less_padding import FAMILIES

pytestmark = pytest.mark.stack
# Four micro-batches of one step, and a second step on the same completions, away from the policy that sampled them.
CUT = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "num_iterations": 2, "beta": 0.04}
LONG: dict[str, Changes] = {
    **{loss: {"loss_type": loss} for loss in ("cispo", "sapo", "luspo", "vespo")},
    "sequence ratios": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
}
SORTED: dict[str, Changes] = {
    "grpo": {"loss_type": "grpo"},
    "dapo, truncated ones masked": {"loss_type": "dapo", "mask_truncated_completions": True},
    "dr_grpo, a multiple of 8": {"loss_type": "dr_grpo", "pad_to_multiple_of": 8},
    "steps of half a generation": {"loss_type": "grpo", "steps_per_generation": 8},
    "steps of two generations": {"loss_type": "grpo", "steps_per_generation": 2, "num_iterations": 1},
}
PACKED: dict[str, Changes] = {
    "bnpo": {"loss_type": "bnpo"},
    "a threshold of entropies": {"loss_type": "dapo", "top_entropy_quantile": 0.5},
    "a bonus for entropy": {"loss_type": "grpo", "entropy_coef": 0.1},
}
EXACT = 3e-6
LENGTH = 40
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 99,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MEANS = {"entropy", "kl", "clip_ratio/region_mean"}


Compared = Callable[[str], dict[str, Any]]


def marked(cases: dict[str, Changes]) -> list[Any]:
    """The names of cases; those of LONG run before a release."""
    return [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in cases]


@pytest.fixture(scope="module")
def compared(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """What padding_experiments.py finds for a case, or for gpt2, a model with absolute positions."""
    script = Path(__file__).parents[1] / "stacks" / "padding_experiments.py"
    gpt2 = {"gpt2": {"loss_type": "grpo", "kind": "GPT2"}}

    @functools.cache
    def found(is_long: bool) -> dict[str, dict[str, Any]]:
        cases = {name: {**CUT, **case} for name, case in (LONG if is_long else SORTED | PACKED | gpt2).items()}
        folder = tmp_path_factory.mktemp("padding")
        command = [str(warm_python / "python"), "-Xwarm", str(script), str(folder), json.dumps(cases)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND"))
        answer: dict[str, dict[str, Any]] = json.loads(line.removeprefix("FOUND"))
        return answer

    return lambda name: found(name in LONG)[name]


@pytest.mark.parametrize("name", marked(SORTED | LONG))
def test_sorted_rows_have_the_gradient_of_trl(name: str, compared: Compared) -> None:
    found = compared(name)
    assert max(found["sorted"]["apart"]) < EXACT
    assert max(found["packed"]["apart"]) < EXACT
    assert found["sorted"]["share"] < found["packed"]["share"] < 0.9
    # A head that skips what has no label scores the completions and nothing else.
    assert found["sorted"]["labels"] == found["packed"]["labels"] == found["plain"]["labels"] > 0
    window = SORTED.get(name, {}).get("steps_per_generation", 4)
    assert found["sorted"]["said"] == f"rows are sorted over {min(window, 4)} micro-batches"
    if "whole" in found:  # the figures are those of the step, however it is cut
        whole, own = found["whole"]["figures"], found["sorted"]["figures"]
        for figure in MEANS & whole.keys():
            assert own[figure] == pytest.approx(whole[figure], rel=1e-4), figure


@pytest.mark.parametrize(
    "name", marked({name: case for name, case in (SORTED | LONG).items() if "steps_per_generation" not in case})
)
def test_their_gradient_does_not_depend_on_the_micro_batch(name: str, compared: Compared) -> None:
    """So `per_device_train_batch_size: auto` may choose any."""
    assert max(compared(name)["whole"]["apart"]) < EXACT


@pytest.mark.parametrize("name", PACKED)
def test_the_gradient_of_the_others_does(name: str, compared: Compared) -> None:
    """The automatic micro-batch then stays the same on a CPU, and two of them are refused in parts (LOS001)."""
    assert min(compared(name)["whole"]["apart"]) > 10 * EXACT


@pytest.mark.parametrize("name", PACKED)
def test_losses_of_a_micro_batch_keep_their_rows(name: str, compared: Compared) -> None:
    found = compared(name)
    # In the second step a token may be on the other side of a threshold by what float32 rounds.
    steps = 1 if name == "a threshold of entropies" else 2
    assert max(found["packed"]["apart"][:steps]) < EXACT
    assert found["packed"]["share"] < 0.85
    assert max(found["sorted"]["apart"]) > 1e-3, "the rule has no reason to ask for packed"
    for figure in MEANS & found["plain"]["figures"].keys():
        assert found["packed"]["figures"][figure] == pytest.approx(found["plain"]["figures"][figure], rel=1e-4)


def test_a_model_with_absolute_positions_is_left_as_it_is(compared: Compared) -> None:
    found = compared("gpt2")["sorted"]
    assert (max(found["apart"]), found["share"]) == (0, 1)
    told = "nothing: GPT2LMHeadModel is not known to score a row the same without its padding"
    assert found["said"] == told


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_scores_a_row_the_same_without_its_padding(family: str) -> None:
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    known = CONFIG_MAPPING[family]()
    sizes = {name: value for name, value in SMALL.items() if getattr(known, name, None) is not None}
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](**sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.08)
    before, behind, margin = 300, 40, 7
    width = before + LENGTH + behind
    row, ids, mask = slice(before, before + LENGTH), torch.zeros(1, width, dtype=torch.long), torch.zeros(1, width)
    ids[:, row], mask[:, row] = torch.randint(3, SMALL["vocab_size"], (1, LENGTH)), 1
    place = mask.argsort(dim=1, stable=True)[:, -LENGTH - margin :]
    with torch.no_grad():
        whole = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, row]
        narrow, narrow_mask = ids.gather(1, place), mask.gather(1, place)
        kept = model(input_ids=narrow, attention_mask=narrow_mask, position_ids=place, use_cache=False)
    apart = whole.log_softmax(-1) - kept.logits[:, -LENGTH:].log_softmax(-1)
    assert float(apart.abs().max()) < 2e-6


@pytest.mark.parametrize(
    ("value", "told"), [("sorted", "rows are sorted over 2 micro-batches"), ("packed", "rows are packed")]
)
def test_a_run_proves_its_scores(
    value: str, told: str, make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    arguments = {"max_steps": 2, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    arguments["max_completion_length"] = 16
    plan = make_plan("lora", arguments=arguments, shims={"less_padding": value})
    plan["expect"]["arguments"] = {}
    run = trained(plan)
    assert run.exit_code == 0, run.output
    assert run.record["shims"] == {"less_padding": told}
    assert run.proofs()["PRF036"]["ok"] is True
    assert "scores with less padding are TRL's, mean |difference| " in run.proofs()["PRF036"]["shown"]


def test_other_scores_without_padding_stop_the_run(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan("lora", arguments={"max_steps": 2}, shims={"less_padding": "sorted"})
    run = trained(plan, "positions_that_are_absolute")
    assert run.exit_code == 3, run.output
    assert "[PRF036]" in run.record["message"]
    assert "depends on its column" in run.record["message"]
    assert [each for each, was in run.proofs().items() if was["ok"] is False] == ["PRF036", "PRF038"]
