"""An estimate has its phases, its peak and a verdict, and says what it does not know."""

import pytest
from traces import SMALL

from grpo_recipes.memory.estimate import MemoryEstimate, estimate
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Adapter, FourBits, Update
from grpo_recipes.user_files.model_config import read_model_config

GIB = 2**30
FULL = Update(4, 2, None, None, True, "sdpa", 8, 512, 1024, 4, "adamw_torch_fused", "fused")
ADAPTED = FULL._replace(weight_width=2, adapter=Adapter(16, "all-linear", width=4))
FOUR_BITS = ADAPTED._replace(four_bits=FourBits(2, True), adapter=Adapter(16, "all-linear", width=2))
ALONE = Layout("single", 1, "transformers", 32)
SMOLLM2: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
EIGHT = ALONE._replace(processes=8)


def _of(model: str, update: Update, layout: Layout, gib: float) -> MemoryEstimate:
    return estimate(read_model_config(model), update, layout, round(gib * GIB))


def _terms(found: MemoryEstimate, phase: str) -> dict[str, int]:
    return {term.name: term.size for one in found.phases if one.name == phase for term in one.terms}


@pytest.mark.parametrize(
    ("model", "update", "layout", "gib", "verdict"),
    [
        pytest.param("Qwen/Qwen2.5-0.5B", ADAPTED, ALONE, 24, "fits", id="small model with an adapter"),
        pytest.param("Qwen/Qwen2.5-7B", FULL, ALONE, 24, "does not fit", id="7B whole on a consumer card"),
        pytest.param("Qwen/Qwen2.5-7B", FULL, ALONE, 80, "does not fit", id="7B whole on one large card"),
        pytest.param("Qwen/Qwen2.5-7B", FULL, EIGHT._replace(strategy="zero3"), 80, "fits", id="7B on eight"),
        pytest.param("Qwen/Qwen2.5-72B", FULL, ALONE, 80, "does not fit", id="72B whole"),
        pytest.param("Qwen/Qwen2.5-72B", FOUR_BITS, ALONE, 80, "fits", id="72B in four bits"),
        pytest.param("google/gemma-2-2b", ADAPTED, ALONE, 80, "unknown", id="a family that is not covered"),
        pytest.param("nobody/nothing", ADAPTED, ALONE, 80, "unknown", id="a model that is not here"),
    ],
)
def test_verdicts(model: str, update: Update, layout: Layout, gib: float, verdict: str) -> None:
    found = _of(model, update, layout, gib)
    assert found.verdict() == verdict
    assert bool(found.unknown) == (verdict == "unknown")


def test_a_model_that_sees_is_unknown_with_the_reason() -> None:
    config = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}, "vision_config": {"hidden_size": 8}}
    found = estimate(config, ADAPTED, ALONE, 80 * GIB)
    assert found.verdict() == "unknown"
    assert found.unknown.startswith("models of type gemma3 are not covered: neither the vision part nor the tokens")


def test_without_a_gpu_there_is_a_table_and_no_verdict() -> None:
    found = estimate(SMALL, FULL, ALONE)
    assert found.peak() is not None
    assert found.verdict() == "unknown"


def test_nearly_all_of_a_gpu_is_tight() -> None:
    peak = estimate(SMALL, FULL, ALONE).peak()
    assert peak is not None
    assert estimate(SMALL, FULL, ALONE, peak.total()).verdict() == "tight"
    assert estimate(SMALL, FULL, ALONE, peak.total() - 1).verdict() == "does not fit"


@pytest.mark.parametrize(
    ("term", "strategies"),
    [
        pytest.param("optimizer", ("zero1", "zero2", "zero3", "fsdp2"), id="optimizer"),
        pytest.param("gradients", ("zero2", "zero3", "fsdp2"), id="gradients"),
        pytest.param("weights", ("zero3", "fsdp2"), id="weights"),
    ],
)
def test_a_strategy_shares_out_what_its_name_says(term: str, strategies: tuple[str, ...]) -> None:
    for strategy in ("ddp", "zero1", "zero2", "zero3", "fsdp2"):
        layout = EIGHT._replace(strategy=strategy)
        eight = _terms(estimate(SMALL, FULL, layout), "update")[term]
        two = _terms(estimate(SMALL, FULL, layout._replace(processes=2)), "update")[term]
        assert (eight < two) == (strategy in strategies), strategy


