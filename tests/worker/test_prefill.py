"""What a prompt already contains of its answer: how it is found, and what rewards make of it."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.tiny_models import TEMPLATE
from worker_runs import Changes, Trained, planned_reward

from grpo_recipes.contract.metrics import COMPLETIONS_FILE, read_all
from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.prefill import Prefill, prepend_prefill
from grpo_recipes.worker.user_code.reward_functions import load_rewards

pytestmark = pytest.mark.stack

OPEN, CLOSED = "<think>\n", "<think>\n\n</think>\n\n"
QUESTION = {"role": "user", "content": "1+1="}


def begins_with(prefill: str) -> str:
    """The tiny model's template, whose generation prompt begins the answer."""
    return TEMPLATE.replace("<|im_start|>{% endif %}", f"<|im_start|>{prefill}{{% endif %}}")


@pytest.fixture
def found(tiny_model: Path) -> Callable[..., str]:
    """What a template begins of an answer, with variables and with messages before the question."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_model)

    def find(template: str, *before: Changes, **variables: Any) -> str:
        tokenizer.chat_template = template
        return Prefill(lambda: tokenizer, variables)([[*before, QUESTION]])[0]

    return find


@pytest.mark.parametrize("prefill", ["", OPEN, CLOSED, '{"answer": ', "Let me think.\n<think>"])
def test_the_prefill_is_what_follows_the_header(prefill: str, found: Callable[..., str]) -> None:
    assert found(begins_with(prefill)) == prefill
    system = {"role": "system", "content": "Add."}
    assert found(begins_with(prefill), system) == prefill


def test_it_depends_on_variables_and_system_messages(found: Callable[..., str]) -> None:
    by_variable = begins_with("{% if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}")
    assert (found(by_variable), found(by_variable, enable_thinking=True)) == ("", OPEN)
    by_message = begins_with("{% if '/think' in messages[0].content %}<think>\n{% endif %}")
    assert (found(by_message), found(by_message, {"role": "system", "content": "/think"})) == ("", OPEN)


def test_a_block_that_the_history_has_too_is_no_header(found: Callable[..., str]) -> None:
    history = begins_with(CLOSED).replace(
        "{{ message['content'] }}", "{% if message.role == 'assistant' %}" + CLOSED + "{% endif %}{{ message.content }}"
    )
    assert found(history) == CLOSED


def test_the_prefills_of_trls_own_templates(found: Callable[..., str]) -> None:
    """All 70 are read; those of models that think by default begin with their tag."""
    import trl

    texts = {file.stem: file.read_text() for file in Path(trl.__file__).parent.glob("chat_templates/*.jinja")}
    beginning = {name for name, text in texts.items() if found(text)}
    assert {found(texts[name]) for name in beginning} == {OPEN, CLOSED}
    assert {"deepseek_r1_distill", "qwen3_5_think"} <= beginning
    assert beginning.isdisjoint({"qwen2_5", "qwen3", "llama3", "gemma3", "phi3", "qwen3_instruct_2507"})
    assert (
        found(texts["qwen3"], enable_thinking=False) == CLOSED == found(texts["qwen3_training"], enable_thinking=False)
    )


def test_a_plain_prompt_begins_the_answer_with_the_tag_at_its_end() -> None:
    prompts = ["1+1=", "Assistant: I think.\n<think>", "Write <answer></answer>", "a < b >", "Answer: <answer> "]
    assert Prefill(lambda: None, {})(prompts) == ["", "<think>", "", "", "<answer> "]


def test_a_completion_is_put_behind_its_prefill() -> None:
    said = {"role": "assistant", "content": "a</think>\nb"}
    assert prepend_prefill("a</think>", OPEN) == "<think>\na</think>"
    assert prepend_prefill([said], OPEN) == [{"role": "assistant", "content": "<think>\na</think>\nb"}]
    reply, parsed = {"role": "tool", "content": "2"}, {**said, "reasoning_content": "a"}
    assert prepend_prefill([said, reply, parsed], OPEN) == [*prepend_prefill([said], OPEN), reply, parsed], (
        "TRL took the last one apart"
    )


IN_TAGS = "so</think>\n<answer>2</answer>"
SHIPPED: list[tuple[str, Changes, str, str, float]] = [
    ("tag_format", {}, "", IN_TAGS, 0.0),
    ("tag_format", {}, OPEN, IN_TAGS, 1.0),
    ("tag_format", {}, OPEN, "2", 0.0),
    ("tag_format", {}, CLOSED, "<answer>2</answer>", 1.0),
    ("tag_format", {}, CLOSED, f"<think>{IN_TAGS}", 1.0),
    ("regex_match", {"pattern": "^<think>"}, OPEN, "2", 1.0),
    ("regex_match", {"pattern": r"\d", "full": True}, CLOSED, "2", 1.0),
    ("exact_match", {}, OPEN, "2", 1.0),
    ("exact_match", {}, OPEN, "3", 0.0),
    ("valid_json", {}, '{"answer": ', "2}", 1.0),
    ("valid_json", {}, CLOSED, '{"answer": 2}', 1.0),
    ("completion_length", {"max_characters": 10}, OPEN, "12345", 0.5),
]


@pytest.mark.parametrize(("name", "options", "prefill", "text", "value"), SHIPPED)
def test_a_shipped_reward_judges_the_whole_answer_or_what_the_model_wrote(
    name: str, options: Changes, prefill: str, text: str, value: float, tmp_path: Path
) -> None:
    (reward,) = load_rewards(
        (Reward("shipped", name, name, 1.0, options),), tmp_path, None, lambda each: [prefill] * len(each)
    )
    assert not isinstance(reward, str)
    for completion in (text, [{"role": "assistant", "content": text}]):
        assert reward(prompts=["1+1="], completions=[completion], solution=["2"]) == [value]


OWN = """
def told(completions, prefills=None, **kwargs):
    return [float(len(prefill)) for prefill in prefills]

