"""Replaces groups without variance by groups of other prompts before training on them (DAPO, 2503.14476, 3.2).

TRL's method that generates and scores is interrupted once it has rewards: first for the prompts of the step, then for
as many further prompts as there are groups without variance, in up to the recipe's number of rounds. A further group
that varies replaces one that does not; the rest are dropped. Then TRL's method runs once more, with the kept
completions and rewards instead of generation and scoring. Log-probabilities, advantages, metrics and tables are
therefore TRL's own, computed as if these prompts had been the batch.

Further prompts are taken from the end of the epoch's order; a mixture has them after the prompts of the run. They
depend only on the seed, the step and the number of missing groups, not on earlier draws, processes or checkpoints.
Source: grpo_trainer.py of trl 0.19.0 to 1.16.0.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.metric_names import (
    GROUPS_LEFT,
    GROUPS_REDRAWN,
    PROMPTS_ANSWERED,
    REDRAWING_ROUNDS,
    REWARD_AS_DRAWN,
)
from grpo_recipes.worker._shared.equal_rewards import equal_groups_of, reward_weights
from grpo_recipes.worker._shared.library import gather_from_all, micro_batches_per_generation
from grpo_recipes.worker._shared.replacing import replace_temporarily
from grpo_recipes.worker.ends.ends import tokenizer_of

_PLACE, _DRAWS = "redrawn groups", "draws groups"


def resample_groups(trainer: Any, rounds: int, prompts_of_run: int | None = None) -> None:
    """Makes the trainer redraw groups without variance, up to `rounds` times.

    prompts_of_run: the number of a mixture's prompts; its further prompts are the rows after them.
    """
    if rounds:
        _Resampling(trainer, rounds, prompts_of_run)


def is_drawing(trainer: Any) -> bool:
    """Whether the trainer is in a pass that only draws; TRL's method runs again later for the kept groups."""
    return bool(trainer.seams.own.get(_DRAWS))


class _HasRewards(Exception):
    """Ends a pass that only draws."""


