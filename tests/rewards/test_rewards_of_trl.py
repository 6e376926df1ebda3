"""The shipped rewards that TRL has, too: the same options give the same numbers, also at the bounds."""

import random

import pytest

from grpo_recipes.rewards.cosine_scaled import cosine_scaled
from grpo_recipes.rewards.repetition_penalty import repetition_penalty
from grpo_recipes.rewards.soft_overlong_punishment import soft_overlong_punishment

MANY = 300


@pytest.mark.stack
def test_overlong_completions_are_punished_as_trl_does() -> None:
    from trl.rewards import get_soft_overlong_punishment

    drawn = random.Random(1)
    for _ in range(MANY):
        longest = drawn.randint(1, 60)
        cache = drawn.choice([0, 1, longest, drawn.randint(0, longest)])
        near = [longest - cache + step for step in (-1, 0, 1)] + [longest + step for step in (-1, 0, 1)]
        ids = [[7] * max(0, length) for length in (*near, 0, drawn.randint(0, 99))]
        options = {"max_completion_len": longest, "soft_punish_cache": cache}
        texts = [""] * len(ids)
        found = soft_overlong_punishment(texts, completion_ids=ids, **options)
        assert found == get_soft_overlong_punishment(**options)(completion_ids=ids)


@pytest.mark.stack
def test_repetitions_are_punished_as_trl_does() -> None:
    from trl.rewards import get_repetition_penalty_reward

    drawn = random.Random(2)
    for _ in range(MANY):
        options = {"ngram_size": drawn.randint(1, 5), "max_penalty": drawn.choice([0.0, -1, -drawn.random()])}
        lengths = [0, options["ngram_size"] - 1, options["ngram_size"], drawn.randint(0, 60)]
        ids = [drawn.choices(range(drawn.randint(1, 9)), k=length) for length in lengths]
        found = repetition_penalty([""] * len(ids), completion_ids=ids, **options)
        assert found == get_repetition_penalty_reward(**options)(completion_ids=ids)


@pytest.mark.stack
def test_answers_are_scaled_as_trl_does() -> None:
    from trl.rewards import get_cosine_scaled_reward

    drawn = random.Random(3)
    names = ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct")
    answers, solutions = [r"\boxed{42}", r"So \boxed{\frac{1}{3}}", r"\boxed{41}", ""], ["$42$", r"$\frac{1}{3}$", "no"]
    for place in range(MANY // 10):
        longest = drawn.randint(1, 60)
        values = sorted(drawn.uniform(-2, 2) for _ in names)
        options = {} if place == 0 else dict(zip(names, values, strict=True))
        texts = drawn.choices(answers, k=10)
        ids = [[7] * length for length in (0, 1, longest - 1, longest, longest + 1, *drawn.choices(range(99), k=5))]
        given = {"completion_ids": ids, "solution": drawn.choices(solutions, k=10)}
        said = [[{"role": "assistant", "content": text}] for text in texts]
        wanted = get_cosine_scaled_reward(max_len=longest, **options)(said, **given)
        for completions in (said, texts):
            assert cosine_scaled(completions, max_len=longest, **given, **options) == wanted


TOKENS = {"completion_ids": [[1]]}
WRONG = [
    (
        soft_overlong_punishment,
        {"soft_punish_cache": 1},
        "max_completion_len must be a whole number of at least 1, not None",
    ),
    (
        soft_overlong_punishment,
        {"soft_punish_cache": -1, "max_completion_len": 9},
        "soft_punish_cache must be a whole number of at least 0, not -1",
    ),
    (
        soft_overlong_punishment,
        {"soft_punish_cache": True, "max_completion_len": 9},
        "soft_punish_cache must be a whole number of at least 0, not True",
    ),
    (
        soft_overlong_punishment,
        {"soft_punish_cache": 10, "max_completion_len": 9},
        "soft_punish_cache 10 is more than max_completion_len 9",
    ),
    (repetition_penalty, {"ngram_size": 0}, "ngram_size must be a whole number of at least 1, not 0"),
    (repetition_penalty, {"ngram_size": "3"}, "ngram_size must be a whole number of at least 1, not '3'"),
    (repetition_penalty, {"max_penalty": 1.0}, "max_penalty 1.0 would reward repetition"),
    (repetition_penalty, {"max_penalty": float("nan")}, "max_penalty must be a finite number, not nan"),
    (cosine_scaled, {"solution": ["1"]}, "max_len must be a whole number of at least 1, not None"),
    (
        cosine_scaled,
        {"solution": ["1"], "max_len": 9, "min_value_wrong": "x"},
        "min_value_wrong must be a finite number, not 'x'",
    ),
    (
        cosine_scaled,
        {"solution": ["1"], "max_len": 9, "min_value_correct": 2},
        "min_value_correct 2 is more than max_value_correct 1.0",
    ),
]


@pytest.mark.parametrize(("reward", "options", "said"), WRONG)
def test_a_wrong_option_is_named(reward, options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"{reward.__name__}: {said}"):
        reward(["1"], **TOKENS, **options)
