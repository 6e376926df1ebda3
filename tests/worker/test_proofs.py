"""Each proof holds for a trainer as planned and fails for one that is broken, and its message leads to the cause."""

import json
from collections.abc import Callable

import pytest
from worker_runs import Changes, Trained

pytestmark = pytest.mark.stack
STEPS = {"max_steps": 2}


HOLDING = [
    pytest.param("full", {"beta": 0.1}, ["weights moved after 2 steps: 26/26", "reference float32"], id="full"),
    pytest.param("full", {"bf16": True}, ["weights moved after 2 steps: 26/26", "compute bfloat16"], id="autocast"),
    pytest.param(
        "lora", {"max_steps": 4}, ["all 14 LoRA B nonzero", "generate draws from the policy"], id="LoRA with dropout"
    ),
    pytest.param("nf4", {}, ["all 14 LoRA B nonzero"], id="nf4 LoRA"),
    pytest.param(
        "lora",
        {"gradient_checkpointing": True, "beta": 0.1, "gradient_accumulation_steps": 2, "steps_per_generation": 2},
        ["all 14 LoRA B nonzero", "no reference model", "/32 completions"],
        id="checkpointed LoRA in parts, its own reference",
    ),
]


@pytest.mark.parametrize(("mode", "arguments", "shown"), HOLDING)
def test_a_trainer_as_planned_passes_all_proofs(
    mode: str, arguments: Changes, shown: list[str], make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan(mode, arguments={**STEPS, **arguments}, shims={"bnb_cpu_packing": True} if mode == "nf4" else {})
    plan["expect"]["arguments"] = {}
    run = trained(plan, call="watched")
    assert run.exit_code == 0, run.output
    of_others = ["base_model.model.model.embed_tokens"] if "gradient_checkpointing" in arguments else []
    assert json.dumps({"left": [of_others, [], [], False]}) in run.output, "nothing stays on the trainer"
    assert {proof["ok"] for proof in run.record["proofs"]} == {True}
    assert sorted(run.proofs()) == [*(f"PRF00{number}" for number in range(1, 10)), "PRF038"]
    said = " · ".join(proof["shown"] for proof in run.record["proofs"])
    assert [words for words in shown if words not in said] == [], said
    assert "step 1 proofs  world 1/1 · no logits built (fused head)" in run.output


def test_logits_of_the_completion_and_one_more_are_right(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(make_plan("lora", arguments={"max_steps": 1}), "logits_as_in_older_releases")
    assert run.exit_code == 0, run.output
    assert run.proofs()["PRF003"]["shown"] == "logits (16, 7, 41)"


BROKEN = [
    ("another_world", "PRF001", "3 processes", "launch.sh"),
    ("a_part_of_the_model_elsewhere", "PRF002", "its weights on cpu, meta:0", "device"),
    ("logits_keyword_that_is_ignored", "PRF003", "the whole sequence, prompt", "ignores the keyword"),
    ("one_logit_too_few", "PRF003", "logits (16, 6, 41)", "other positions than the completion's"),
    ("adapter_switched_off", "PRF004", "a loss without grad_fn", "turned the adapter or requires_grad off"),
    ("one_layer_detached", "PRF004", "(None) on 8 of 28", "k_proj"),
    ("gradients_thrown_away", "PRF004", "(None) on 14 of 28 trainable tensors", "discarded the gradients"),
    ("loss_that_is_no_number", "PRF004", "a loss of nan", "a dtype too small for the model"),
    ("optimizer_that_does_nothing", "PRF005", "14 of 14 LoRA B are zero after 2 steps", "optimizer's step"),
    ("optimizer_without_the_last_layer", "PRF005", "14 trainable tensors are not in the optimizer", "layers.1"),
    ("adapter_set_back_to_zero", "PRF005", "LoRA B are zero after 2 steps", "q_proj"),
    ("weights_in_half_precision", "PRF006", "weights bfloat16", "casts the model after loading"),
    ("adapter_in_half_precision", "PRF006", "adapter bfloat16", "planned  adapter float32"),
    ("autocast_that_nobody_planned", "PRF006", "compute bfloat16", "planned  compute float32"),
    ("quantized_reference", "PRF007", "a quantized reference model (Linear4bit)", "planned  no reference model"),
    ("mask_over_the_padding", "PRF008", "tokens after its end are trained", "padding"),
    ("mask_that_ends_early", "PRF008", "its mask ends after 3 of at most 6 tokens", "neither at an end token"),
    (
        "stop_that_the_mask_does_not_know",
        "PRF008",
        "PAD tokens at its end are trained",
        "the mask ignores the token that ended it",
    ),
    ("generation_without_the_prompt", "PRF038", "tokens that generate drew and those of the policy", "cache"),
    ("generation_at_shifted_positions", "PRF038", "tokens that generate drew and those of the policy", "positions"),
    ("generation_with_half_the_prompt", "PRF038", "tokens that generate drew and those of the policy", "mask"),
    ("generation_by_a_copy", "PRF038", "without a call of the policy", "a different model, such as a copy"),
]


@pytest.mark.parametrize(("fault", "proof", "found", "cause"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_broken_trainer_is_stopped_by_its_proof(
    fault: str,
    proof: str,
    found: str,
    cause: str,
    make_plan: Callable[..., Changes],
    trained: Callable[..., Trained],
) -> None:
    run = trained(make_plan("lora", arguments=STEPS), fault)
    assert run.exit_code == 3, run.output
    message = run.record["message"]
    assert f"[{proof}]" in message
    assert found in message
    assert cause in message
    assert f"grpo-run explain {proof}" in message
    assert message in run.output
    assert run.proofs()[proof]["ok"] is False
    assert [each for each, was in run.proofs().items() if was["ok"] is False] == [proof]
    assert "Traceback" not in run.output


STALE = ["generation_without_the_adapter", "generation_by_an_old_adapter"]


@pytest.mark.parametrize("fault", STALE)
def test_an_adapter_that_generation_does_not_follow_stops_a_run(
    fault: str, make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan("lora", arguments={"max_steps": 4})
    plan["arguments"]["LoraConfig"] = {**plan["arguments"]["LoraConfig"], "lora_dropout": 0.0}
    plan["expect"]["arguments"] = {}
    run = trained(plan, fault)
    assert run.exit_code == 3, run.output
    assert "generation: the proof failed in step 4 [PRF038]" in run.record["message"]
    assert "the adapter is disabled or old" in run.record["message"]


def test_scores_of_another_precision_than_the_loss_stop_a_run(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan("lora", arguments={**STEPS, "beta": 0.1})
    plan["expect"]["arguments"] = {}
    run = trained(plan, "scores_in_half_precision")
    assert run.exit_code == 3, run.output
    assert "scores bfloat16" in run.record["message"]
    assert "planned  scores float32" in run.record["message"]
    assert [each for each, was in run.proofs().items() if was["ok"] is False] == ["PRF006"]


def test_weights_that_do_not_move_stop_a_full_run(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(make_plan(arguments=STEPS), "optimizer_that_does_nothing")
    assert run.exit_code == 3, run.output
    assert "none of 26 tensors with a gradient changed in 2 steps" in run.record["message"]
    assert "a larger learning_rate" in run.record["message"]


def test_groups_without_variance_postpone_the_movement_and_say_so(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    never = trained(make_plan("lora", arguments={"max_steps": 3}), "rewards_without_variance")
    assert never.exit_code == 0, never.output
    assert "28 of them zero" in never.proofs()["PRF004"]["shown"]
    assert (never.proofs()["PRF005"]["ok"], never.output.count("proof postponed")) == (None, 1)
    assert "movement not proved after 3 steps: no nonzero gradient" in never.proofs()["PRF005"]["shown"]

    later = trained(make_plan("lora", arguments={"max_steps": 5}), "rewards_without_variance_at_first")
    assert later.exit_code == 0, later.output
    assert later.proofs()["PRF005"]["ok"] is True
    assert "adapter moved after 4 steps: 14/14" in later.proofs()["PRF005"]["shown"]


def test_a_warm_up_from_zero_postpones_nothing(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    arguments = {**STEPS, "warmup_steps": 2, "lr_scheduler_type": "linear"}
    run = trained(make_plan("lora", arguments=arguments))
    assert run.exit_code == 0, run.output
    assert "adapter moved after 2 steps" in run.proofs()["PRF005"]["shown"]
