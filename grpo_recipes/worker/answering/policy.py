"""What stands where a trainer does in a run, for what generates and judges: nothing here is trained."""

from types import SimpleNamespace
from typing import Any

from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerState

from grpo_recipes.contract.plan import Data, Evaluation, Plan
from grpo_recipes.worker.trainer.model import set_aside

PROMPTS_AT_ONCE = 16
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class Policy:
    """A model with its tokenizer, rewards and settings, under the names that a GRPOTrainer has for them.

    own_generation_config: the model's, before what of it changes the sampling was set aside.
    """

    def __init__(self, plan: Plan, model: Any, processing: Any, rewards: list[Any]) -> None:
        arguments = plan.arguments.GRPOConfig
        self.args = SimpleNamespace(
            seed=arguments["seed"],
            max_completion_length=arguments["max_completion_length"],
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
        self.reward_funcs = [_loaded(reward) for reward in rewards]
        self.reward_processing_classes = [
            _reward_tokenizer(reward, function) for reward, function in zip(rewards, self.reward_funcs, strict=True)
        ]
        set_aside(self)


def as_trained(plan: Plan, data: Data, *, greedy: bool) -> Evaluation:
    """How the recipe generates, on rows of `data`."""
    arguments = plan.arguments.GRPOConfig
    if plan.evaluation is not None:
        sampling, longest = plan.evaluation.sampling, plan.evaluation.max_prompt_length
    else:
        sampling = {name: arguments[name] for name in _SAMPLING if name in arguments}
        longest = None
    return Evaluation(data, True, 0, greedy, PROMPTS_AT_ONCE, sampling, longest)


def _loaded(reward: Any) -> Any:
    """The reward function; a reward model's name becomes the model, as TRL loads it."""
    if not isinstance(reward, str):
        return reward
    return AutoModelForSequenceClassification.from_pretrained(reward, num_labels=1).eval()


def _reward_tokenizer(reward: Any, model: Any) -> Any:
    """The tokenizer of a reward model, None for a function. Source: trl 1.16.0 grpo_trainer.py."""
    if not isinstance(reward, str):
        return None
    tokenizer = AutoTokenizer.from_pretrained(reward)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer
