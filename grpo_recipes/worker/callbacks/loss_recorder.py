"""Records the loss of the first step: its inputs, the modules that ran and the model's output."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import hands_advantages_on, watch_groups
from grpo_recipes.worker._shared.inputs import IMAGES
from grpo_recipes.worker._shared.library import ShownImages, images_shown_in, vllm_engine
from grpo_recipes.worker.callbacks.turn_recorder import turn_witness
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.ends.ends import ends_of, last_turn
from grpo_recipes.worker.model.trained_tensors import dtype_name, owners
from grpo_recipes.worker.proofs.seen import Completion, Completions, Forward, ImagesSeen, Sampled, completion
from grpo_recipes.worker.shims.less_padding import padded_scores
from grpo_recipes.worker.vllm.engine import images_given_to_vllm


class Witness:
    """Stands around the trainer's loss until leave() is called. Hooks exist only while a loss is computed.

    TRL 0.14 generates inside its loss: there the lengths are those of the generation, and masks are not recorded.
    on_dead_loss: called for a loss without a graph, before the backward pass raises. turns: records the turns of a
    training with tools.
    """

    def __init__(self, trainer: Any, plan: Plan, on_dead_loss: Callable[[], None]) -> None:
        self.turns = turn_witness(trainer, plan)
        self.forwards: list[Forward] = []
        self.losses: list[Any] = []
        self.rows: list[Completion] = []
        self.has_tools = False
        self.noise = 0.0
        self.compute_dtype: str | None = None
        self.scores_dtypes: set[str] = set()
        self.ran: set[int] = set()
        self.unpadded: Sampled | None = None
        self._shape: tuple[int, int, int, int] | None = None
        self._trainer, self._plan, self._on_dead_loss = trainer, plan, on_dead_loss
        self._owners = owners(trainer.model)
        standing = ExitStack()
        self.leave = standing.close
        if self.turns is not None:
            standing.callback(self.turns.leave)
        self._generated: ShownImages | None = None  # None for text rows
        self._shown: list[ShownImages] = []
        self._image_tokens = self._without = 0
        self._given: list[int] = []
        self._counts: list[int] | None = None
        if plan.data.images or any(source.images for source in plan.sources):
            self._generated = ShownImages([], [])
            self._is_first = True
            if vllm_engine(trainer) is None:
                shown = trainer.seams.observe("policy generates", "images of the first step", self._look_at_images)
            else:
                shown = trainer.seams.observe("engine generates", "first step", self._look_at_images)
            standing.callback(shown)
            count = trainer.seams.change("completions are made", "images of the first step", self._count_images)
            standing.callback(count)
        standing.callback(trainer.seams.change("loss is computed", "first step", self._watch_loss))
        if trainer.seams.has("tokens are scored"):
            dtypes = trainer.seams.surround("tokens are scored", "dtypes of the first step", self._watch_scores)
            standing.callback(dtypes)
        if "equal_rewards" in plan.shims and hands_advantages_on(trainer):
            standing.callback(watch_groups(trainer, "noise", self._note_noise))

    def due(self) -> set[str]:
        """Returns the trainable tensors whose modules took part in a loss.

        Tensors that belong to no layer, such as image_newline of LLaVA-NeXT, are in a loss with images alone.
        """
        head = self._trainer.model.get_output_embeddings()  # its weight is used without a call
        shown = any(images.parts for images in self._shown)
        return {
            name
            for name, module in self._owners.items()
            if module is head or (id(module) in self.ran and (shown or not hasattr(module, "get_image_features")))
        }

    def _watch_loss(self, compute: Callable[..., Any], model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        has_completions = "completion_ids" in inputs
        if has_completions:
            self._counts = inputs.get("num_images")
            longest = max(1, int(inputs["completion_mask"].sum(1).max()))
            self._shape = (*inputs["prompt_ids"].shape, inputs["completion_ids"].shape[1], longest)
            # Only the last loss of a step, where sorted rows differ most.
            if len(self.losses) == self._trainer.args.gradient_accumulation_steps - 1:
                self.unpadded = _of_less_padding(self._trainer, model, inputs)
        handles = self._hooks()
        try:
            with nullcontext() if has_completions else self._watch_generation():
                loss = compute(model, inputs, *given, **named)
        finally:
            for handle in handles:
                handle.remove()
        self.losses.append(loss.detach())
        if has_completions:
            self.has_tools |= "tool_mask" in inputs
            if (token := getattr(self._trainer.model.config, "image_token_id", None)) is not None:
                self._image_tokens += int(
                    (inputs["completion_mask"].bool() & (inputs["completion_ids"] == token)).sum()
                )
            own = inputs["tool_mask"].tolist() if "tool_mask" in inputs else None
            self._note_rows(inputs["completion_ids"].tolist(), inputs["completion_mask"].tolist(), own)
            if self.turns is not None:
                self.turns.note(inputs)
        if not loss.requires_grad:
            self._on_dead_loss()
        return loss

    def _count_images(self, generate: Callable[..., Any], rows: Any) -> Any:
        """Counts the images in the rows of the first generation, before they are used."""
        if not self._given and self._trainer.model.training:
            self._given = [len(row.get(IMAGES) or ()) for row in rows]
        return generate(rows)

    def _look_at_images(self, output: Any, *given: Any, **named: Any) -> None:
        """Keeps what the policy or vLLM got. Only the first generation counts: the first step trains on it."""
        if self._is_first and vllm_engine(self._trainer) is not None:
            self._generated = images_shown_in(images_given_to_vllm(self._trainer, given[0], output))
        elif self._is_first and self._trainer.model.training and "input_ids" in named:
            mask = torch.ones_like(output)
            mask[:, : named["input_ids"].shape[1]] = named["attention_mask"]
            made = {**named, "input_ids": output, "attention_mask": mask}
            self._generated = images_shown_in(made, self._given)
        self._is_first = self._is_first and not self._trainer.model.training

    def images(self) -> ImagesSeen | None:
        """Returns the image inputs of the model; None for text rows."""
        if self._generated is None:
            return None
        made, trained = self._generated, [images.parts for images in self._shown]
        misplaced = rows = 0
        for shown in self._shown if made.by_row else ():
            for tokens, parts in shown.by_row:
                rows += 1
                own = [generated_parts for longer, generated_parts in made.by_row if longer[: len(tokens)] == tokens]
                misplaced += parts not in own
        return ImagesSeen(
            sum(self._given),
            frozenset(made.parts),
            frozenset(chain.from_iterable(trained)),
            self._without,
            misplaced,
            rows,
            self._image_tokens,
        )

    def _note_input(self, _: Any, __: Any, named: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            shown, token = (
                images_shown_in(named, self._counts),
                getattr(self._trainer.model.config, "image_token_id", None),
            )
            self._shown.append(shown)
            self._without += not shown.parts and (token is None or bool((named["input_ids"] == token).any()))

    @contextmanager
    def _watch_generation(self) -> Iterator[None]:
        """Records the lengths of what the policy generates inside a with block."""

        def look(output: Any, *given: Any, **named: Any) -> None:
            prompt = (named["input_ids"] if "input_ids" in named else given[0]).shape[1]
            columns = output.shape[1] - prompt
            self._shape = (output.shape[0], prompt, columns, columns)

        remove = self._trainer.seams.observe("policy generates", "lengths of the first step", look)
        try:
            yield
        finally:
            remove()

    def _hooks(self) -> list[Any]:
        policy = self._trainer.model
        handles = [module.register_forward_hook(self._note_module) for module in {*self._owners.values()}]
        handles.append(policy.register_forward_hook(self._note_output))
        if self._generated is not None:
            handles.append(policy.register_forward_pre_hook(self._note_input, with_kwargs=True))
        linear = _first_linear(policy)
        if linear is not None:
            handles.append(linear.register_forward_hook(self._note_dtype))
        return handles

    @contextmanager
    def _watch_scores(self) -> Iterator[None]:
        """Notes the dtype of scoring; passes without a gradient are those before the loss."""
        linear = None if torch.is_grad_enabled() else _first_linear(self._trainer.model)
        if linear is None:
            yield
            return
        handle = linear.register_forward_hook(lambda _, __, output: self.scores_dtypes.add(_dtype_of(output)))
        try:
            yield
        finally:
            handle.remove()

    def _note_module(self, module: Any, _: Any, __: Any) -> None:
        self.ran.add(id(module))

    def _note_dtype(self, _: Any, __: Any, output: Any) -> None:
        self.compute_dtype = _dtype_of(output)

    def _note_output(self, _: Any, __: Any, output: Any) -> None:
        if not torch.is_grad_enabled() or self._shape is None:
            return  # a generation or reference pass, not the loss
        head = self._trainer.model.get_output_embeddings()
        vocabulary = head.out_features if hasattr(head, "out_features") else head.weight.shape[0]
        logits, log_probs = (getattr(output, name, None) for name in ("logits", "log_probs"))
        self.forwards.append(
            Forward(
                *self._shape,
                vocabulary,
                None if logits is None else tuple(logits.shape),
                None if log_probs is None else tuple(log_probs.shape),
            )
        )

    def _note_noise(self, _: Any, own: Any, batch: dict[str, Any]) -> None:
        """Records the difference that remains after the shim."""
        trained = batch["advantages"].detach().cpu()[own]
        self.noise = max(self.noise, float(trained.abs().max()) if trained.numel() else 0.0)

    def _note_rows(self, ids: list[list[int]], mask: list[list[int]], own: list[list[int]] | None) -> None:
        ends = ends_of(self._trainer, self._plan)
        tokens, padding = frozenset(ends.tokens), ends.tokenizer.pad_token_id
        for index, (row, ones) in enumerate(zip(ids, mask, strict=True)):
            turn = last_turn(row[: sum(ones)], None if own is None else own[index])
            start = sum(ones) - len(turn)
            self.rows.append(completion(row, ones, tokens, padding, ends.first, start))

    def completions(self) -> Completions:
        """Returns the completions of all micro-batches so far."""
        arguments = self._trainer.args
        return Completions(
            rows=tuple(self.rows),
            limit=arguments.max_completion_length,
            tools=self.has_tools,
            masked=bool(getattr(arguments, "mask_truncated_completions", False)),
        )


def _of_less_padding(trainer: Any, model: Any, inputs: dict[str, Any]) -> Sampled | None:
    """Returns the difference that less padding makes to the scores of its rows; None if TRL scores them itself."""
    padded = padded_scores(trainer)
    if padded is None:
        return None
    ids, mask = (torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], dim=1) for name in ("ids", "mask"))
    trained, prompts = inputs["completion_mask"].bool(), inputs["prompt_mask"].shape[1]
    # Rows are cut to the longest one, so completions may start in a different column than TRL's.
    moved = mask.sum(1).max() - trained.sum(1) != prompts
    with undisturbed(trainer), trainer.compute_loss_context_manager():
        own = trainer.seams.whole("tokens are scored")(model, ids, mask, trained.shape[1])[0]
        apart = (own - padded(model, ids, mask, trained.shape[1])[0]).float().abs()[trained & moved[:, None]]
    return Sampled(len(apart), float(apart.sum()), float(apart.max()) if len(apart) else 0.0)


def _dtype_of(output: Any) -> str:
    # A 4-bit layer returns its input's dtype, also under autocast.
    kind = output.device.type
    return dtype_name(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else output.dtype)


def _first_linear(policy: Any) -> Any | None:
    return next((module for name, module in policy.named_modules() if _is_linear(name, module)), None)


def _is_linear(name: str, module: Any) -> bool:
    """Whether a module is a linear layer of the model itself, not of an adapter."""
    return isinstance(module, torch.nn.Linear | Conv1D) and "lora_" not in name
