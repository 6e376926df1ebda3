"""What the proofs say about what was seen, without a trainer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worker_runs import plan_of

from grpo_recipes.contract import read_plan
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.plan_sections import Expect, PlannedMemory
from grpo_recipes.worker.proofs import (
    catalog,
    devices_are_planned,
    generate_draws_from_the_policy,
    logits_cover_the_completion,
    mask_ends_with_the_completion,
    memory_is_measured,
    padding_changes_no_score,
    precision_is_planned,
    reference_is_not_quantized,
    sampler_is_the_policy,
    weights_reach_the_sampler,
    world_is_whole,
)
from grpo_recipes.worker.proofs.of_turns import turns_are_trained_as_sampled
from grpo_recipes.worker.proofs.proof import WIDTH, Proof, Statement, block
from grpo_recipes.worker.proofs.seen import (
    Completions,
    FirstStep,
    Forward,
    Gradient,
    Precision,
    Reference,
    Sampled,
    TurnedRow,
    TurnsSeen,
    completion,
)

EOS, PAD, STOP = 2, 0, 7
FLOAT = ("float32",)


def planned(mode: str = "lora", device: str = "cpu", strategy: str = "single", **grpo: Any) -> Plan:
    """A plan of one process."""
    content = plan_of(Path("/model"), Path("/rows"), mode, arguments=grpo)
    world = World("local", 1, 1, device, strategy)  # type: ignore[arg-type]
    return replace(
        read_plan.plan_of(content),
        world=world,
        rewards=(),
        expect=Expect(1, 0, "full" if mode == "full" else "lora", None, {}, adapter_dtype="float32"),
    )


def seen(**changes: Any) -> FirstStep:
    """What one process sees of a LoRA run as planned."""
    values: dict[str, Any] = {
        "rank": 0,
        "processes": 1,
        "reached": 1,
        "deepspeed_stage": 0,
        "device": "cpu",
        "parameter_devices": ("cpu",),
        "forwards": (Forward(4, 9, 6, 6, 41, None, (4, 6)),),
        "losses": (0.5,),
        "gradients": (Gradient("a.lora_A", True, True, False), Gradient("a.lora_B", True, True, True)),
        "precision": Precision(FLOAT, FLOAT, "float32", ()),
        "reference": None,
        "completions": Completions(
            (completion([5, EOS, PAD], [1, 1, 0], frozenset({EOS}), PAD, no_stop),), 3, False, False
        ),
        "memory_gib": 0.25,
        "gpu_gib": None,
    }
    return FirstStep(**{**values, **changes})


def no_stop(_: Sequence[int]) -> int | None:
    """No stop string is planned."""
    return None


def test_all_that_is_as_planned_holds() -> None:
    assert [prove(planned(), (seen(),)).ok for prove in catalog.FIRST_STEP] == [True] * len(catalog.FIRST_STEP)


ROWS = [
    pytest.param([5, 5, EOS], [1, 1, 1], {EOS}, PAD, None, id="ends at eos"),
    pytest.param([5, EOS, PAD], [1, 1, 0], {EOS}, PAD, None, id="padded"),
    pytest.param([5, EOS, EOS], [1, 1, 0], {EOS}, EOS, None, id="padded with eos"),
    pytest.param([5, 5, 5], [1, 1, 1], {EOS}, PAD, None, id="truncated"),
    pytest.param([5, 5, PAD], [1, 1, 1], {EOS}, PAD, None, id="a PAD of the model's own"),
    pytest.param([5, STOP, PAD], [1, 1, 0], {EOS, STOP}, PAD, None, id="ends at a stop"),
    pytest.param([5, EOS, PAD], [1, 1, 1], {EOS}, PAD, "1 tokens after its end", id="PAD is trained"),
    pytest.param([5, EOS, EOS], [1, 1, 1], {EOS}, EOS, "1 tokens after its end", id="an eos never generated"),
    pytest.param([PAD, PAD, PAD], [1, 1, 1], {EOS}, PAD, "3 PAD tokens at its end", id="nothing but PAD"),
    pytest.param([5, STOP, PAD], [1, 1, 0], {EOS}, PAD, "ends after 2 of at most 3", id="a stop unknown to the plan"),
    pytest.param([5, 5, EOS], [1, 0, 1], {EOS}, PAD, "has holes", id="a hole"),
    pytest.param([5, 5, EOS], [0, 0, 0], {EOS}, PAD, "all zeros", id="left out"),
]


def told_of(proof: Proof) -> str:
    """All that is said of a proof that failed."""
    return "" if proof.finding is None else bare_text([proof.finding])


@pytest.mark.parametrize(("ids", "mask", "ends", "pad", "found"), ROWS)
def test_a_mask_ends_with_its_completion(
    ids: list[int], mask: list[int], ends: set[int], pad: int, found: str | None
) -> None:
    row = completion(ids, mask, frozenset(ends), pad, no_stop)
    proof = mask_ends_with_the_completion.prove(planned(), (seen(completions=Completions((row,), 3, False, False)),))
    assert proof.ok is (found is None)
    assert (found or "") in told_of(proof)


def test_a_share_counts_only_completions_without_an_end() -> None:
    rows = [([5, EOS, PAD], [1, 1, 0]), ([5, 5, STOP], [1, 1, 1]), ([5, 5, 5], [1, 1, 1]), ([5, 5, EOS], [1, 1, 1])]
    made = tuple(completion(ids, mask, frozenset({EOS, STOP}), PAD, no_stop) for ids, mask in rows)
    plan = planned()
    plan = replace(plan, expect=replace(plan.expect, stop_token_ids=(STOP,)))
    proof = mask_ends_with_the_completion.prove(plan, (seen(completions=Completions(made, 3, False, False)),))
    assert proof.shown == "3/4 completions end at eos or a stop, nothing after, 25% truncated"
    masked = tuple(completion([5, 5, 5], [0, 0, 0], frozenset({EOS}), PAD, no_stop) for _ in range(4))
    proof = mask_ends_with_the_completion.prove(planned(), (seen(completions=Completions(masked, 3, False, True)),))
    assert proof.shown == "0/4 completions end at eos, nothing after, 100% truncated"


def test_the_peak_of_a_gpu_stands_beside_its_estimate() -> None:
    gib = 1 << 30
    expected = PlannedMemory("fits", {"load": {"weights": gib}, "update": {"weights": gib, "logits": 3 * gib}})
    plan = planned()
    assert memory_is_measured.prove(plan, (seen(),)).shown == "memory so far 0.2 GiB"
    both = (seen(gpu_gib=2.5), seen(gpu_gib=3.5))
    assert memory_is_measured.prove(plan, both).shown == "memory so far 0.2 GiB, GPU 3.5 GiB"
    told = memory_is_measured.prove(replace(plan, memory=expected), both).shown
    assert told == "memory so far 0.2 GiB, GPU 3.5 GiB (estimated 4.0 for the update phase)"


SHAPES = [
    pytest.param(None, (4, 6), True, id="no logits built"),
    pytest.param((4, 7, 41), None, True, id="completion and one"),
    pytest.param((4, 15, 41), None, False, id="the whole sequence"),
    pytest.param((4, 6, 41), None, False, id="one too few"),
    pytest.param((4, 7, 40), None, False, id="another vocabulary"),
    pytest.param((1, 7, 41), None, False, id="another batch"),
    pytest.param((4, 5, 41), None, True, id="the longest completion and one"),
    pytest.param(None, (4, 4), True, id="log-probabilities of the longest completion"),
    pytest.param(None, (4, 3), False, id="log-probabilities too short"),
    pytest.param(None, None, False, id="neither"),
]


@pytest.mark.parametrize(("logits", "log_probs", "ok"), SHAPES)
def test_logits_have_the_completions_shape(
    logits: tuple[int, ...] | None, log_probs: tuple[int, ...] | None, ok: bool
) -> None:
    forward = Forward(4, 9, 6, 4, 41, logits, log_probs)
    assert logits_cover_the_completion.prove(planned(), (seen(forwards=(forward,)),)).ok is ok


def test_a_loss_without_a_forward_is_no_loss_of_the_policy() -> None:
    assert logits_cover_the_completion.prove(planned(), (seen(forwards=()),)).ok is False


NARROWED = [
    pytest.param(None, True, "TRL's padding is used", id="left as it is"),
    pytest.param(Sampled(), True, "the last micro-batch is padded as TRL pads it", id="all as long as the longest"),
    pytest.param(Sampled(tokens=8, apart=8e-6, most=2e-6), True, "mean |difference| 1e-06", id="rounding"),
    pytest.param(Sampled(tokens=8, apart=0.8, most=0.4), False, "mean |difference| 0.1", id="another column"),
]


@pytest.mark.parametrize(("found", "ok", "shown"), NARROWED)
def test_scores_with_less_padding_are_those_of_trl(found: Sampled | None, ok: bool, shown: str) -> None:
    proof = padding_changes_no_score.prove(planned(), (seen(unpadded=found), seen(rank=1, unpadded=found)))
    assert (proof.ok, shown in proof.shown) == (ok, True)


def test_two_processes_on_one_gpu_are_told_from_two_on_two() -> None:
    plan = planned(device="cuda", strategy="ddp")
    each = [seen(rank=rank, device=f"cuda:{rank}", parameter_devices=(f"cuda:{rank}",)) for rank in (0, 1)]
    assert devices_are_planned.prove(plan, tuple(each)).ok is True
    assert devices_are_planned.prove(plan, (each[0], replace(each[0], rank=1))).ok is False
    assert devices_are_planned.prove(plan, (replace(each[0], parameter_devices=("cuda:0", "cuda:1")),)).ok is False
    assert devices_are_planned.prove(planned(), (each[0],)).ok is False, "a GPU where the CPU was planned"


def test_processes_that_do_not_reach_each_other_are_no_world() -> None:
    plan = planned()
    plan = replace(plan, expect=replace(plan.expect, world_size=2))
    both = [seen(rank=rank, processes=2, reached=2) for rank in (0, 1)]
    assert world_is_whole.prove(plan, tuple(both)).shown == "world 2/2"
    alone = tuple(replace(one, reached=1) for one in both)
    assert (world_is_whole.prove(plan, alone).ok, world_is_whole.prove(plan, alone).shown) == (False, "world 1/2")


REFERENCES = [
    pytest.param("lora", 0.1, None, True, id="LoRA is its own"),
    pytest.param("full", 0.0, None, True, id="none without beta"),
    pytest.param("full", 0.1, Reference(FLOAT, ()), True, id="full with beta"),
    pytest.param("full", 0.1, None, False, id="missing"),
    pytest.param("full", 0.1, Reference(("bfloat16",), ()), False, id="another dtype"),
    pytest.param("full", 0.0, Reference(FLOAT, ()), True, id="not needed, but held by trl 0.14 and 0.15"),
    pytest.param("full", 0.0, Reference(("bfloat16",), ()), False, id="not needed, in another dtype"),
    pytest.param("lora", 0.1, Reference(FLOAT, ()), False, id="a copy beside an adapter"),
    pytest.param("full", 0.1, Reference(FLOAT, ("Linear4bit",)), False, id="quantized"),
]


@pytest.mark.parametrize(("mode", "beta", "reference", "ok"), REFERENCES)
def test_a_reference_is_there_when_it_is_needed(mode: str, beta: float, reference: Reference | None, ok: bool) -> None:
    assert reference_is_not_quantized.prove(planned(mode, beta=beta), (seen(reference=reference),)).ok is ok


@pytest.mark.parametrize(
    ("strategy", "bf16", "weights", "ok"),
    [
        ("fsdp2", True, "float32", True),
        ("fsdp2", True, "bfloat16", False),
        ("fsdp2", False, "bfloat16", True),
        ("single", True, "float32", False),
        ("single", True, "bfloat16", True),
    ],
)
def test_fsdp2_trains_in_float32_what_was_loaded_in_bfloat16(strategy: str, bf16: bool, weights: str, ok: bool) -> None:
    plan = planned("full", strategy=strategy, bf16=bf16)
    plan = replace(plan, expect=replace(plan.expect, weights_dtype="bfloat16"))
    precision = Precision((weights,), (), "bfloat16", ())
    assert precision_is_planned.prove(plan, (seen(precision=precision),)).ok is ok


def test_masks_that_were_not_seen_are_said_to_be_so() -> None:
    nothing = Completions(rows=(), limit=6, tools=False, masked=False)
    assert mask_ends_with_the_completion.prove(planned(), (seen(completions=nothing),)).ok is None


def test_the_block_is_short_and_names_what_does_not_hold() -> None:
    proofs = [
        Statement("PRF001", "world").holds("world 1/1"),
        Proof("PRF006", "dtypes", False, "dtypes weights bfloat16"),
    ]
    assert block(proofs) == "step 1 proofs  world 1/1 · NOT dtypes: dtypes weights bfloat16"
    long = block([Statement("PRF001", "world").holds("w" * 40)] * 5).splitlines()
    assert len(long) == 3
    assert all(len(line) <= WIDTH for line in long)


def sampled(mean: float, *, tokens: int = 100, moved: float = 0.0, **changes: Any) -> Sampled:
    """What a process compared, with this mean difference, after its policy moved so far."""
    values: dict[str, Any] = {"tokens": tokens, "apart": mean * tokens, "most": 2 * mean, "dtype": "float32"}
    return Sampled(**{**values, "moved": moved * tokens, "moved_tokens": tokens, **changes})


SAMPLED = [
    pytest.param("lora", "float32", [sampled(4e-7)], True, "mean 4.0e-07", id="one policy"),
    pytest.param("lora", "bfloat16", [sampled(9e-3)], True, "mean 9.0e-03", id="bfloat16 rounds"),
    pytest.param("lora", "float32", [sampled(9e-3, dtype=None)], True, "9.0e-03", id="a server that names no dtype"),
    pytest.param("lora", "float32", [sampled(1e-7), sampled(3e-7)], True, "of 200 tokens", id="two processes"),
    pytest.param("nf4", "float32", [sampled(0.4)], None, "no bound is known", id="a quantized policy"),
    pytest.param("lora", "float32", [Sampled(reason="no words")], None, "not compared: no words", id="not comparable"),
    pytest.param("lora", "float32", [Sampled()], None, "no generation was recorded", id="nothing is trained"),
    pytest.param("lora", "float32", [sampled(9e-3)], False, "a different dtype", id="another dtype"),
    pytest.param("lora", "bfloat16", [sampled(0.3)], False, "vLLM has different weights", id="another model"),
    pytest.param("lora", "float32", [sampled(1e-7), sampled(0.3)], False, "different weights", id="on one process"),
    pytest.param("lora", "float32", [sampled(1e-7, cut=20)], False, "sampling excludes 20 more", id="other truncation"),
]


@pytest.mark.parametrize(("mode", "compute", "found", "ok", "words"), SAMPLED)
def test_the_sampler_is_the_policy(mode: str, compute: str, found: list[Sampled], ok: bool | None, words: str) -> None:
    everyone = tuple(seen(sampled=one, precision=Precision(FLOAT, FLOAT, compute, ())) for one in found)
    proof = sampler_is_the_policy.prove(planned(mode, use_vllm=True), everyone)
    assert proof.ok is ok
    assert words in f"{proof.shown} {told_of(proof)}"


MOVED = [
    pytest.param(sampled(3e-7, moved=1e-4), True, "vLLM is 3.0e-07 off", id="handed over"),
    pytest.param(sampled(3e-7, moved=1e-6), None, "less than 10 times the noise", id="hardly moved"),
    pytest.param(sampled(1e-4, moved=1e-4), False, "did not reach vLLM", id="nothing is handed over"),
    pytest.param(sampled(7e-5, moved=1e-4), False, "is incomplete", id="half is handed over"),
    pytest.param(sampled(0.5, moved=0.0), False, "did not reach vLLM", id="far off before it can be told how far"),
]


@pytest.mark.parametrize(("now", "ok", "words"), MOVED)
def test_moved_weights_reach_the_sampler(now: Sampled, ok: bool | None, words: str) -> None:
    proof = weights_reach_the_sampler.prove(planned(use_vllm=True), "float32", sampled(3e-7), now, 1)
    assert proof.ok is ok
    assert words in f"{proof.shown} {told_of(proof)}"


def test_what_correct_programs_differ_by_in_bfloat16_is_no_hand_over_that_fails() -> None:
    plan, sure = planned(use_vllm=True), sampled(2e-6)
    on_a_harder_prompt = weights_reach_the_sampler.prove(plan, "bfloat16", sure, sampled(1.9e-4, moved=2e-4), 64)
    assert (on_a_harder_prompt.ok, "which may be rounding" in on_a_harder_prompt.shown) == (None, True)
    assert weights_reach_the_sampler.prove(plan, "bfloat16", sure, sampled(2e-2, moved=3e-2), 64).ok is False


ROW = TurnedRow(turns=2, replies=1, own=9, reply=3)
SCORED = [
    pytest.param([(sampled(1e-7), sampled(3e-7))], "float32", True, "max 6.0e-07 of 200 tokens", id="one policy"),
    pytest.param([(sampled(9e-3), sampled(9e-3))], "bfloat16", True, "max 1.8e-02", id="bfloat16 rounds"),
    pytest.param([(sampled(1e-7), Sampled())], "float32", True, "of 100 tokens", id="no reply"),
    pytest.param(
        [(Sampled(), Sampled())], "float32", True, "not compared: no scores were recorded", id="nothing is trained"
    ),
    pytest.param([(Sampled(reason="why"),) * 2], "float32", True, "not compared: why", id="not comparable"),
    pytest.param([(sampled(9e-3), sampled(1e-7))], "float32", False, "in first turns the loss", id="first turns"),
    pytest.param([(sampled(1e-7), sampled(9e-3))], "float32", False, "in later turns the loss", id="later turns"),
    pytest.param(
        [(sampled(1e-7), sampled(1e-7)), (sampled(1e-7), sampled(9e-3))], "float32", False, "later", id="on one process"
    ),
    pytest.param([(sampled(1e-7), sampled(float("nan")))], "float32", False, "nan on average", id="no number"),
]


@pytest.mark.parametrize(("scored", "compute", "ok", "words"), SCORED)
def test_turns_are_scored_as_they_were_sampled(
    scored: list[tuple[Sampled, Sampled]], compute: str, ok: bool, words: str
) -> None:
    precision = Precision(FLOAT, FLOAT, compute, ())
    everyone = tuple(seen(turns=TurnsSeen((ROW,), 1.0, ()), scored=one, precision=precision) for one in scored)
    proof = turns_are_trained_as_sampled.prove(planned(), everyone)
    assert proof.ok is ok
    assert words in f"{proof.shown} {told_of(proof)}"


def test_a_run_proves_whichever_sampler_it_has() -> None:
    assert catalog.first_step(planned()) == (*catalog.FIRST_STEP, generate_draws_from_the_policy.prove)
    assert catalog.first_step(planned(use_vllm=True)) == (*catalog.FIRST_STEP, sampler_is_the_policy.prove)


DRAWN = [
    pytest.param("lora", "float32", [sampled(3e-6)], True, "mean 3.0e-06", id="one policy"),
    pytest.param("lora", "bfloat16", [sampled(4e-2)], True, "mean 4.0e-02", id="bfloat16 rounds"),
    pytest.param("nf4", "float32", [sampled(1.5e-2)], True, "mean 1.5e-02", id="so do 4-bit kernels"),
    pytest.param("lora", "float32", [sampled(1e-7), sampled(3e-7)], True, "of 200 tokens", id="two processes"),
    pytest.param("lora", "float32", [Sampled(reason="why")], None, "not compared: why", id="not comparable"),
    pytest.param("lora", "float32", [], None, "no generation was recorded", id="no listener, as on trl 0.14"),
    pytest.param(
        "lora", "float32", [Sampled()], None, "none of the recorded rows", id="rows that cannot be told apart"
    ),
    pytest.param("lora", "float32", [sampled(7e-2)], False, "positions or the attention mask", id="shifted positions"),
    pytest.param("lora", "bfloat16", [sampled(0.3)], False, "its cache of earlier tokens", id="in bfloat16"),
    pytest.param("nf4", "float32", [sampled(4.0)], False, "is lost", id="a lost cache"),
    pytest.param("lora", "float32", [sampled(1e-7), sampled(0.3)], False, "0.15 on average", id="on one process"),
    pytest.param("lora", "float32", [sampled(float("nan"))], False, "nan on average", id="no number"),
    pytest.param("lora", "float32", [Sampled(cut=9)], False, "drew 9 tokens without a call", id="a different model"),
]


@pytest.mark.parametrize(("mode", "compute", "found", "ok", "words"), DRAWN)
def test_generate_draws_from_the_policy(
    mode: str, compute: str, found: list[Sampled], ok: bool | None, words: str
) -> None:
    precision = Precision(FLOAT, FLOAT, compute, ())
    everyone = tuple(seen(sampled=one, precision=precision) for one in found or [None])
    proof = generate_draws_from_the_policy.prove(planned(mode), everyone)
    assert proof.ok is ok
    assert words in f"{proof.shown} {told_of(proof)}"


FOLLOWED = [
    pytest.param("float32", sampled(3e-7, moved=1e-3), True, "after the policy moved by 1.0e-03 in 4 steps", id="does"),
    pytest.param("float32", sampled(3e-7, moved=2e-6), None, "mean 3.0e-07", id="hardly moved"),
    pytest.param("float32", sampled(1e-4, moved=1e-4), False, "moved by 0.0001 in 4 steps", id="an old adapter"),
    pytest.param("float32", sampled(9e-6, moved=1.5e-5), True, "mean 9.0e-06", id="rounds as correct runs do"),
    pytest.param("float32", sampled(0.5), False, "at most 0.001 on average", id="far off before it has moved"),
    pytest.param("float32", Sampled(cut=9), False, "drawn by a different model", id="a different model"),
    pytest.param("bfloat16", sampled(3e-2, moved=5e-2), True, "mean 3.0e-02", id="rounds in bfloat16"),
    pytest.param("bfloat16", sampled(6e-2, moved=7e-2), False, "the adapter is disabled or old", id="in bfloat16"),
]


@pytest.mark.parametrize(("compute", "now", "ok", "words"), FOLLOWED)
def test_generation_follows_the_policy(compute: str, now: Sampled, ok: bool | None, words: str) -> None:
    for noise in (sampled(3e-7), Sampled()):
        proof = generate_draws_from_the_policy.prove_later(planned(), compute, noise, now, 4)
        assert proof.ok is ok
        assert words in f"{proof.shown} {told_of(proof)}"
