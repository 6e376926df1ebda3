"""TRN001: what the trainer asks for when it makes the optimizer."""

import re

import pytest
from library import Library, environment_of_ranks

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules.optimizer_can_be_built import LOW_RANK, OTHER_HARDWARE
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

GALORE = {"optim": "galore_adamw", "optim_target_modules": ["0"]}
LAYERWISE = {**GALORE, "optim": "galore_adamw_layerwise"}


def _of(table: dict[str, object], word: str) -> object:
    return table.get(max((start for start in table if word.startswith(start)), key=len, default=""))


@pytest.fixture(scope="module")
def words(library: Library) -> dict[str, str]:
    """The words of `optim`, with the source of what makes their optimizers."""
    return dict(library.call("in_training.optimizer_words").result)


def test_the_words_that_cannot_be_built_are_those_without_their_package(
    library: Library, words: dict[str, str]
) -> None:
    installed = installed_packages()
    for word in words:
        answer = library.call("in_training.optimizer", arguments={"optim": word})
        package = str(_of(table("trainer_words")["optimizer_packages"], word))
        missing = word in OTHER_HARDWARE or (package != "None" and installed[package] is None)
        tied = word.startswith((*LOW_RANK, "lomo", "adalomo"))
        assert (answer.raised in ("ImportError", "ValueError")) == missing or tied, (word, answer)
        assert answer.stage != "config" or missing, word


def test_the_names_that_an_optimizer_reads_are_those_of_the_table(words: dict[str, str]) -> None:
    for word, source in words.items():
        read = _of(table("trainer_words")["optimizer_arguments"], word) or ()
        asked = set(re.findall(r'optim_args\.(?:get|pop)\(\s*"(\w+)"', source))
        listed = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"for key in \(([^)]*)\)", source))))
        tested = set(re.findall(r'"(\w+)" in ctx\.optim_args', source))
        if "_get_bitsandbytes_optimizer" in source:
            continue  # one function for all of its words, see below
        assert asked | listed | tested == set(read), word  # type: ignore[call-overload]


def test_a_name_that_is_not_read_changes_nothing(library: Library) -> None:
    def moved(**arguments: str) -> float:
        return float(library.call("in_training.optimizer", arguments=arguments).result["moved"])

    assert moved(optim="adamw_torch", optim_args="betas=0.5") == moved(optim="adamw_torch")
    assert moved(optim="sgd", optim_args="beta3=0.99") == moved(optim="sgd")
    assert moved(optim="sgd", optim_args="weight_decay=0.5") != moved(optim="sgd")
    assert moved(optim="paged_lion_8bit", optim_args="beta1=0.5") == moved(optim="paged_lion_8bit")


@pytest.mark.parametrize("text", ["momentum", "momentum: 0.9", "momentum=0.9=1"])
def test_another_shape_raises_when_the_optimizer_is_made(library: Library, text: str) -> None:
    answer = library.call("in_training.optimizer", arguments={"optim": "sgd", "optim_args": text})
    assert (answer.raised, "unpack" in answer.text) == ("ValueError", True)


def test_arguments_reach_bitsandbytes_as_text(library: Library) -> None:
    answer = library.call("in_training.optimizer", arguments={"optim": "rmsprop_bnb", "optim_args": "alpha=0.9"})
    assert answer.raised == "TypeError"


def test_low_rank_optimizers_want_modules(library: Library) -> None:
    told = library.call("in_training.low_rank", arguments=GALORE)
    assert told.raised == "", told.text
    untold = library.call("in_training.low_rank", arguments={"optim": "galore_adamw"})
    assert "You need to define `optim_target_modules`" in untold.text
    other = library.call("in_training.low_rank", arguments={**GALORE, "optim_target_modules": True})
    assert other.raised == "TypeError"


def test_layerwise_optimizers_know_no_accumulation_and_no_ranks(library: Library) -> None:
    alone = {**LAYERWISE, "gradient_accumulation_steps": 1}
    accumulating = library.call("in_training.low_rank", arguments={**LAYERWISE, "gradient_accumulation_steps": 2})
    assert "does not support gradient accumulation" in accumulating.text
    assert "does not support DDP" in library.call("in_training.low_rank", arguments=alone, ranks=True).text
    assert "does not support" not in library.call("in_training.low_rank", arguments=alone).text


def test_no_optimizer_of_bitsandbytes_steps_under_fsdp2(library: Library, words: dict[str, str]) -> None:
    own = [word for word in words if _of(table("trainer_words")["optimizer_packages"], word) == "bitsandbytes"]
    answer = library.call(
        "in_two_processes.sharded_steps", environment=environment_of_ranks(1), words=["adamw_torch_fused", *own]
    )
    assert answer.result.pop("adamw_torch_fused") == ""
    assert len(own) >= 10
    assert [word for word, text in answer.result.items() if "DTensor" not in text and "sharding" not in text] == []
