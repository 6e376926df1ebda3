"""STK010: what an absent package does to the libraries that are there."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from library import Library

from grpo_recipes.facts.released.shipped import table

pytestmark = pytest.mark.stack

HIDDEN = ("peft", "bitsandbytes", "deepspeed", "math_verify", "liger_kernel")
PROGRAM = """
import sys
sys.path[:] = [place for place in sys.path if "site-packages" not in place] + [sys.argv[1]]
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Qwen2Config
from trl import GRPOConfig
from trl.rewards import accuracy_reward
def attempt(name, call):
    try:
        call()
    except ImportError as error:
        print(name, type(error).__name__, str(error).replace(chr(10), " "))
    else:
        print(name, "nothing")
def quantized():
    from transformers.quantizers.auto import AutoHfQuantizer
    AutoHfQuantizer.from_config(BitsAndBytesConfig(load_in_4bit=True)).validate_environment()
def adapter():
    from peft import LoraConfig
attempt("bitsandbytes", quantized)
attempt("peft", adapter)
attempt("deepspeed", lambda: GRPOConfig(sys.argv[2], use_cpu=True, bf16=False, deepspeed={"zero_optimization": {}}))
from transformers.integrations.liger import apply_liger_kernel
attempt("liger-kernel", lambda: apply_liger_kernel(None, None))
attempt("math-verify", lambda: accuracy_reward([[{"content": "1"}]], ["1"]))
"""


def test_each_missing_package_is_an_import_error(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.lower().startswith(HIDDEN) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(packages), str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    told = dict(
        line.split(" ", 1) for line in ran.stdout.splitlines() if line.split(" ")[0].replace("-", "_") in HIDDEN
    )
    assert set(told) == {"peft", "bitsandbytes", "deepspeed", "math-verify", "liger-kernel"}, ran.stderr[-2000:]
    assert all(
        text.split()[0] in ("ImportError", "ModuleNotFoundError", "PackageNotFoundError") for text in told.values()
    ), told


@pytest.mark.skipif(importlib.util.find_spec("PIL") is not None, reason="Pillow is installed here")
@pytest.mark.parametrize(
    ("family", "image_processor"),
    [("llava", "CLIPImageProcessor"), ("qwen2_vl", "Qwen2VLImageProcessor"), ("mistral3", "PixtralImageProcessor")],
)
def test_a_processor_is_not_loaded_without_pillow(library: Library, family: str, image_processor: str) -> None:
    answer = library.call("in_model.load_processor", model_type=family, image_processor=image_processor)
    assert (answer.stage, answer.raised) in (("trainer", "ValueError"), ("trainer", "ImportError")), answer.text
    assert any(word in answer.text.lower() for word in ("pillow", "pil", "vision")), answer.text


def test_processors_that_take_videos_are_known_to_need_torchvision(library: Library) -> None:
    listed = set(table("vision_models")["torchvision"])
    named = library.call("in_model.processors_of_videos").result
    assert len(named) > 30
    assert set(named) <= listed
