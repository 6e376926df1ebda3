"""A conversation in the terminal is what the chat template makes of it, answered as `generate` answers."""

import functools
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from export_runs import Answer, command

pytestmark = pytest.mark.stack

SUMS = ["17+25=", "60+38=", "48+33="]


@pytest.fixture
def chat(warm_python: Path, run_of: Callable[[str], Path]) -> Callable[..., Answer]:
    return functools.partial(command, warm_python, "chat", run_of("lora"))


def _continued(run: Path, messages: list[dict[str, str]]) -> str:
    """What transformers and PEFT alone answer to a conversation, with the most likely tokens."""
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer

    model, tokenizer = (kind.from_pretrained(run / "final") for kind in (AutoPeftModelForCausalLM, AutoTokenizer))
    tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    new = model.generate(**tokens, do_sample=False, max_new_tokens=6)[0, tokens["input_ids"].shape[1] :]
    return str(tokenizer.decode(new, skip_special_tokens=True))


def test_each_answer_has_the_conversation_before_it(run_of: Callable[[str], Path], chat: Callable[..., Answer]) -> None:
    done = chat("--greedy", "--json", typed="\n".join([*SUMS, "", " /reset ", SUMS[1], "/exit", "never asked"]))
    assert done.code == 0, done.out + done.err
    told = [json.loads(line)["completion"] for line in done.out.splitlines()]
    messages: list[dict[str, str]] = []
    for asked, answer in zip(SUMS, told, strict=False):
        messages.append({"role": "user", "content": asked})
        assert answer == _continued(run_of("lora"), messages)
        messages.append({"role": "assistant", "content": answer})
    (after_reset,) = told[len(SUMS) :]
    assert after_reset == _continued(run_of("lora"), [{"role": "user", "content": SUMS[1]}])
    assert after_reset != told[1]


@pytest.mark.parametrize("how", [(), pytest.param(("--greedy",), marks=pytest.mark.long)])
def test_the_first_answer_is_that_of_generate(
    how: tuple[str, ...], warm_python: Path, run_of: Callable[[str], Path], chat: Callable[..., Answer]
) -> None:
    (row,) = command(warm_python, "generate", run_of("lora"), SUMS[0], "--json", *how).json()["rows"]
    done = chat(*how, typed=f"{SUMS[0]}\n")
    assert (done.code, done.out) == (0, f"{row['trained']['completion']}\n"), done.err
    assert f"({row['trained']['tokens']} tokens, {row['trained']['ended_by']})" in done.err
    assert ("most likely tokens" in done.err) == bool(how)
    assert ("sampled as in training (temperature 1.0" in done.err) != bool(how)


def test_a_line_that_cannot_be_answered_is_named(chat: Callable[..., Answer]) -> None:
    done = chat("--greedy", typed=f"/rest\n{'1+' * 600}\n{SUMS[0]}\n")
    assert done.code == 1
    assert "most likely tokens" in done.err
    assert len(done.out.splitlines()) == 1
    assert "error: /rest is not a command: /reset starts a new conversation" in done.err
    assert " tokens; with 6 new ones at most 506 fit; /reset starts" in done.err


def test_prompts_that_are_text_are_answered_alone(warm_python: Path, tmp_path: Path) -> None:
    values = ("dataset.prompt_format=standard", "training.max_steps=2", "evaluation=null", "training.save_steps=0")
    recipe = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
    options = [word for value in values for word in ("--set", value)]
    run = tmp_path / "run"
    assert command(warm_python, recipe, "--out", run, *options).code == 0
    done = command(warm_python, "chat", run, "--greedy", "--json", typed=f"{SUMS[0]}\n{SUMS[1]}\n{SUMS[0]}\n")
    assert "each message is answered on its own" in done.err
    first, _, again = done.out.splitlines()
    assert first == again
    (row,) = command(warm_python, "generate", run, SUMS[0], "--greedy", "--json").json()["rows"]
    assert json.loads(first)["text"] == row["trained"]["text"]


def test_a_terminal_shows_where_to_type(warm_python: Path, run_of: Callable[[str], Path]) -> None:
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [warm_python / "grpo-run", "chat", run_of("lora"), "--greedy"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    seen = b""
    for typed in (f"{SUMS[0]}\n".encode(), b"\x04"):
        while not seen.endswith(b"> "):
            seen += os.read(ours, 100)
        seen += b"|"
        os.write(ours, typed)
    _, talk = started.communicate(timeout=120)
    os.close(ours)
    assert started.returncode == 0, talk
    assert b"tokens, eos)" in talk