def test_fsdp2_that_keeps_layers_whole_holds_the_model_twice() -> None:
    layout = EIGHT._replace(strategy="fsdp2")
    cut, kept = (
        _terms(_of("Qwen/Qwen2.5-7B", FULL, layout._replace(keeps_gathered=keeps), 80), "update")
        for keeps in (False, True)
    )
    assert cut["gathered"] < 0.3 * kept["gathered"]
    assert kept["gathered"] > 14 * 10**9


def test_what_is_offloaded_is_not_on_the_gpu() -> None:
    layout = EIGHT._replace(strategy="zero3", offloads_optimizer=True, offloads_weights=True, has_reference=True)
    terms = _terms(estimate(SMALL, FULL, layout), "update")
    assert not terms.keys() & {"optimizer", "gradients", "weights", "reference"}


def test_gradients_of_zero1_stay_on_the_gpu_when_the_optimizer_does_not() -> None:
    layout = EIGHT._replace(strategy="zero1", offloads_optimizer=True)
    assert "gradients" in _terms(estimate(SMALL, FULL, layout), "update")


@pytest.mark.parametrize("strategy", ["zero2", "zero3", "fsdp2"])
def test_cut_gradients_are_never_whole_in_a_step_of_one_micro_batch(strategy: str) -> None:
    update = FULL._replace(weight_width=2, autocast_width=None, batch=1)
    layout = EIGHT._replace(strategy=strategy, processes=32, generation="vllm_server")
    one, four = (
        _of("Qwen/Qwen2.5-32B", update._replace(accumulation=parts), layout, 80).by_phase()["update"]
        for parts in (1, 4)
    )
    if strategy != "zero2":
        assert one == four
    whole = sum(_terms(_of("Qwen/Qwen2.5-32B", update, ALONE, 80), "update").values())
    assert sum(one.values()) < 0.5 * whole
    stays = _of("Qwen/Qwen2.5-32B", update._replace(accumulation=1), layout._replace(strategy="zero1"), 80)
    assert sum(_terms(stays, "update").values()) > sum(one.values()) + 50 * GIB


def test_zero2_has_the_part_of_a_micro_batch_beside_that_of_those_before() -> None:
    layout = EIGHT._replace(strategy="zero2", generation="vllm_server")
    one, four = (
        _of("Qwen/Qwen2.5-0.5B", FULL._replace(accumulation=parts), layout, 80).by_phase()["update"]["gradients"]
        for parts in (1, 4)
    )
    assert four == 2 * one


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_what_deepspeed_held_on_an_h200(strategy: str) -> None:
    """0.5B in one process, micro-batches of 128; benchmarks/gpu.md has what torch had allocated."""
    update = FULL._replace(batch=128, prompt=136, completion=128, accumulation=1, caches_copies=strategy != "zero3")
    phases = _of("Qwen/Qwen2.5-0.5B", update, ALONE._replace(strategy=strategy, sequences=128), 140).by_phase()
    found = {name: (sum(terms.values()) - terms["context"]) / GIB for name, terms in phases.items()}
    assert found["update"] == pytest.approx(15.25, rel=0.05)
    assert found["load"] == pytest.approx({"zero2": 5.52, "zero3": 6.03}[strategy], rel=0.15)
    assert found["generate"] == pytest.approx({"zero2": 9.01, "zero3": 10.86}[strategy], rel=0.15)


def test_zero3_gathers_weights_as_wide_as_they_were_loaded() -> None:
    gathered = [
        _of("Qwen/Qwen2.5-0.5B", FULL, ALONE._replace(strategy="zero3", processes=count), 80).by_phase()["update"]
        for count in (1, 2)
    ]
    assert "gathered" not in gathered[0]
    assert gathered[1]["gathered"] == 4 * 494_032_768


def test_a_step_makes_lists_of_the_part_that_a_process_has() -> None:
    update = FULL._replace(optimizer="adamw_torch", batch=1, completion=64, prompt=64)
    layout = EIGHT._replace(strategy="zero3", generation="vllm_server")
    fused, plain = (
        sum(_terms(_of("Qwen/Qwen2.5-7B", one, layout, 80), "update").values())
        for one in (update._replace(optimizer="adamw_torch_fused"), update)
    )
    assert plain - fused < 5 * GIB


def test_logits_of_autocast_are_copied_into_float32() -> None:
    update = FULL._replace(output="logits", batch=8, completion=2048)
    wide, narrow = (
        sum(_terms(_of("Qwen/Qwen2.5-1.5B", update._replace(autocast_width=one), EIGHT, 80), "update").values())
        for one in (2, None)
    )
    assert wide > narrow


