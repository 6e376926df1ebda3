"""A model that sees is estimated with its vision part: exact weights, and activations near those of real updates."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from seeing_cases import CONFIGS, PROCESSORS, PUBLISHED, computed_update, measured_updates, seeing, written
from support.seeing_models import image_processor

from grpo_recipes.memory.estimate import MemoryEstimate, estimate
from grpo_recipes.memory.layout import Layout, linear_parameters
from grpo_recipes.memory.update import Adapter, FourBits, Update
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules._shared.loaded_model import TOWERS
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.target import parse_target
from grpo_recipes.user_files.architecture import Architecture, Vision
from grpo_recipes.user_files.vision_model import most_of_an_image, read_vision_model

COLOURS = str(Path(__file__).parents[2] / "recipes" / "colours.yaml")
GIB = 2**30
PIXELS = 3 * 896**2
FULL = Update(2, 2, None, None, True, "sdpa", 8, 768, 256, 4, "adamw_torch_fused", "fused", pixels=PIXELS)
SPARED = FULL._replace(adapter=Adapter(16, "all-linear", width=4, spares_vision=True))
ALONE = Layout("single", 1, "transformers", 32)
GEMMA = PUBLISHED["gemma3"]
GRID = PUBLISHED["llava_next"]["image_grid_pinpoints"]


def _read(config: dict[str, Any]) -> tuple[Architecture, Vision]:
    found = read_vision_model(config)
    assert found is not None and found.vision is not None
    return found, found.vision


def _terms(found: MemoryEstimate, phase: str) -> dict[str, int]:
    return found.by_phase()[phase]


def test_an_adapter_that_spares_the_tower_has_no_gradients_of_it() -> None:
    architecture, vision = _read(GEMMA)
    full, spared = (_terms(estimate(GEMMA, update, ALONE), "update") for update in (FULL, SPARED))
    assert full["weights"] == spared["weights"] == 2 * architecture.parameters() > 2 * vision.parameters > 800e6
    assert full["gradients"] == 2 * architecture.parameters()
    whole = _terms(estimate(GEMMA, SPARED._replace(adapter=Adapter(16, "all-linear", width=4)), ALONE), "update")
    tower = 16 * sum(sum(shape) for shape in vision.linears().values()) * vision.layers
    assert whole["adapter"] - spared["adapter"] == 4 * tower


def test_without_images_the_vision_part_has_weights_alone() -> None:
    _, vision = _read(GEMMA)
    found = _terms(estimate(GEMMA, FULL._replace(pixels=0), ALONE), "update")
    assert found["weights"] - found["gradients"] == 2 * vision.parameters
    assert "images" not in found


def test_linear_modules_of_the_vision_part_are_packed_too() -> None:
    architecture, _ = _read(GEMMA)
    update = SPARED._replace(four_bits=FourBits(2, is_double=False))
    packed = _terms(estimate(GEMMA, update, ALONE), "update")["weights"]
    assert packed == 2 * architecture.parameters() - (2 - 0.5 - 4 / 64) * linear_parameters(architecture)


def test_shards_cut_the_vision_part_as_the_decoder() -> None:
    architecture, _ = _read(GEMMA)
    found = _terms(estimate(GEMMA, FULL, ALONE._replace(strategy="zero3", processes=8)), "update")
    assert found["weights"] == 2 * architecture.parameters() // 8


def test_images_are_held_for_all_rows_and_seen_at_once_to_generate() -> None:
    few, many = (estimate(GEMMA, SPARED, ALONE._replace(sequences=number)) for number in (32, 64))
    for phase in ("generate", "update", "save"):
        assert _terms(many, phase)["images"] == 2 * _terms(few, phase)["images"] == 64 * 4 * PIXELS
    assert _terms(many, "generate")["generation"] > 1.9 * _terms(few, "generate")["generation"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"model_type": "mllama"}, id="another family"),
        pytest.param({"vision_config": {**GEMMA["vision_config"], "model_type": "other"}}, id="another tower"),
        pytest.param({"vision_config": {**GEMMA["vision_config"], "vision_use_head": True}}, id="a head behind it"),
        pytest.param({"vision_config": {**GEMMA["vision_config"], "hidden_size": "large"}}, id="no number"),
        pytest.param({"text_config": {"model_type": "gemma2"}}, id="another decoder"),
    ],
)
def test_what_is_not_covered_is_unknown_with_the_reason(change: dict[str, Any]) -> None:
    found = estimate(GEMMA | change, SPARED, ALONE, 80 * GIB)
    assert found.verdict() == "unknown"
    assert "neither the vision part nor the tokens of images" in found.unknown


def _judged(tmp_path: Path, family: str, gpu: str, *overrides: str) -> tuple[Any, list[tuple[str, str]]]:
    folder = written(tmp_path, family)
    stack, _ = parse_target(f"tested,gpus={gpu}")
    assert stack is not None
    named = (f"model.model_name_or_path={folder}", "training.bf16=true", "training.use_cpu=false", *overrides)
    found = resolve(COLOURS, stack, named)
    assert found.context is not None, [one.message for one in found.findings]
    return memory_needs(found.context), [(one.rule, one.severity) for one in found.findings]


@pytest.mark.processes
def test_an_adapter_by_default_and_the_most_of_an_image_are_assumed(tmp_path: Path) -> None:
    needs, _ = _judged(tmp_path, "gemma3", "1xA100-80GB", "lora={r: 8}")
    assert needs.update.adapter.spares_vision and needs.update.pixels == PIXELS
    assert needs.update.prompt == 512 + 256 + 4
    assert needs.assumed[1] == "1 image in a row with at most 260 tokens each, uncounted"
    written_out = _judged(tmp_path, "gemma3", "1xA100-80GB", f"lora={{r: 8, exclude_modules: '{TOWERS}.*x'}}")[0]
    assert not written_out.update.adapter.spares_vision


@pytest.mark.processes
def test_a_list_of_images_counts_as_many_as_in_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "q", "answer": "red 1", "image": ["a.png", "b.png", "c.png"]}\n')
    needs, _ = _judged(tmp_path, "gemma3", "1xA100-80GB", f"dataset.path={tmp_path}/rows.jsonl")
    assert (needs.update.pixels, needs.update.prompt) == (3 * PIXELS, 512 + 3 * (256 + 4))
    assert needs.assumed[1] == "3 images in the first row with at most 260 tokens each, uncounted"


def test_fewer_pixels_are_fewer_patches_of_qwen(tmp_path: Path) -> None:
    all_of_it, few = (
        _judged(tmp_path, "qwen2_5_vl", "1xA100-80GB", f"dataset.max_pixels={most}")[0].update
        for most in ("null", 200704)
    )
    assert (all_of_it.pixels, all_of_it.prompt) == (12_845_056 * 6, 512 + 16384)
    assert 200_704 * 6 < few.pixels < 1.2 * 200_704 * 6
    assert 512 + 256 < few.prompt < 512 + 1.2 * 256


@pytest.mark.processes
@pytest.mark.parametrize(
    ("gpu", "severity"), [("1xRTX-4090", "error"), ("1xA100-40GB", "warning"), ("1xH200-141GB", None)]
)
def test_it_is_an_error_where_weights_alone_do_not_fit(tmp_path: Path, gpu: str, severity: str | None) -> None:
    """Of Idefics3 8B with an adapter, 15.8 GiB of weights fit into 24 GiB, and those of all weights do not into 80."""
    whole = () if gpu == "1xRTX-4090" else ("lora={r: 8}", "model.dtype=bfloat16")
    _, rules = _judged(tmp_path, "idefics3", gpu, *whole)
    assert dict(rules).get("MEM001") == severity


@pytest.mark.stack
@pytest.mark.parametrize("family", PUBLISHED)
def test_parameters_are_those_of_the_class(family: str) -> None:
    import torch
    import transformers

    config = json.loads(json.dumps(PUBLISHED[family]))
    read = transformers.AutoConfig.for_model(
        config["model_type"], **{k: v for k, v in config.items() if k != "model_type"}
    )
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(read)
    linear = (one for name, one in model.named_modules() if isinstance(one, torch.nn.Linear) and name != "lm_head")
    architecture, vision = _read(PUBLISHED[family])
    assert architecture.parameters() == sum(one.numel() for one in model.parameters())
    assert linear_parameters(architecture) == sum(one.weight.numel() for one in linear)
    own = (each.numel() for name, each in model.named_parameters() if "vision" in name or "visual" in name)
    assert vision.parameters >= sum(own)
    assert _read(json.loads(read.to_json_string(use_diff=False)))[0] == architecture, "of a config that is written out"


def _processor(family: str) -> Any:
    """The processor of images as published."""
    edge = {"height": 896, "width": 896}
    crop = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}
    found = {
        "idefics3": ("idefics3", "Idefics3", {**PROCESSORS["idefics3"], "do_image_splitting": True}),
        "gemma3": ("gemma3", "Gemma3", {"size": edge}),
        "llava_next": ("llava_next", "LlavaNext", {**crop, "image_grid_pinpoints": GRID}),
        "llava": ("clip", "CLIP", crop),
        "qwen2_5_vl": ("qwen2_vl", "Qwen2VL", {"size": {"shortest_edge": 3136, "longest_edge": 12_845_056}}),
    }[family]
    return image_processor(*found[:2])(**found[2])


def _numbers(value: Any) -> int:
    return sum(map(_numbers, value)) if isinstance(value, list | tuple) else math.prod(value.shape)


@pytest.mark.stack
@pytest.mark.parametrize("family", ["idefics3", "gemma3", "llava_next", "llava", "qwen2_5_vl"])
def test_no_processor_makes_more_of_an_image(family: str) -> None:
    from PIL import Image

    processor = _processor(family)
    made = []
    for size in ((28, 28), (640, 480), (300, 2000), (1500, 1500), (3000, 2000)):
        image = Image.new("RGB", size)
        found = _numbers(processor([[image]] if family == "idefics3" else [image])["pixel_values"])
        bound = most_of_an_image(PUBLISHED[family], json.loads(processor.to_json_string()), math.prod(size))
        assert bound is not None and found <= bound[0]
        made.append(found / bound[0])
    assert max(made) > 0.95


SPARES = {"r": 8, "targets": "all-linear", "spares_vision": True}


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([seeing("idefics3", lora=SPARES, checkpointing=True, batch=1)], id="one"),
        pytest.param(
            [seeing(family, batch=2) for family in CONFIGS]
            + [seeing(family, batch=2, lora=SPARES, checkpointing=True) for family in ("idefics3", "qwen2_5_vl")]
            + [seeing("idefics3", lora=SPARES, batch=1), seeing("qwen2_5_vl", batch=1)],
            id="all",
            marks=pytest.mark.long,
        ),
    ],
)
def test_updates_hold_what_the_formulas_say(asked: list[dict[str, Any]], warm_python: Path) -> None:
    updates = [{**one, "generates": False} for one in asked]
    for one, measured in zip(asked, measured_updates(updates, str(warm_python / "python")), strict=True):
        computed = computed_update(one)
        exact = ("parameters", "gradients", "optimizer")
        assert {name: computed[name] for name in exact} == {name: measured[name] for name in exact}
        above = computed["activations"] - measured["activations"]
        most = 0.15 * measured["activations"] + 2.5 * 2**20  # Qwen2.5-VL with checkpointing: 2.1 MiB above 4.4
        assert -0.1 * measured["activations"] <= above <= most, one["config"]["model_type"]
        assert computed["peak"] == pytest.approx(measured["peak"], rel=0.05)
