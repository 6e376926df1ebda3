"""Compares the log-probabilities of the tokens that transformers' generate draws with the policy's."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any, NamedTuple

import torch
from transformers import GenerationMixin

from grpo_recipes.worker._shared.library import base_model, image_digests, images_by_row, images_shown_in, on_any
from grpo_recipes.worker.callbacks.turn_recorder import drops_at_random
from grpo_recipes.worker.proofs.seen import Sampled
from grpo_recipes.worker.vllm.sampled import EVERY, SAMPLED, SamplerWitness

ROWS = 2
FIRST = (1, 4, 16)
"""Generations that are compared besides every 64th. More of them would cost more than 0.5 % of a short run."""


ASKS = "scoring asks for no logits"


class Drawn(NamedTuple):
    """One row of a call of generate: the tokens before the first drawn one, and the drawn ones with their scores.

    scores: log-probabilities before processors such as top_k, with those of padding after the end. images: digests of
    their parts, None if those of one row cannot be told from those of others.
    """

    context: list[int]
    ids: list[int]
    scores: list[float]
    images: list[str] | None


class DrawWitness(SamplerWitness):
    """Scores two completions of generations 1, 4, 16 and every 64th with the policy that wrote them.

    Stands around the policy's generate until leave() is called; what it draws does not change.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self._most_rows = ROWS
        self._rows: list[Drawn] = []
        self._foreign = 0
        self._is_drawing = self._is_recorded = self._is_unclear = False
        standing = ExitStack()
        standing.callback(self.leave)
        # trl 0.14 scores in its loss, where it also generates: there no inputs are seen, and nothing is compared.
        if trainer.seams.has("tokens are scored"):
            standing.callback(trainer.seams.change("policy generates", "drawn tokens", self._record))
        self.leave = standing.close

    def _record(self, generate: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if not self._trainer.model.training or not self._begin():
            return generate(*given, **named)
        steps = DrawnSteps()
        hook = base_model(self._trainer, self._trainer.model).register_forward_hook(steps.note, with_kwargs=True)
        try:
            output = generate(*given, **named)
        finally:
            hook.remove()
        prompts = named["input_ids"] if "input_ids" in named else given[0]
        self._keep(steps, output[:, prompts.shape[1] :], {**named, "input_ids": prompts})
        return output

    def _begin(self) -> bool:
        """Whether this generation is recorded. Several calls of generate can belong to one generation."""
        if not self._is_drawing:
            self._is_drawing, self._generations = True, self._generations + 1
            self._is_recorded = self._generations in FIRST or self._generations % EVERY == 0
        return self._is_recorded

    def _keep(self, steps: "DrawnSteps", drawn: Any, named: dict[str, Any]) -> None:
        if not steps.tokens and not _may_bypass_forward(self._trainer):
            self._foreign += drawn.numel()
            return
        scores = steps.scores_of(drawn)
        if scores is None:
            self._is_unclear = True
            return
        pairs = zip(named["input_ids"], named["attention_mask"].bool(), strict=True)
        contexts = [row[is_attended].tolist() for row, is_attended in pairs]
        images = _images_of_rows(named)
        rows = zip(contexts, drawn.tolist(), scores.tolist(), images, strict=True)
        self._rows += [Drawn(*row) for row in rows]

    def _look(self, inputs: Any) -> None:
        """Runs at a generation's first micro-batch, before the policy changes."""
        if self._is_drawing and self._is_recorded and "pixel_values" in inputs and not self._trainer.seams.does(ASKS):
            self._found = Sampled(reason="this trl scores images by their logits")
        elif self._is_drawing and self._is_recorded:
            # All processes score rows or none does, since the forward of a sharded model waits for all.
            is_foreign, self._is_unclear = on_any(self._trainer, bool(self._foreign), self._is_unclear)
            self._found = Sampled(cut=self._foreign) if is_foreign else self._compare(self._as_drawn(inputs))
        self._is_drawing, self._rows, self._foreign, self._is_unclear = False, [], 0, False

    def _not_comparable(self, inputs: Any) -> str:
        if drops_at_random(self._trainer.model):
            return "dropout makes them random"
        return "generate does not call the model once for each token" if self._is_unclear else ""

    def _as_drawn(self, inputs: Any) -> dict[str, Any]:
        """Returns the inputs with the scores of drawn tokens, NaN for others, and completions up to the last one.

        Completions that TRL left out of the loss are compared as well.
        """
        mask = inputs["completion_mask"]
        fields = images_by_row(self._trainer, inputs) if "pixel_values" in inputs else [{}] * len(mask)
        scores = torch.full(mask.shape, math.nan)
        lengths = []
        for index, ids in enumerate(inputs["completion_ids"].tolist()):
            most = int(mask[index].sum()) or len(ids)
            pixels = fields[index].get("pixel_values")
            shown = [] if pixels is None else [*chain.from_iterable(image_digests(pixels))]
            rows = [row for row in self._rows if row.images == shown]
            prompt = inputs["prompt_ids"][index][inputs["prompt_mask"][index].bool()].tolist()
            scores[index, :most] = torch.tensor(drawn_scores(rows, prompt, ids[:most]))
            known = scores[index].isfinite().nonzero()
            lengths.append(int(known[-1]) + 1 if len(known) else 0)
        columns = torch.arange(mask.shape[1], device=mask.device)
        upto = columns < torch.tensor(lengths, device=mask.device)[:, None]
        return {**inputs, SAMPLED: scores, "completion_mask": upto.to(mask.dtype)}


class DrawnSteps:
    """The forward passes of one call of generate. tokens, scores: (B,) of each token but the last, on the device."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self._scores: list[Any] = []
        self._newest: Any = None

    def note(self, _: Any, __: Any, named: dict[str, Any], output: Any) -> None:
        """Hook of the model's forward, which gets the token drawn from its last result as the newest input."""
        if torch.compiler.is_compiling():
            return
        self.tokens.append(named["input_ids"][:, -1])
        if self._newest is not None:
            self._scores.append(self._newest.gather(1, self.tokens[-1][:, None])[:, 0])
        self._newest = output.logits[:, -1].float().log_softmax(-1)

    def scores_of(self, drawn: Any) -> Any:
        """Returns the log-probability of each drawn token, (B, C); None if the passes do not fit the tokens.

        Under ZeRO-3, a process that is done calls the model until all are.
        """
        count = drawn.shape[1]
        if len(self.tokens) < count or any(
            not torch.equal(token, drawn[:, at]) for at, token in enumerate(self.tokens[1:count])
        ):
            return None
        last = self._newest.gather(1, drawn[:, -1:])[:, 0]
        return torch.stack([*self._scores, last][:count], dim=1)


def drawn_scores(rows: list[Drawn], prompt: list[int], completion: list[int]) -> list[float]:
    """Returns the scores of a completion's tokens, (C,); NaN where no row has drawn them after the same tokens.

    A later turn is a row whose context has the earlier turns and the replies.
    """
    whole, scores = [*prompt, *completion], [math.nan] * len(completion)
    for row in rows:
        start = len(row.context) - len(prompt)
        if start < 0 or whole[: len(row.context)] != row.context:
            continue
        for index, (token, score) in enumerate(zip(row.ids, row.scores, strict=True), start):
            if index >= len(completion) or completion[index] != token:
                break
            scores[index] = score
    return scores


def _images_of_rows(named: dict[str, Any]) -> Sequence[list[str] | None]:
    """Returns the digests of the images of each row of a call of generate; None if rows cannot be told apart."""
    if named.get("pixel_values") is None:
        return [[] for _ in named["input_ids"]]
    return [parts for _, parts in images_shown_in(named).by_row] or [None] * len(named["input_ids"])


def _may_bypass_forward(trainer: Any) -> bool:
    """Whether the policy can generate without a call that hooks see: compiled, or with a generate in its own code."""
    policy = type(base_model(trainer, trainer.model))
    return bool(trainer.args.torch_compile) or policy.generate is not GenerationMixin.generate