def test_a_reference_is_a_second_model_for_full_training_alone() -> None:
    layout = ALONE._replace(has_reference=True, scores=True)
    full = _terms(estimate(SMALL, FULL, layout), "score")
    assert full["reference"] == full["weights"]
    assert "reference" not in _terms(estimate(SMALL, ADAPTED, layout), "score")


def test_a_share_of_the_gpu_is_held_through_the_update_unless_vllm_sleeps() -> None:
    layout = ALONE._replace(generation="vllm_colocate", vllm_share=0.3)
    awake = _of("Qwen/Qwen2.5-1.5B", ADAPTED, layout, 80)
    asleep = _of("Qwen/Qwen2.5-1.5B", ADAPTED, layout._replace(vllm_sleeps=True), 80)
    assert _terms(awake, "generate")["vllm"] == _terms(awake, "update")["vllm"] == round(0.3 * 80 * GIB)
    assert _terms(asleep, "update")["vllm"] < 2 * GIB
    assert "cache" not in _terms(awake, "generate")


def test_a_server_leaves_generation_to_others() -> None:
    found = estimate(SMALL, ADAPTED, ALONE._replace(generation="vllm_server"))
    assert "cache" not in _terms(found, "generate")
    assert "sync" not in [phase.name for phase in found.phases]


def test_a_process_of_the_cpu_has_no_context_of_a_gpu() -> None:
    found = estimate(SMALL, FULL._replace(device="cpu"), EIGHT)
    assert {term.name for phase in found.phases for term in phase.terms}.isdisjoint(("context", "communicators"))


@pytest.mark.parametrize(("rows", "measured_gib"), [(4, 4.1), (8, 6.7), (32, 19.6)])
def test_an_adapters_update_on_a_cpu_is_what_a_run_held(rows: int, measured_gib: float) -> None:
    """SmolLM2-135M on the sums of `make real`, with completions of up to 192 tokens."""
    update = Update(
        4,
        None,
        None,
        Adapter(16, "all-linear", width=4),
        False,
        "sdpa",
        rows,
        32,
        192,
        32 // rows,
        "adamw_torch_fused",
        "fused",
        device="cpu",
    )
    found = estimate(SMOLLM2, update, ALONE._replace(sequences=32)).peak()
    assert found is not None
    assert found.total() / GIB == pytest.approx(measured_gib, rel=0.05)


def test_a_cache_of_a_fixed_size_is_held_instead_of_the_share() -> None:
    layout = ALONE._replace(generation="vllm_colocate", vllm_share=0.3, vllm_cache=8 * GIB)
    found = _of("Qwen/Qwen2.5-7B", ADAPTED, layout, 140)
    assert 22.5 * GIB < _terms(found, "update")["vllm"] < 24 * GIB, (
        "an H200 held 22.5 GiB beside the 14.4 of the policy"
    )
    two = _of("Qwen/Qwen2.5-7B", ADAPTED, layout._replace(vllm_ranks=2), 140)
    assert _terms(found, "update")["vllm"] - _terms(two, "update")["vllm"] == _terms(found, "load")["weights"] // 2


def test_held_out_rows_are_answered_beside_vllm_with_all_weights_of_zero3_gathered() -> None:
    layout = EIGHT._replace(strategy="zero3", generation="vllm_colocate", vllm_share=0.3)
    quiet = _of("Qwen/Qwen2.5-7B", FULL, layout, 80)
    assert _terms(quiet, "evaluation") == {}
    found = _terms(_of("Qwen/Qwen2.5-7B", FULL, layout._replace(evaluates=True), 80), "evaluation")
    assert 28 * GIB < found["gathered"] < 29 * GIB
    assert found["vllm"] == round(0.3 * 80 * GIB)
    by_vllm = layout._replace(evaluates=True, asks_vllm=True, vllm_sleeps=True)
    asked = _terms(_of("Qwen/Qwen2.5-7B", FULL, by_vllm, 80), "evaluation")
    assert ("gathered" in asked, asked["vllm"]) == (False, found["vllm"]), "awake, and nothing is gathered"
    alone = _of("Qwen/Qwen2.5-7B", FULL, ALONE._replace(evaluates=True), 80)
    assert "gathered" not in _terms(alone, "evaluation")
    assert sum(_terms(alone, "evaluation").values()) < sum(_terms(alone, "generate").values())
