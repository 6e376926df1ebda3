"""VLL002, VLL003, GEN007, GEN010, GEN011 and GEN012: what a real vLLM takes, refuses, and does otherwise."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from small_models import END, START, ids_of, write_chains
from vllm_servers import environment, warm

from grpo_recipes.facts.released.shipped import table

pytestmark = pytest.mark.vllm

CHAIN = [START, *"abcdefgh", END]
ASKED = Path(__file__).with_name("asked_of_vllm.py")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one engine answered, in a process of its own."""
    folder = write_chains(tmp_path_factory.mktemp("model") / "chain", [CHAIN])
    ran = subprocess.run(
        [warm(), "-Xwarm", str(ASKED), str(folder)],
        env=environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_PORT="0"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    line = next((line for line in ran.stdout.splitlines() if line.startswith("answers ")), None)
    assert line is not None, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(line.removeprefix("answers "))
    return found


def test_the_table_has_the_arguments_of_the_engine(answers: dict[str, Any]) -> None:
    assert sorted(answers["fields"]) == sorted(table("vllm_engine")["fields"])
    assert set(table("vllm_engine")["owned"]) <= set(answers["fields"])
    assert answers["unknown argument"] == "TypeError"


def test_a_float32_checkpoint_is_computed_in_bfloat16_unless_told_otherwise(answers: dict[str, Any]) -> None:
    assert answers["dtype"] == "torch.bfloat16"


@pytest.mark.parametrize("pattern", ["[0-9]+", "(?<x>a)", r"\p{L}+", "a**", r"[\b]"])
def test_a_pattern_of_which_nothing_is_said_is_followed(answers: dict[str, Any], pattern: str) -> None:
    assert answers["patterns"][pattern] is True


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "*a", "a{3,1}", "[z-a]", "(?=a)b", "b(?!a)", "(?<=a)b", r"(a)\1", r"\bab"]
)
def test_a_pattern_that_is_found_fault_with_is_refused(answers: dict[str, Any], pattern: str) -> None:
    assert answers["patterns"][pattern] == "VLLMValidationError"


def test_completions_with_one_seed_are_all_the_same(answers: dict[str, Any]) -> None:
    assert len({tuple(one) for one in answers["seeded"]}) == 1
    assert len({tuple(one) for one in answers["unseeded"]}) == 4


def test_a_stop_before_the_shortest_completion_is_never_looked_at_again(answers: dict[str, Any]) -> None:
    whole = ids_of(CHAIN[1:])
    assert answers["chain"] == [whole]
    assert answers["stopped"] == [ids_of("abc")]
    assert answers["stopped too early"] == [whole]


def test_a_stop_id_is_not_even_sampled_before_the_shortest_completion(answers: dict[str, Any]) -> None:
    assert ids_of("c")[0] not in answers["stopped by id too early"][0]


def test_what_vllm_refuses_is_refused(answers: dict[str, Any]) -> None:
    assert answers["unknown key"] == "TypeError"
    assert answers["hot"] == "VLLMValidationError"
    assert answers["shortest above longest"] == "VLLMValidationError"
    assert answers["text as an id"] == "TypeError"
