"""A sealed text is as it was written, or it is damaged."""

import json
import math

import pytest

from grpo_recipes.contract.integrity.seal import Damaged, seal_content, unseal

CONTENT = {"a": 1, "b": {"c": [0.1, None, "ü\n\u2028"]}, "seal ": {"sha256": "of the content"}}
# As an older grpo-run wrote it, with the id of a key and a keyed digest, or without a key.
OLDER = (
    ("81594e096472716101b66f2a8052a061e4f63bc2303e3c961185a36febf42696", '"0123456789abcdef"', f'"{"5a" * 32}"'),
    ("c8f59d32acd0e3ae274032d2266b15be814a6bb2512f2ec0b5d74692683c8d80", "null", "null"),
)


def test_what_was_sealed_is_opened() -> None:
    assert unseal("test", seal_content("test", CONTENT)) == CONTENT
    assert json.loads(seal_content("test", CONTENT))["a"] == 1


@pytest.mark.parametrize("seal", OLDER)
def test_a_seal_of_an_older_grpo_run_is_opened(seal: tuple[str, str, str]) -> None:
    text = '{{\n  "a": 1,\n  "seal": {{"sha256": "{}", "key": {}, "hmac": {}}}\n}}\n'.format(*seal)
    assert unseal("test", text) == {"a": 1}
    for old, new in ((": 1,", ": 2,"), (seal[0][:4], "0000"), (seal[1], '"0"')):
        with pytest.raises(Damaged, match="sha256"):
            unseal("test", text.replace(old, new, 1))


def test_a_seal_is_replaced_when_the_content_is_sealed_again() -> None:
    again = json.loads(seal_content("test", CONTENT))
    assert unseal("test", seal_content("test", {**again, "a": 2})) == {**CONTENT, "a": 2}


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e-300, 10**40, "\u2028"], ids=repr)
def test_odd_values_are_opened_as_they_were_sealed(value: object) -> None:
    assert repr(unseal("test", seal_content("test", {"value": value}))["value"]) == repr(value)


def test_a_seal_fits_no_file_of_another_kind() -> None:
    with pytest.raises(Damaged, match="sha256"):
        unseal("checkpoint", seal_content("model", CONTENT))


def with_seal(seal: object) -> str:
    """The text with another seal."""
    text = seal_content("test", CONTENT)
    return text.replace(json.dumps(json.loads(text)["seal"]), json.dumps(seal))


@pytest.mark.parametrize(
    "text",
    [
        lambda: with_seal({"sha256": "0" * 64}),
        lambda: with_seal({**json.loads(seal_content("test", CONTENT))["seal"], "key": "0123456789abcdef"}),
        lambda: with_seal({}),
        lambda: seal_content("test", CONTENT).replace('{"sha256"', '{ "sha256"'),
        lambda: json.dumps({**CONTENT, "seal": 1}, indent=2) + "\n",
        lambda: json.dumps(CONTENT, indent=2) + "\n",
        lambda: seal_content("test", CONTENT) + " ",
        lambda: seal_content("test", CONTENT).replace("  ", " ", 1),
        lambda: "",
        lambda: '[,\n  "seal": {}\n}\n',
        lambda: "[" * 100_000 + seal_content("test", CONTENT),
    ],
    ids=[
        *(
            "another digest",
            "the id of a key",
            "no digest",
            "a space in the seal",
            "a number",
            "no seal",
            "a space more",
        ),
        *("a space less", "empty", "a list", "deep"),
    ],
)
def test_what_was_not_sealed_so_is_damaged(text: object) -> None:
    assert callable(text)
    with pytest.raises(Damaged):
        unseal("test", text())


def test_no_bit_of_a_sealed_text_can_be_turned() -> None:
    text = seal_content("test", CONTENT).encode()
    unnoticed = []
    for bit in range(len(text) * 8):
        turned = bytearray(text)
        turned[bit // 8] ^= 1 << bit % 8
        try:
            unseal("test", turned.decode("utf-8"))
        except (Damaged, UnicodeDecodeError):
            continue
        unnoticed.append(bit)
    assert unnoticed == []
