"""Takes the place of a trainer for code that generates and judges without training."""

import asyncio
import base64
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification, AutoTokenizer, ProcessorMixin, TrainerState
from trl import GRPOTrainer

from grpo_recipes.contract.plan import Data, Evaluation, Plan
from grpo_recipes.contract.seams import TOOL_LOOP, TOOL_SUFFIX
from grpo_recipes.worker.completions.held_out_environments import answer_held_out_rows_with
from grpo_recipes.worker.data.image_files import image_as_in_rows
from grpo_recipes.worker.data.images import tokens_of_images
from grpo_recipes.worker.ends.ends import tokenizer_of
from grpo_recipes.worker.model.generation_file import set_aside
from grpo_recipes.worker.tools.environments import NO_TOOLS, OWN_REWARD
from grpo_recipes.worker.tools.turns import Turns, load_turns

PROMPTS_AT_ONCE = 16
_MOST = "max_tool_calling_iterations"
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class Policy:
    """A model with its tokenizer, rewards and settings, under GRPOTrainer's names for them.

    own_generation_config: the model's, before its values that change the sampling were removed.
    """

    def __init__(self, plan: Plan, model: Any, processing: Any, rewards: list[Any]) -> None:
        arguments = plan.arguments.GRPOConfig
        self.max_completion_length = arguments["max_completion_length"]
        self.args = SimpleNamespace(
            seed=arguments["seed"],
            max_completion_length=self.max_completion_length,
            cache_implementation=arguments.get("cache_implementation"),
            chat_template_kwargs=arguments.get("chat_template_kwargs"),
            per_device_train_batch_size=plan.batch.micro_batch,
            gradient_checkpointing_kwargs=None,
        )
        self.accelerator = Accelerator(cpu=plan.world.device == "cpu")
        self.processing_class = processing
        self.model = self.model_wrapped = model
        self.own_generation_config = model.generation_config
        self.state = TrainerState()
        self.reward_funcs, self.planned_rewards = [_load_reward(reward) for reward in rewards], len(rewards)
        self.reward_processing_classes = [
            _reward_tokenizer(reward, function) for reward, function in zip(rewards, self.reward_funcs, strict=True)
        ]
        set_aside(self)


def as_trained(plan: Plan, data: Data, *, greedy: bool) -> Evaluation:
    """Returns an evaluation on rows of `data` that generates as the recipe trains."""
    arguments = plan.arguments.GRPOConfig
    if plan.evaluation is not None:
        sampling, longest = plan.evaluation.sampling, plan.evaluation.max_prompt_length
    else:
        sampling = {name: arguments[name] for name in _SAMPLING if name in arguments}
        longest = None
    return Evaluation(data, True, 0, greedy, PROMPTS_AT_ONCE, sampling, longest)


def _load_reward(reward: Any) -> Any:
    """Returns the reward function; for a reward model's name, the model as TRL loads it."""
    if not isinstance(reward, str):
        return reward
    return AutoModelForSequenceClassification.from_pretrained(reward, num_labels=1).eval()


def _reward_tokenizer(reward: Any, model: Any) -> Any:
    """Returns the tokenizer of a reward model, None for a function. Source: trl's grpo_trainer.py."""
    if not isinstance(reward, str):
        return None
    tokenizer = AutoTokenizer.from_pretrained(reward)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def as_asked(data: Data, content: Any) -> list[dict[str, Any]]:
    """Returns the conversation that the recipe's template makes of a user's message, with its system prompt."""
    system = [] if data.system_prompt is None else [{"role": "system", "content": data.system_prompt}]
    return [*system, {"role": "user", "content": content}]


def with_pillow_images(messages: list[dict[str, Any]], plan: Plan, processing: Any) -> list[dict[str, Any]]:
    """Returns messages with Pillow images instead of base64 files, converted like the images of rows.

    Raises ValueError with the reason if that is impossible.
    """
    data = next((source for source in plan.training_data.values() if source.images), None)
    has_images = any(not isinstance(message["content"], str) for message in messages)
    if data is None and has_images:
        raise ValueError("the recipe has no dataset.images: the model was trained on text only")
    if data is None:
        return messages
    converted, tokens = [], tokens_of_images(processing)
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if written := [token for token in tokens for part in parts if token in part.get("text", "")]:
            raise ValueError(f"the text contains {written[0]}, which the model's processor takes for an image")
        converted.append({**message, "content": [_part_with_image(part, data) for part in parts]})
    return converted if has_images else messages


