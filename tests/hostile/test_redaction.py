"""Redaction: no form of a secret is told, nothing else is hidden, and no text makes it slow."""

import base64
import json
import os
import random
import re
import shlex
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.work import growth

from grpo_recipes.contract.secrets import known_secrets as known
from grpo_recipes.contract.secrets import redact
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.launch.train_log import open_redacted_log

HEX40 = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
RANDOM = "q7ZpX2mK9vLtR4sWcB8nYd3F"
PASSWORD = 'correct horse"batt\\ery/ü'
KEY = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nTWluZUlzTm90WW91cnNBdEFsbA==\n"
    "-----END PRIVATE KEY-----"
)

SHAPES = {
    "hugging face": f"hf_{RANDOM}",
    "openai": f"sk-proj-{RANDOM}",
    "anthropic": f"sk-ant-api03-{RANDOM}-AA",
    "github": f"ghp_{RANDOM}0123456789",
    "github app": f"ghs_{RANDOM}0123456789",
    "github, fine-grained": f"github_pat_11ABC_{RANDOM}",
    "gitlab": f"glpat-{RANDOM}",
    "slack": "xoxb-123456789012-abcdefghijkl",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws, for a while": "ASIAIOSFODNN7EXAMPLE",
    "google": f"AIzaSy{RANDOM}0123456789",
    "nvidia": f"nvapi-{RANDOM}0123456789",
    "wandb, new": f"wandb_v1_{RANDOM}",
}
# A text around each secret, which is written SECRET. What stays visible is the rest.
BESIDE = {
    "a password of an address": ("postgres://SECRET@host/db", "me:pa55"),
    "one with @ in it": ("redis://SECRET@host:1/0", ":p@ss@word"),
    "an address in JSON": (r'{"url": "https:\/\/SECRET@host\/x"}', "me:hunter2"),
    "an address that pathlib wrote": ("https:/SECRET@host/x", "me:hunter2"),
    "wandb": ("api key: SECRET", HEX40),
    "wandb's variable": ("WANDB_API_KEY=SECRET", HEX40),
    "wandb in JSON": ('{"wandb_api_key": "SECRET"}', HEX40),
    "wandb in JSON in JSON": (r'"{\"api_key\": \"SECRET\"}"', HEX40),
    "wandb in Python": ("os.environ['WANDB_API_KEY'] = 'SECRET'", HEX40),
}
ORDINARY = (
    "sha256 " + "a1" * 32,
    "this recipe needs --allow-code " + "0f" * 32 + "; it is remembered",
    "commit " + HEX40,
    "revision: " + HEX40,
    "cache key: " + HEX40,
    "checkpoint-100/model-00001-of-00002.safetensors",
    "task-0123456789abcdefghij risk-0123456789abcdefghij disk-0123456789abcdefghij",
    "eos_token='<|im_end|>' pad_token_id=151643 tokens: 1234567890123456",
    "max_completion_tokens: 1234567890123456789",
    "token: Qwen2TokenizerFast",
    "tokenizer = AutoTokenizer.from_pretrained(path)",
    "password: str | None = None, token=None",
    "set the password of the database in the shell",
    "password=$DB_PASSWORD token=${HF_TOKEN}",
    "OLDPWD=/elsewhere PWD=/tmp",
    "http://localhost:8000/a@b https://example.org/x?a=1",
    '["http://localhost:8000","me@example.org"]',
    "rewards/token_count: 0.5 api_key_count=3 password=value secret=key",
    "monkey: " + HEX40,
    "git@github.com:owner/name.git and ssh://git@host/x",
    "basic understanding of basic arithmetic",
    "the secret: patience; the key is access",
    "load_hf_checkpoint_in_bfloat16 hf_transfer HF_HUB_ENABLE_HF_TRANSFER",
    "10:25:03 step 5: loss 0.25 rewards/accuracy: 0.5",
    'File "/a/b.py", line 3, in f: self.token = token',
    '{"password": null, "token": null, "tokens": 5}',
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "use_auth_token is deprecated: trust_remote_code=True",
    "SKLearn SG.model AIza :AA AKIA eyJ hf_ sk- ghp_ xoxb-",
)


@pytest.fixture(autouse=True)
def nothing_secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if known.names_a_secret(name)]:
        monkeypatch.delenv(name)
    yield


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "around",
    [
        "SECRET",
        "x SECRET y",
        '"SECRET"',
        r"\nSECRET\n",
        "a=SECRET&b",
        "\x1b[0mSECRET\x1b[1m",
        "%20SECRET%20",
        "(SECRET)",
    ],
    ids=["alone", "word", "quotes", "escape", "address", "colour", "percent", "brackets"],
)
def test_a_token_is_known_by_its_shape(secret: str, around: str) -> None:
    shown = hide_secrets(around.replace("SECRET", secret))
    assert "<redacted>" in shown
    assert secret[-20:] not in shown