async def later(completions, prefills, **kwargs):
    return told(completions, prefills)

def same(completions, **kwargs):
    return [float(len(text)) if "prefills" not in kwargs else -1.0 for text in completions]
"""


@pytest.mark.parametrize(("name", "values"), [("told", [8.0, 8.0]), ("later", [8.0, 8.0]), ("same", [1.0, 2.0])])
def test_a_users_reward_is_told_of_it_only_if_it_asks(name: str, values: list[float], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    digest = hashlib.sha256(OWN.encode()).hexdigest()
    own = Reward("python", name, f"own.py:{name}", 1.0, sha256=digest)

    def called(prefill: Callable[[Sequence[Any]], list[str]] | None) -> Any:
        (reward,) = load_rewards((own,), tmp_path, None, prefill)
        assert not isinstance(reward, str)
        answer = reward(prompts=["a", "b"], completions=["1", "12"])
        return asyncio.run(answer) if name == "later" else answer

    assert called(lambda each: [OPEN] * len(each)) == values
    assert called(None) == (values if name == "same" else [0.0, 0.0])


def test_a_run_judges_answers_behind_their_prefill_and_records_it(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], held_out: Callable[..., Changes], tmp_path: Path
) -> None:
    template = tmp_path / "think.jinja"
    template.write_text(begins_with(OPEN))
    rewards = [planned_reward("regex_match", name="begins", kwargs={"pattern": "^<think>", "full": False})]
    plan = make_plan(arguments={"max_steps": 1}, rewards=rewards, evaluation=held_out())
    plan["tokenizer"] |= {"chat_template_path": str(template)}
    plan["expect"]["arguments"] = {}
    plan["guards"]["zero_variance"] = "off"
    run = trained(plan)
    assert run.exit_code == 0, run.output
    (line,) = read_all(str(run.folder / COMPLETIONS_FILE))
    rows: Any = line["rows"]
    assert {(row["prefill"], row["rewards"]["begins"]) for row in rows} == {(OPEN, 1.0)}
    assert not any(row["completion"].startswith("<think>") for row in rows)
    judged = (run.folder / "evaluation" / "step-0.jsonl").read_text()
    assert judged.count('"prefill": "<think>\\n"') == 11 and run.record["evaluation"]["before"]["reward"] == 1.0