class _Drawn:
    """The result of a pass. rewards: (B, K), of all processes. columns: of this process's rows, by key.

    The keys are the positions in what TRL's single-turn method returns, and the names of what rewards log.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.answer: tuple[Any, ...] = ()
        self.columns: dict[int | str, list[Any]] = {}
        self.rewards: Any = None

    def note(self, answer: tuple[Any, ...]) -> None:
        """Adds what one turn returned."""
        self.answer = answer
        of_rows = {key: part for key, part in enumerate(answer) if isinstance(part, list) and len(part) == self.rows}
        self.columns = {key: list(column) for key, column in of_rows.items()}

    def turn_result(self) -> tuple[Any, ...]:
        """Returns the kept rows in the form that one turn returns."""
        return tuple(list(self.columns.get(key, ())) or part for key, part in enumerate(self.answer))


class _Resampling:
    """Stands around TRL's method that generates and scores, and the one that generates, if there is one."""

    def __init__(self, trainer: Any, rounds: int, prompts_of_run: int | None) -> None:
        self._trainer, self._rounds, self._prompts_of_run = trainer, rounds, prompts_of_run
        self._drawn: _Drawn | None = None
        self._replayed: _Drawn | None = None
        self._order: tuple[int, list[int]] = (-1, [])
        self._last = (-1, 0)
        trainer.seams.change("completions are made", _PLACE, self._draw_and_score)
        self._has_turns = trainer.seams.has("turn is generated")
        if self._has_turns:
            trainer.seams.change("turn is generated", _PLACE, self._one_turn)

    def _draw_and_score(self, generate: Callable[..., Any], inputs: list[dict[str, Any]]) -> Any:
        """Stands around `_generate_and_score_completions`; afterwards inputs contains the kept rows."""
        trainer, self._generate = self._trainer, generate
        if not trainer.model.training:
            return generate(inputs)
        logged, num_tokens = trainer.seams.figures(), trainer.state.num_input_tokens_seen
        before = {name: list(values) for name, values in logged.items()}
        trainer.seams.own[_DRAWS] = True
        try:
            groups, counts = self._draw(inputs)
        finally:
            trainer.seams.own[_DRAWS] = False
        logged.clear()
        logged.update(before)
        trainer.state.num_input_tokens_seen = num_tokens
        with self._replaying(groups):
            batch = generate(inputs)
        for name, value in counts.items():
            logged[name].append(float(value))
        return batch

    def _draw(self, inputs: list[dict[str, Any]]) -> tuple[_Drawn, dict[str, float]]:
        """Returns the kept groups of all rounds, and the figures of the redraw."""
        trainer, count, size = self._trainer, len(inputs), self._trainer.num_generations
        groups = self._pass(inputs)
        is_equal = equal_groups_of(trainer, groups.rewards)
        worth = (groups.rewards * reward_weights(trainer, groups.rewards).to(groups.rewards)).nansum(dim=1)
        reward = worth[~groups.rewards.isnan().all(dim=1)].mean().item()
        further = self._further_rows(len(is_equal))
        first, rounds, redrawn = trainer.accelerator.process_index * count, 0, 0
        for _ in range(self._rounds):
            missing = is_equal.nonzero().flatten().tolist()
            places = list(islice(further, len(missing)))
            if not places:
                break
            rounds, redrawn = rounds + 1, redrawn + len(places)
            rows, rewards, answers = self._groups(places, list(inputs[0]))
            varied = (~equal_groups_of(trainer, rewards)[: len(places)]).nonzero().flatten().tolist()
            for group, other in zip(missing, varied, strict=False):
                is_equal[group] = False
                for old, new in zip(_of(group, size), _of(other, size), strict=True):
                    groups.rewards[old] = rewards[new]
                    if first <= old < first + count:
                        inputs[old - first] = rows[new]
                        for name in groups.columns.keys() | answers[new].keys():
                            groups.columns.setdefault(name, [None] * count)[old - first] = answers[new].get(name)
        answered, left = len(is_equal) + redrawn, int(is_equal.sum())
        counts = {PROMPTS_ANSWERED: answered, GROUPS_REDRAWN: redrawn, GROUPS_LEFT: left, REDRAWING_ROUNDS: rounds}
        return groups, {**counts, REWARD_AS_DRAWN: reward}

    def _groups(self, places: list[int], names: list[str]) -> tuple[list[Any], Any, list[dict[int | str, Any]]]:
        """Returns the rows, rewards and answers of one group per index into the data, in order, on all processes.

        If the groups cannot be split evenly over the processes, the first group is repeated.
        """
        trainer, size = self._trainer, self._trainer.num_generations
        processes = trainer.accelerator.num_processes
        filled = places + places[:1] * (-len(places) % (processes // math.gcd(size, processes)))
        by_index = {index: trainer.train_dataset[index] for index in set(filled)}
        rows = [{name: by_index[index][name] for name in names} for index in filled for _ in range(size)]
        share = len(rows) // processes
        start = trainer.accelerator.process_index * share
        drawn = self._pass(rows[start : start + share])
        own = [{name: column[row] for name, column in drawn.columns.items()} for row in range(share)]
        return rows, drawn.rewards, gather_from_all(trainer, own)

    def _pass(self, rows: list[dict[str, Any]]) -> _Drawn:
        """Generates and scores completions of rows, and stops there."""
        trainer = self._trainer
        self._drawn = drawn = _Drawn(len(rows))
        logged = dict[str, Any]() if (kept := trainer.seams.value("_pending_extra_logs")) is None else kept

        def judged(calculate: Callable[..., Any], inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            drawn.rewards = calculate(inputs, prompts, completions, ids).clone()
            if not drawn.columns:
                drawn.columns = {0: [list(row) for row in ids]}
            drawn.columns |= {name: list(values) for name, values in logged.items() if len(values) == len(rows)}
            logged.clear()
            raise _HasRewards

        with ExitStack() as standing:
            standing.callback(trainer.seams.change("rewards are given", _PLACE, judged))
            standing.callback(trainer.seams.change("tokens are scored", _PLACE, _score_one_row))
            with suppress(_HasRewards):
                self._generate(copy.deepcopy(rows))
        self._drawn = None
        return drawn

    def _one_turn(self, turn: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Returns kept completions during a replay, otherwise what TRL generates in one turn."""
        if self._replayed is not None:
            return self._replayed.turn_result()
        answer = turn(*given, **named)
        if self._drawn is not None:
            self._drawn.note(tuple(answer))
        return answer

    def _replaying(self, groups: _Drawn) -> ExitStack:
        """Gives TRL's method the kept completions and rewards inside a with block."""
        trainer, standing = self._trainer, ExitStack()
        logged = trainer.seams.value("_pending_extra_logs")

        def judged(_: Callable[..., Any], inputs: Any, *__: Any) -> Any:
            if logged is not None:
                logged.update({name: values for name, values in groups.columns.items() if isinstance(name, str)})
            start = trainer.accelerator.process_index * len(inputs)
            return grpo_trainer.gather(groups.rewards[start : start + len(inputs)].contiguous())

        def generated(_: Callable[..., Any], *given: Any, **named: Any) -> Any:
            prompts = named["input_ids"] if "input_ids" in named else given[0]
            rows = [torch.tensor(ids, dtype=prompts.dtype, device=prompts.device) for ids in groups.columns[0]]
            padding = tokenizer_of(trainer).pad_token_id
            answers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
            return torch.cat([prompts, answers], dim=1)

        standing.callback(trainer.seams.change("rewards are given", _PLACE, judged))
        if not self._has_turns:
            standing.callback(trainer.seams.change("policy generates", _PLACE, generated))
        else:
            standing.enter_context(replace_temporarily(self, "_replayed", groups))
        return standing

    def _further_rows(self, prompts: int) -> Iterator[int]:
        """Yields indices of rows for further groups of this generation of `prompts` prompts.

        Each index comes once, and none is one of the generation's own rows. The previous generation uses the indices
        after these, the next one those before. A mixture's were drawn with its order, and repeat only if a source has
        no other rows.
        """
        trainer, arguments = self._trainer, self._trainer.args
        step, epoch, rows = trainer.state.global_step, int(trainer.state.epoch or 0), len(trainer.train_dataset)
        self._last = step, self._last[1] + 1 if self._last[0] == step else 0
        fed = micro_batches_per_generation(arguments) * getattr(arguments, "num_iterations", 1)
        of_step = arguments.gradient_accumulation_steps
        if self._prompts_of_run is not None:
            generation, each = math.ceil(step * of_step / fed) + self._last[1], prompts * self._rounds
            first = self._prompts_of_run + generation * each
            yield from range(first, first + each)
            return
        step -= epoch * math.ceil(rows // prompts * fed / of_step)  # an epoch's last step may be a smaller one
        generation = math.ceil(step * of_step / fed) + self._last[1]
        if self._order[0] != epoch:
            drawing = torch.Generator().manual_seed(arguments.seed)
            for _ in range(epoch + 1):  # like TRL's sampler, one order per epoch
                order = torch.randperm(rows, generator=drawing)
            self._order = epoch, order.tolist()
        own = range(generation * prompts, (generation + 1) * prompts)
        for offset in range(rows):
            position = rows - 1 - (generation * prompts * self._rounds + offset) % rows
            if position not in own:
                yield self._order[1][position]


def _of(group: int, size: int) -> range:
    return range(group * size, (group + 1) * size)


def _score_one_row(
    score: Callable[..., Any], model: Any, input_ids: Any, attention_mask: Any, *given: Any, **named: Any
) -> Any:
    """Scores the first row for all, since the pass ends before a loss."""
    scores = score(model, input_ids[:1], attention_mask[:1], *given, **named)
    parts = [
        part.expand(len(input_ids), *part.shape[1:]) if getattr(part, "ndim", 0) else part
        for part in (scores if isinstance(scores, tuple) else (scores,))
    ]
    return tuple(parts) if isinstance(scores, tuple) else parts[0]