@pytest.mark.parametrize(("around", "secret"), BESIDE.values(), ids=BESIDE)
def test_a_value_beside_a_word_for_a_secret_is_hidden(around: str, secret: str) -> None:
    shown = hide_secrets(around.replace("SECRET", secret))
    assert shown == around.replace("SECRET", "<redacted>")


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON with umlauts": lambda value: json.dumps(value, ensure_ascii=False),
    "repr": repr,
    "ascii": ascii,
    "an address": lambda value: urllib.parse.quote(value, safe=""),
    "a path of an address": urllib.parse.quote,
    "a shell": lambda value: shlex.quote("it's " + value),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of a login": lambda value: base64.b64encode(b"me:" + value.encode()).decode(),
    "base64 of another login": lambda value: base64.b64encode(b"user:" + value.encode() + b"!").decode(),
    "base64 of an address": lambda value: base64.urlsafe_b64encode(b"a:" + value.encode()).decode(),
}
VALUES = {"a password": PASSWORD, "a private key": KEY, "two lines": "first-half-of-it\nsecond-half-of-it"}
VALUES["umlauts"] = "pässwörter-\xe9t\xe9-秘密"


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_known_value_is_hidden_in_each_form(
    value: str, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = write(value)
    monkeypatch.setenv("MY_PASSWORD", value)
    shown = hide_secrets(f"before {text} after")
    hidden = shown.removeprefix("before ").removesuffix(" after")
    assert shown.startswith("before ")
    assert "<redacted>" in hidden
    # Around it only quotes, the words put beside it, and in base64 the letters that it shares with its neighbours.
    assert len(hidden.replace("<redacted>", "")) <= 16 + len("-----BEGIN PRIVATE KEY-----" * 2) * ("KEY" in text), shown
    assert not any(text[at : at + 12] in shown for at in range(12, len(text) - 24) if "-----" not in text[at : at + 12])


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("hunt3r", "it is hunt3r, not hunt3rs", "it is <redacted>, not hunt3rs"),
        ("p@ss", "(p@ss)", "(<redacted>)"),
        ("true", "true", "true"),
        ("step", "step 5", "step 5"),
        ("1234", "1234 tokens", "1234 tokens"),
        ("ab1", "ab1", "ab1"),
        ("", "a", "a"),
    ],
    ids=["a short one", "with a sign", "true", "a word", "a number", "three letters", "nothing"],
)
def test_a_short_value_is_hidden_with_care(value: str, text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", value)
    assert hide_secrets(text) == shown


def test_parts_of_a_known_value_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:unguessable%21@host/db")
    monkeypatch.setenv("MY_PRIVATE_KEY", KEY)
    text = "unguessable%21 unguessable! TWluZUlzTm90WW91cnNBdEFsbA== and more"
    assert hide_secrets(text) == "<redacted> " * 3 + "and more"


def test_the_place_of_a_file_is_shown_and_a_secret_that_is_a_file_name_too_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("correct-horse", "credentials.json"):
        (tmp_path / name).touch()
    monkeypatch.setenv("MY_PASSWORD", "correct-horse")
    monkeypatch.setenv("MY_CREDENTIALS", str(tmp_path / "credentials.json"))
    assert hide_secrets(f"correct-horse {tmp_path}/credentials.json") == f"<redacted> {tmp_path}/credentials.json"


def logged(tmp_path: Path, *parts: bytes) -> bytes:
    """What a log holds of what was printed part by part."""
    with open_redacted_log(str(tmp_path / "train.log")) as (output, _):
        for part in parts:
            os.write(output, part)
    return (tmp_path / "train.log").read_bytes()


@pytest.mark.parametrize("before", [0, 1, 917_504, 917_504 - 20, (1 << 20) - 30, (1 << 20) - 5, 1 << 20, 1_900_000])
@pytest.mark.parametrize(
    "secret",
    [f"hf_{RANDOM}", f"WANDB_API_KEY={HEX40}", PASSWORD, "x" * 3000 + f"hf_{RANDOM}" + "y" * 3000],
    ids=["token", "beside", "known", "far in"],
)
def test_no_cut_of_an_endless_line_shows_a_secret(
    before: int, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PASSWORD", PASSWORD)
    text = b"~" * before + b" " + secret.encode() + b" " + b"~" * 1_500_000
    written = logged(tmp_path, *(text[at : at + 50_000] for at in range(0, len(text), 50_000)))
    for part in (RANDOM[-12:], HEX40[-12:], PASSWORD[-12:]):
        assert part.encode() not in written
    assert written.count(b"~") == before + 1_500_000
    assert b"<redacted>" in written


def test_a_flood_is_bounded_and_its_end_is_shown(tmp_path: Path) -> None:
    line = b"printed by a reward\n" * 5000
    written = logged(tmp_path, *[line for _ in range(600)], b"ValueError: the reason\n")
    # A read of up to 64 KiB that no longer fits is left out whole; a slow machine may have room for it later.
    assert (16 << 20) - (1 << 16) < len(written) < 18 << 20
    assert b"bytes of output are missing here: more than 64 KiB a second were printed]" in written
    # Alone where a slow machine has room again for a line that short, else with the lines before it.
    assert written.endswith(b"\nValueError: the reason\n")


def test_secrets_without_a_gap_are_cut_between_them(tmp_path: Path) -> None:
    text = f"WANDB_API_KEY={HEX40}, hf_{RANDOM} ".encode() * 60_000
    written = logged(tmp_path, *(text[at : at + 65_536] for at in range(0, len(text), 65_536)))
    assert written == b"WANDB_API_KEY=<redacted>, <redacted> " * 60_000


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_known_key_printed_line_by_line_is_hidden(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    parts = [f"{line}{end}".encode() for line in ["first", *KEY.split("\n"), "last"]]
    written = logged(tmp_path, *parts)
    assert b"MII" not in written
    assert b"TWlu" not in written
    assert written.startswith(b"first")
    assert written.rstrip().endswith(b"last")


# fmt: off
PIECES = (
    "a.", "e+", ":/", "://", "@", "a@", ":", "hf_", "hf_a", "sk-", "sk-a", "\nsk-", "gh", "ghp_", "ghp_a",
    "github_pat_", "glpat-", "xox", "xoxb-", "AKIA", "AKIAA", "AIza", "nvapi-", "wandb_v1_", "api_key",
    "api key ", "api_key=", "api_key=0", "api_key: " + HEX40[:39] + " ", "api_key" + HEX40, "key=", "0a",
    "://a:b@", "://a:", "://a@", "a:b@", ":/a:b", ":/:", "\\", '"', "hf_aaaaaaaaaaaaaaaaaaaa ",
    "AKIAABCDEFGHIJKLMNOP ", "\n", "\\n", "%20", "\x1b[0m", "é", "😀", "\ud800", " ", "\x00", "1",
)
# fmt: on


TIMES = 32
# Between the 32 of linear time and the 1,024 of quadratic time, with the same distance to both.
MOST = TIMES**1.5


def hiding_grows(piece: str, size: int, rounds: int = 3) -> float:
    """How many times longer 32 times the text takes."""
    text = piece * (TIMES * size // len(piece) + 1)
    return growth(lambda length: hide_secrets(text[:length]), size, TIMES, rounds)


@pytest.mark.parametrize("piece", PIECES, ids=ascii)
def test_time_grows_with_the_length_alone(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", PASSWORD)
    monkeypatch.setenv("MY_TOKEN", "a.a.a.a.a.a.a.a.a.b")
    monkeypatch.setenv("SHORT_PASSWORD", "p@ss1")
    assert hiding_grows(piece, 10_000) < MOST


@pytest.mark.hostile
@pytest.mark.parametrize("seed", range(12))
def test_time_grows_with_the_length_alone_for_any_alphabet(seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(10):
        alphabet = choice.choices(PIECES, k=choice.randint(1, 5))
        assert hiding_grows("".join(choice.choices(alphabet, k=choice.randint(2, 400))), 20_000) < MOST


@pytest.mark.hostile
@pytest.mark.parametrize("piece", [*PIECES[:24], "step 5 loss 0.25 grad_norm 1.5 /usr/lib/python3 token\n"], ids=ascii)
def test_ten_megabytes_take_seconds(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        monkeypatch.setenv(f"SECRET_{number}_TOKEN", f"{RANDOM}{number:04}")
    text = (piece * (10_000_000 // len(piece) + 1))[:10_000_000]
    start = time.process_time()
    hide_secrets(text)
    assert time.process_time() - start < 60


def test_a_quadratic_pattern_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    quadratic = (((b".",), rb"([a-z][a-z0-9+.-]*://[^@]*)@"),)
    monkeypatch.setattr(redact, "_KEYS", quadratic)
    monkeypatch.setattr(redact, "_LETTERS", re.compile(rb"\."))
    assert re.compile(quadratic[0][1])
    assert hiding_grows("a.", 500) > MOST