def _part_with_image(part: dict[str, Any], data: Data) -> dict[str, Any]:
    if part["type"] != "image":
        return part
    return {**part, "image": image_as_in_rows(base64.b64decode(part["image"]), data.max_pixels)}


class CalledTools:
    """The functions that a policy can call: tools in the order of the plan, then methods of each environment.

    own_rewards: the names of the rewards that environments bring.
    """

    def __init__(self, plan: Plan, turns: Turns) -> None:
        self._plan, self._tally, self._environment = plan, turns.tally, turns.environment
        self.functions: list[Any] = list(turns.arguments.get("tools", ()))
        self._rewards: dict[str, Callable[..., Any]] = {}
        self._tools_by_name: dict[str, list[Any]] = {}
        several, standing = isinstance(self._environment, dict), list(self.functions)
        made = self._environment if isinstance(self._environment, dict) else {"": self._environment}
        for name, make in made.items():
            if make is None:
                continue
            looked_at = make()
            methods = dict(inspect.getmembers(type(looked_at), inspect.isfunction))
            names = [method for method in methods if not method.startswith("_") and method not in NO_TOOLS]
            own = [getattr(looked_at, method) for method in names]
            self.functions += own
            if several:
                self._tools_by_name[name] = standing + own
            if OWN_REWARD in methods:
                self._rewards[type(looked_at).__name__] = _reward_of(methods[OWN_REWARD], type(looked_at))
        self.own_rewards = tuple(self._rewards)

    def give_to(self, policy: Policy) -> None:
        """Lets a policy call them. Every policy's calls get the same random numbers."""
        answer_held_out_rows_with(policy, self._environment)
        if self._rewards:
            planned = policy.planned_rewards
            policy.reward_funcs = [*policy.reward_funcs[:planned], *self._rewards.values()]
            policy.reward_processing_classes = [
                *policy.reward_processing_classes[:planned],
                *[None for _ in self._rewards],
            ]
        if not self.functions:
            return
        from trl import chat_template_utils as templates  # releases without tools do not have it

        arguments, tokenizer = self._plan.arguments.GRPOConfig, tokenizer_of(policy)
        self._tally.begin(f"answers {arguments['seed']}")
        if not any(getattr(tokenizer, name, None) for name in ("response_template", "response_schema")):
            templates.add_response_schema(policy.processing_class)
        own: dict[str, Any] = {
            name: MethodType(getattr(GRPOTrainer, name), policy)
            for name in (TOOL_LOOP, TOOL_SUFFIX)
            if hasattr(GRPOTrainer, name)
        }
        has_own = templates.is_chat_template_prefix_preserving(policy.processing_class)
        most = arguments.get(_MOST)
        own |= {
            "tools": self.functions,
            "chat_template": None if has_own else templates.get_training_chat_template(policy.processing_class),
            "chat_template_kwargs": policy.args.chat_template_kwargs or {},
            _MOST: most if isinstance(most, int) else 1 << 30,
            "use_vllm": False,
            "_is_vlm": isinstance(policy.processing_class, ProcessorMixin),
            "_tokenizer": tokenizer,
            "environment_factories": self._tools_by_name or None,
            "_env_tools": self._tools_by_name,
        }
        if any(map(inspect.iscoroutinefunction, self.functions)):
            own["async_loop"] = _loop()
        vars(policy).update(own)


@contextmanager
def open_tools(plan: Plan, user: Path, *, of_rows: bool) -> Iterator[CalledTools]:
    """Loads the tools and the environment of a plan, and ends their process. Raises Refused.

    user: the folder of their files. of_rows: whether rows are answered; an environment can only be reset with a row.
    """
    called = replace(plan, rollout=None)
    if not of_rows:
        called = replace(called, environment_class=None, environment_classes={})
    turns = load_turns(called, user)
    try:
        yield CalledTools(plan, turns)
    finally:
        turns.close()


def _reward_of(method: Callable[..., Any], kind: type[Any]) -> Callable[..., Any]:
    """Returns a reward function that calls an environment's reward. Source: trl's grpo_trainer.py (__init__)."""

    async def await_rewards(environments: list[Any], **_: Any) -> list[Any]:
        return [await environment.get_reward() if type(environment) is kind else None for environment in environments]

    def call_rewards(environments: list[Any], **_: Any) -> list[Any]:
        return [environment.get_reward() if type(environment) is kind else None for environment in environments]

    return await_rewards if inspect.iscoroutinefunction(method) else call_rewards


def _loop() -> asyncio.AbstractEventLoop:
    """Returns an event loop in a thread that ends with the process; TRL runs asynchronous tools in such a loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
