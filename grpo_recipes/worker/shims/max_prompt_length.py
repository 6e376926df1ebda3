"""Keeps the last tokens of a long prompt, like GRPOTrainer's field max_prompt_length up to trl 0.23.

Defect: trl 0.24 and 0.25 let the tokenizer truncate, which keeps a special token at the start and one token less at the
end. trl 0.26 and 0.27 accept the field and ignore it, 0.28 removed it: prompts are not cut at all.
Seen: trl 0.26.2 with max_prompt_length 6 trains on prompts of 11 tokens.
Remove when: recipes no longer have generation.max_prompt_length.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused, replace_temporarily
from grpo_recipes.worker.completions.resampled_groups import is_drawing

METRIC = "prompts/clipped_ratio"


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Cuts prompts longer than `value` tokens on their left, after the chat template and before generation."""
    cut = _Cut(trainer, int(str(value)))
    if trainer.seams.has("prompts are tokenized"):
        trainer.seams.change("prompts are tokenized", "last tokens", functools.partial(_tokenize_and_cut, cut))
    else:  # trl 0.24 to 0.29.0, where generation tokenizes prompts with the trainer's processing_class
        tokenizing = _Tokenizing(trainer.processing_class, cut)
        trainer.seams.surround(
            "turn is generated", "last tokens", lambda: replace_temporarily(trainer, "processing_class", tokenizing)
        )
    if hasattr(trainer, "max_prompt_length"):
        trainer.max_prompt_length = None  # otherwise the tokenizer of trl 0.24 and 0.25 would truncate at their default
    trainer.add_callback(cut)
    return f"prompts keep their last {cut.length} tokens"


class _Cut(TrainerCallback):  # type: ignore[misc]
    """Keeps the last `length` tokens of each prompt, and prints at the end how many were longer."""

    def __init__(self, trainer: Any, length: int) -> None:
        self.length, self.prompts, self.longer = length, 0, 0
        self._trainer = trainer

    def rows(self, prompt_ids: list[list[int]]) -> list[list[int]]:
        """Returns prompts cut to their last `length` tokens."""
        self._note([len(ids) for ids in prompt_ids])
        return [list(ids[-self.length :]) for ids in prompt_ids]

    def padded(self, tokenized: Any) -> Any:
        """Returns a tokenizer's output, left-padded tensors (B, P) or lists, cut to the last `length` tokens."""
        mask = tokenized["attention_mask"]
        self._note([int(sum(row)) for row in mask])
        for name, values in tokenized.items():
            is_tensor = isinstance(values, torch.Tensor)
            tokenized[name] = values[:, -self.length :] if is_tensor else [row[-self.length :] for row in values]
        return tokenized

    def _note(self, lengths: list[int]) -> None:
        trainer = self._trainer
        counts = torch.tensor([[sum(length > self.length for length in lengths), len(lengths)]])
        longer, prompts = trainer.accelerator.gather(counts.to(trainer.accelerator.device)).sum(0).tolist()
        trainer.seams.figures("train" if trainer.model.training else "eval")[METRIC].append(longer / prompts)
        if is_drawing(trainer):
            return  # the prompts that were kept are passed a second time
        self.longer += longer // trainer.num_generations  # each prompt is repeated for its completions
        self.prompts += prompts // trainer.num_generations

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints the counts, over all ranks and steps."""
        if state.is_world_process_zero:
            print(f"{self.longer} of {self.prompts} prompts were cut to their last {self.length} tokens", flush=True)


def _tokenize_and_cut(cut: _Cut, tokenize: Callable[[Any], Any], prompts: Any) -> Any:
    """Cuts in trl since 0.29.1: one method returns prompt_ids, images and a processor's fields, for every generator."""
    prompt_ids, images, fields = tokenize(prompts)
    if images or fields:
        raise Refused.of(
            "max_prompt_length is set, and the model's processor returns more than token ids",
            because=f"{', '.join(fields) or 'images'} would not match a cut prompt",
        )
    return cut.rows(prompt_ids), images, fields


class _Tokenizing:
    """The trainer's tokenizer, which also cuts prompts."""

    def __init__(self, own: Any, cut: _Cut) -> None:
        self._own, self._cut = own, cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._cut.padded(self._own(*given, **named))

    def apply_chat_template(self, *given: Any, **named: Any) -> Any:
        """Returns token ids with their mask, cut; a text unchanged."""
        tokenized = self._own.apply_chat_template(*given, **named)
        return tokenized if isinstance(tokenized, str) else self._cut.padded(tokenized)
