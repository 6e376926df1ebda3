"""The tools of a run, called by its trained model as in the training: TRL's own loop, with a policy for a trainer."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

from transformers import ProcessorMixin
from trl import GRPOTrainer
from trl import chat_template_utils as templates

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.answering.policy import Policy
from grpo_recipes.worker.completions.ends import tokenizer_of
from grpo_recipes.worker.completions.tool_turns import LOOP
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import load_tools

_SUFFIX = "_get_tool_suffix_ids"
_MOST = "max_tool_calling_iterations"


class CalledTools:
    """The loaded tools. functions: in the order of the plan, none without any."""

    def __init__(self, plan: Plan, functions: list[Any], tally: Tally) -> None:
        self._plan, self._tally = plan, tally
        self.functions = functions

    def given_to(self, policy: Policy) -> None:
        """Lets a policy call them. Each has the same random numbers for its calls."""
        if not self.functions:
            return
        arguments, tokenizer = self._plan.arguments.GRPOConfig, tokenizer_of(policy)
        self._tally.begin(f"answers {arguments['seed']}")
        if not any(getattr(tokenizer, name, None) for name in ("response_template", "response_schema")):
            templates.add_response_schema(policy.processing_class)
        own: dict[str, Any] = {
            name: MethodType(getattr(GRPOTrainer, name), policy)
            for name in (LOOP, _SUFFIX)
            if hasattr(GRPOTrainer, name)
        }
        has_own = templates.is_chat_template_prefix_preserving(policy.processing_class)
        most = arguments.get(_MOST)
        own |= {
            "tools": self.functions,
            "chat_template": None if has_own else templates.get_training_chat_template(policy.processing_class),
            "chat_template_kwargs": policy.args.chat_template_kwargs or {},
            "max_completion_length": policy.args.max_completion_length,
            _MOST: most if isinstance(most, int) else 1 << 30,
            "use_vllm": False,
            "_is_vlm": isinstance(policy.processing_class, ProcessorMixin),
            "_tokenizer": tokenizer,
            "environment_factories": None,
        }
        if any(map(inspect.iscoroutinefunction, self.functions)):
            own["async_loop"] = _loop()
        vars(policy).update(own)


@contextmanager
def called_tools(plan: Plan, user: Path) -> Iterator[CalledTools]:
    """Loads the tools of a plan, and ends their process. user: the folder of their files. Raises Refused."""
    tally = Tally()
    if not plan.tools:
        yield CalledTools(plan, [], tally)
        return
    tools = load_tools(plan.tools, user, tally)
    try:
        yield CalledTools(plan, tools.functions, tally)
    finally:
        tools.close()


def _loop() -> asyncio.AbstractEventLoop:
    """A loop in a thread that ends with the process; TRL has one for asynchronous tools."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
