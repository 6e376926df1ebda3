"""How the server of a release is started."""

import pytest

from grpo_recipes.facts.vllm_server import server_program


def versions(trl: str, vllm: str | None = None) -> dict[str, str | None]:
    return {"trl": trl, "vllm": vllm}


def test_the_newest_starts_vllms_own_as_trl_does() -> None:
    program = server_program(versions("1.16.0", "0.31.0"))
    assert program is not None
    assert program.command[:4] == ("-m", "vllm.entrypoints.cli.main", "serve", "{model}")
    assert program.words[-1] == "--enable-scale-out"
    assert program.words[4:6] == ("--weight-transfer-config", '{"backend": "nccl"}')
    assert program.environment == {"VLLM_SERVER_DEV_MODE": "1"}


def test_where_a_server_listens_is_left_to_the_start() -> None:
    for trl in ("0.16.1", "1.10.0", "1.16.0"):
        program = server_program(versions(trl))
        assert program is not None
        assert program.command[program.command.index("--host") + 1] == "{host}"


@pytest.mark.parametrize(
    ("trl", "vllm", "words"),
    [("1.13.0", "0.28.0", 6), ("1.16.0", "0.29.0", 6), ("1.14.0", "0.30.0", 7), ("1.10.0", "0.26.0", 0)],
)
def test_words_are_those_of_the_releases(trl: str, vllm: str, words: int) -> None:
    program = server_program(versions(trl, vllm))
    assert program is not None and len(program.words) == words


@pytest.mark.parametrize("trl", ["0.15.2", None])
def test_a_release_without_a_server_has_none(trl: str | None) -> None:
    assert server_program({"trl": trl}) is None


def test_vllms_own_takes_everything_by_its_spelling() -> None:
    program = server_program(versions("1.16.0"))
    assert program is not None and program.takes is None
    given = {"enforce_eager": True, "enable_prefix_caching": False, "max_model_len": None, "seed": 7}
    flags = program.flags({**given, "compilation_config": {"level": 0}, "middleware": ["a", "b"]})
    assert flags == [
        *("--enforce-eager", "--no-enable-prefix-caching", "--seed", "7"),
        *("--compilation-config", '{"level": 0}', "--middleware", "a", "b"),
    ]


def test_trls_own_takes_what_it_has_by_its_spelling() -> None:
    program = server_program(versions("0.19.1"))
    assert program is not None
    flags = program.flags({"enforce_eager": True, "seed": 7, "max_model_len": 64, "speculative_config": {}})
    assert flags == ["--enforce_eager", "True", "--max_model_len", "64"]
