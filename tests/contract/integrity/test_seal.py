"""A sealed text is as it was written, or it is damaged; who wrote it is known by the key."""

import json
import math
from pathlib import Path

import pytest

from grpo_recipes.contract.integrity.seal import NOBODY, SOMEBODY_ELSE, YOU, Damaged, Key, opened, sealed

CONTENT = {"a": 1, "b": {"c": [0.1, None, "ü\n\u2028"]}, "seal ": {"sha256": "of the content"}}
ANOTHER = Key(b"\1" * 32, "0123456789abcdef")


def test_what_was_sealed_is_opened_by_its_writer() -> None:
    found = opened("test", sealed("test", CONTENT))
    assert (found.content, found.signer) == (CONTENT, YOU)
    assert json.loads(sealed("test", CONTENT))["a"] == 1


def test_a_seal_is_replaced_when_the_content_is_sealed_again() -> None:
    again = json.loads(sealed("test", CONTENT))
    assert opened("test", sealed("test", {**again, "a": 2})).content == {**CONTENT, "a": 2}


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e-300, 10**40, "\u2028"], ids=repr)
def test_odd_values_are_opened_as_they_were_sealed(value: object) -> None:
    assert repr(opened("test", sealed("test", {"value": value})).content["value"]) == repr(value)


def test_that_of_another_key_is_somebody_elses() -> None:
    assert opened("test", sealed("test", CONTENT, ANOTHER)).signer == SOMEBODY_ELSE


def test_without_a_key_nobody_signs_and_damage_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    text = sealed("test", CONTENT)
    assert opened("test", text).signer == NOBODY
    with pytest.raises(Damaged):
        opened("test", text.replace("0.1", "0.2"))


def test_a_seal_fits_no_file_of_another_kind() -> None:
    with pytest.raises(Damaged, match="sha256"):
        opened("checkpoint", sealed("model", CONTENT))


def forged(**seal: object) -> str:
    """A text whose plain digest is right, with another seal."""
    theirs = sealed("test", CONTENT, Key(b"\2" * 32, json.loads(sealed("test", CONTENT))["seal"]["key"]))
    return theirs if not seal else theirs.replace(json.dumps(json.loads(theirs)["seal"]), json.dumps(seal))


@pytest.mark.parametrize(
    "text",
    [
        forged,
        lambda: forged(sha256="0" * 64, key=None, hmac=None),
        lambda: forged(sha256="0" * 64),
        lambda: json.dumps({**CONTENT, "seal": 1}, indent=2) + "\n",
        lambda: json.dumps(CONTENT, indent=2) + "\n",
        lambda: sealed("test", CONTENT) + " ",
        lambda: sealed("test", CONTENT).replace("  ", " ", 1),
        lambda: "",
        lambda: '[,\n  "seal": {}\n}\n',
        lambda: "[" * 100_000 + sealed("test", CONTENT),
    ],
    ids=[
        *("your id and another key", "another digest", "half a seal", "a number", "no seal", "a space more"),
        *("a space less", "empty", "a list", "deep"),
    ],
)
def test_what_was_not_sealed_so_is_damaged(text: object) -> None:
    assert callable(text)
    with pytest.raises(Damaged):
        opened("test", text())


def test_no_bit_of_a_sealed_text_can_be_turned() -> None:
    text = sealed("test", CONTENT).encode()
    unnoticed = []
    for bit in range(len(text) * 8):
        turned = bytearray(text)
        turned[bit // 8] ^= 1 << bit % 8
        try:
            opened("test", turned.decode("utf-8"))
        except (Damaged, UnicodeDecodeError):
            continue
        unnoticed.append(bit)
    assert unnoticed == []
