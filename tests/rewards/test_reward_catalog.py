"""The catalog of shipped rewards against the functions themselves."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from grpo_recipes.rewards.catalog import TOKENS, Signature, shipped_reward, shipped_rewards
from grpo_recipes.rules.reward_source_exists import KINDS


def test_every_reward_is_listed_with_what_it_takes() -> None:
    found = {name: (each.columns, each.options, each.required) for name, each in shipped_rewards().items()}
    assert found == {
        "accuracy": (("solution",), {}, ()),
        "code_tests": (
            ("tests",),
            {"fences": ("python", "python3", "py"), "cpu_seconds": 2, "memory_mb": 1024, "partial": True},
            (),
        ),
        "completion_length": ((), {"target": 0, "max_characters": 1000}, ()),
        "cosine_scaled": (
            ("solution",),
            {
                "max_len": None,
                "min_value_wrong": -1.0,
                "max_value_wrong": -0.5,
                "min_value_correct": 0.5,
                "max_value_correct": 1.0,
            },
            (),
        ),
        "countdown": (("nums", "target"), {}, ()),
        "exact_match": (("solution",), {"ignore_case": False}, ()),
        "follows_instruction": (("ground_truth",), {}, ()),
        "function_calls": (("solution",), {}, ()),
        "json_fields": (("solution",), {}, ()),
        "language_consistency": ((), {}, ("scripts",)),
        "reasoning_gym": (
            ("question", "answer", "task", "task_config", "metadata"),
            {"answer_in": "completion", "partial": True},
            (),
        ),
        "regex_match": ((), {"full": False}, ("pattern",)),
        "repetition_penalty": ((), {"ngram_size": 3, "max_penalty": -1.0}, ()),
        "soft_overlong_punishment": ((), {"max_completion_len": None}, ("soft_punish_cache",)),
        "tag_format": ((), {"tags": ("think", "answer")}, ()),
        "valid_json": ((), {"required_keys": ()}, ()),
    }


@pytest.mark.parametrize(
    "name", ["", "catalog", "__init__", "../rewards/accuracy", "Accuracy", "a\0b", "accuracy" * 100]
)
def test_what_is_no_reward_is_none(name: str) -> None:
    assert shipped_reward(name) is None


@pytest.mark.processes  # code_tests looks for a sandbox
def test_the_catalog_agrees_with_the_live_functions() -> None:
    for name, signature in shipped_rewards().items():
        function = getattr(import_module(f"grpo_recipes.rewards.{name}"), name)
        parameters = list(inspect.signature(function).parameters.values())
        assert parameters[0].name == "completions"
        assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        keywords = {each.name: each.default for each in parameters[1:-1]}
        assert signature == Signature(
            signature.columns,
            {key: value for key, value in keywords.items() if value is not inspect.Parameter.empty},
            signature.required,
            (function.__doc__ or "").partition("\n")[0],
            TOKENS in keywords,
            signature.kinds,
        )
        assert set(signature.kinds) == {*signature.options, *signature.required}
        assert set(signature.kinds.values()) <= set(KINDS), "validate knows what a recipe may write"
        taken = {*signature.columns, *signature.required, *signature.options}
        assert taken | ({TOKENS} if signature.reads_tokens else set()) == set(keywords)
        assert signature.doc.endswith((".", ","))


@pytest.mark.processes
def test_the_catalog_imports_no_reward() -> None:
    code = (
        "import sys; from grpo_recipes.rewards.catalog import shipped_rewards; shipped_rewards();"
        "print([name for name in sys.modules if name.startswith('grpo_recipes.rewards.') or 'math' in name[4:]])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['grpo_recipes.rewards.catalog']"
