"""Secrets are hidden from what is printed, and nothing else is."""

import os
import time
from pathlib import Path

import pytest
from support.work import takes_at_most

from grpo_recipes.contract.secrets.redact import redact, redact_value
from grpo_recipes.launch.train_log import open_redacted_log


@pytest.mark.parametrize(
    "text",
    [
        "reward 0.5 at step 3",
        "https://huggingface.co/Qwen/Qwen2-0.5B@main",
        "user@host: see https://a.b/c:d@e",
        "hf_transfer is not installed, risk-averse-and-quite-long-word",
        "sha256 " + "a1" * 32,
        "commit " + "0123456789abcdef0123456789abcdef01234567",
        "tokenizer.pad_token_id = 5",
        "",
    ],
)
def test_ordinary_text_stays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT_TOKEN", "step")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "huggingface")
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "token <redacted>"),
        ("OPENAI sk-proj-abcdefghijklmnop1234", "OPENAI <redacted>"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789 ok", "<redacted> ok"),
        ("key AKIAIOSFODNN7EXAMPLE.", "key <redacted>."),
        ('"api_key": "' + "0a" * 20 + '"', '"api_key": "<redacted>"'),
        ("wandb api-key=" + "0a" * 20, "wandb api-key=<redacted>"),
        ("https://me:pass@host/x and http://:p@h", "https://<redacted>@host/x and http://<redacted>@h"),
        ("my value is correct-horse", "my value is <redacted>"),
        ("correct-horse-battery", "<redacted>"),
    ],
    ids=["hf", "sk", "github", "aws", "wandb", "wandb name", "url", "environment", "longest first"],
)
def test_secrets_are_hidden(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "correct-horse")
    monkeypatch.setenv("OTHER_API_KEY", "correct-horse-battery")
    assert redact(text) == shown


def test_json_values_are_redacted_through_and_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "correct-horse")
    value = {"a": ["correct-horse", 1, None, True], "correct-horse": {"b": ("x correct-horse",)}}
    assert redact_value(value) == {"a": ["<redacted>", 1, None, True], "<redacted>": {"b": ["x <redacted>"]}}


def test_a_long_log_takes_no_time() -> None:
    text = "step 1 loss 0.5 https://host:8080/path a:b:c@d key api_key " * 20_000
    with takes_at_most(2):
        redact(text)


def test_a_joined_emoji_stays() -> None:
    assert redact("👩\u200d🔬") == "👩\u200d🔬"


@pytest.mark.parametrize(
    "character", ["\x1b", "\x07", "\r", "\x00", "\x9b", "\u202e", "\u2066", "\x7f", "\u200b", "\U000e0041"]
)
def test_nothing_that_steers_a_terminal_reaches_it(character: str) -> None:
    assert redact(f"one{character}[31mtwo\n\tthree ü 💥") == "one\ufffd[31mtwo\n\tthree ü 💥"


def test_a_log_file_keeps_what_steers_a_terminal_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "correct-horse")
    with open_redacted_log(str(tmp_path / "train.log")) as (output, _):
        for part in (b"\x1b[31m 10%\r 20%\r", b"token correct-", b"horse\n\xff end without a line"):
            os.write(output, part)
            time.sleep(0.02)
    assert (tmp_path / "train.log").read_bytes() == (b"\x1b[31m 10%\r 20%\rtoken <redacted>\n\xff end without a line")
