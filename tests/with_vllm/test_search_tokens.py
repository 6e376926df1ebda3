"""A model learns to end its turn with a token that it did not have, and stops there, on every backend."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_models import write_random, write_rows
from vllm_servers import environment, warm

pytestmark = pytest.mark.vllm

STEPS, LIMIT, TIMEOUT_S = 30, 12, 600
SEARCH, END_SEARCH = "<search>", "</search>"
BACKENDS = {
    "transformers": {"use_vllm": False},
    "colocate": {"use_vllm": True, "vllm_mode": "colocate"},
    "server": {"use_vllm": True, "vllm_mode": "server"},
}
# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")


def _recipe(folder: Path, backend: str) -> Path:
    rows = [{"question": question} for question in "abcdefgh"]
    generation: dict[str, Any] = {**BACKENDS[backend], "max_completion_length": LIMIT, "stop": [END_SEARCH]}
    if backend != "transformers":
        generation |= {"vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True, "max_num_seqs": 64}}
    values = {
        "recipe": 1,
        "name": "search",
        "seed": 1,
        "model": {"model_name_or_path": str(write_random(folder / "model"))},
        "tokenizer": {"add_tokens": [SEARCH, END_SEARCH]},
        "dataset": {"path": str(write_rows(folder / "rows.jsonl", rows)), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": f"[^/]*{END_SEARCH}", "full": True}}],
        "generation": generation,
        "grpo": {"num_generations": 8, "loss_type": "dapo"},
        "training": {"prompts_per_step": 8, "max_steps": STEPS, "learning_rate": 1e-2, "save_steps": 0},
    }
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def _steps(run: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == "step"]


@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=() if name == "colocate" else pytest.mark.long) for name in BACKENDS]
)
def test_a_new_token_is_learned_and_stopped_at(backend: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    accepted = () if backend == "transformers" else ACCEPTED
    command = [Path(warm()).with_name("grpo-run"), _recipe(tmp_path, backend), "--out", run, *accepted]
    done = subprocess.run(
        command,
        env=environment(VLLM_ENABLE_V1_MULTIPROCESSING="0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    steps = _steps(run)
    assert steps[0]["rewards/regex_match/mean"] < 0.5
    late = steps[-3:]
    assert min(step["rewards/regex_match/mean"] for step in late) > 0.9
    assert max(step["completions/clipped_ratio"] for step in late) < 0.1
    assert _greedy(run / "final").endswith(END_SEARCH)


def _greedy(model: Path) -> str:
    """What the trained model says to a prompt, ended by its own end tokens and by nothing else, up to the new token."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    policy = AutoModelForCausalLM.from_pretrained(model)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "c"}], add_generation_prompt=True, tokenize=False
    )
    inputs = tokenizer(prompt, return_tensors="pt")
    ids = policy.generate(**inputs, do_sample=False, max_new_tokens=LIMIT)[0, inputs["input_ids"].shape[1] :].tolist()
    end = tokenizer.convert_tokens_to_ids(END_SEARCH)
    assert end == len(tokenizer) - 1
    return str(tokenizer.decode(ids[: ids.index(end) + 1] if end in ids else ids))
