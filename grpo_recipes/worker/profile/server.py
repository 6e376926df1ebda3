"""Answers rows with a model on a server, with the server's chat template and precision, not the recipe's model."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import TrainerState

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.chat_client import EMPTY, ChatClient, NoAnswer
from grpo_recipes.worker._shared.inputs import prompt_text
from grpo_recipes.worker._shared.library import seed_of
from grpo_recipes.worker._shared.planned import model_path
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.completions.evaluation import judge
from grpo_recipes.worker.completions.figures import JudgedRow
from grpo_recipes.worker.data.dataset import prepare_rows
from grpo_recipes.worker.model.build_trainer import planned_processing
from grpo_recipes.worker.user_code.reward_call import refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards

TIMEOUT_S, RETRIES, CONCURRENCY = 600.0, 3, 32
# Values without effect, which are not sent: an endpoint may not know the field.
_NOTHING: Mapping[str, tuple[object, ...]] = {
    "top_k": (None, 0, -1),
    "min_p": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
}


class NotAnswered(Mistake):
    """The server did not answer a row. The command exits with 1; running it again continues."""


class ServedModel:
    """Asks a model on a server for completions, and scores them with the plan's rewards. Raises Refused.

    served: base_url, model and key_variable. samples: completions per row.
    """

    def __init__(self, plan: Plan, folder: Path, served: Mapping[str, Any]) -> None:
        assert plan.evaluation is not None
        self._plan, self._model, self.samples = plan, served["model"], plan.evaluation.samples
        self._at = f"{served['model']} at {served['base_url']}"
        self._rows = prepare_rows(plan.data, "dataset", folder / "cache", 0)
        if isinstance(self._rows[0]["prompt"], str):
            raise Refused.of(
                "the prompts are plain text, and a server accepts only messages",
                because="the server's chat template renders the prompt",
                fix="dataset.prompt_format: conversational, or a profile without --base-url",
            )
        self._client = ChatClient(
            served["base_url"],
            served["key_variable"],
            TIMEOUT_S,
            RETRIES,
            CONCURRENCY,
            remembers=False,
            takes_cut=True,
        )
        self._rewards = load_rewards(plan.rewards, folder / "worker" / "user", refuse_no_numbers)
        processing = planned_processing(plan, model_path(plan, folder))
        self._tokenizer = getattr(processing, "tokenizer", processing)

    def answer_rows(self, places: range) -> list[JudgedRow]:
        """Returns the rows at these indices with completions and rewards. Raises NotAnswered."""
        draws = [(index, sample) for index in places for sample in range(self.samples)]
        given = [self._rows[index] for index, _ in draws]
        answers = self._client.answers([self._question(row, *draw) for row, draw in zip(given, draws, strict=True)])
        with_text = [at for at, answer in enumerate(answers) if isinstance(answer, str)]
        for (index, _), answer in zip(draws, answers, strict=True):
            # A model may return an empty answer now and then, but it is an error if all answers are empty.
            if isinstance(answer, NoAnswer) and (str(answer) != EMPTY or not with_text):
                raise NotAnswered.of(
                    f"{self._at} did not answer row {index + 1}",
                    because=[str(answer), f"{places.start} rows are answered, and stay in the file"],
                    fix="check --model, the server's name for it, and --key-variable; rerun the command to continue",
                )
        texts = [answer if isinstance(answer, str) else "" for answer in answers]
        columns = judge(
            SimpleNamespace(
                state=TrainerState(),
                reward_funcs=self._rewards,
                reward_processing_classes=[None for _ in self._rewards],
            ),
            [given[at] for at in with_text],
            [[{"role": "assistant", "content": texts[at]}] for at in with_text],
            [self._tokens(texts[at]) for at in with_text],
        )
        names = [reward.name for reward in self._plan.rewards]
        rewards = dict(
            zip(
                with_text, (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)), strict=True
            )
        )
        return [
            JudgedRow(index, prompt_text(row["prompt"]), text, rewards.get(at) or dict.fromkeys(names), {}, sample)
            for at, ((index, sample), row, text) in enumerate(zip(draws, given, texts, strict=True))
        ]

    def _question(self, row: Mapping[str, Any], index: int, sample: int) -> dict[str, Any]:
        """Returns the fields of a request: the recipe's sampling, and a separate seed per completion."""
        plan, arguments = self._plan, self._plan.arguments.GRPOConfig
        assert plan.evaluation is not None
        sampling = {
            {"min_new_tokens": "min_tokens"}.get(name, name): value
            for name, value in plan.evaluation.sampling.items()
            if value is not None and value not in _NOTHING.get(name, ())
        }
        ends: dict[str, Any] = {}
        if plan.expect.stop:
            ends = {"stop": list(plan.expect.stop), "include_stop_str_in_output": True}
        if plan.expect.stop_token_ids:
            ends["stop_token_ids"] = list(plan.expect.stop_token_ids)
        if keywords := arguments.get("chat_template_kwargs"):
            ends["chat_template_kwargs"] = keywords
        return {
            "model": self._model,
            "messages": [{name: value for name, value in turn.items() if value is not None} for turn in row["prompt"]],
            "max_tokens": arguments["max_completion_length"],
            "seed": seed_of(f"{arguments['seed']} {index} {sample}") >> 1,
            **sampling,
            **ends,
        }

    def _tokens(self, text: str) -> list[int]:
        """Returns a completion's tokens by the recipe's tokenizer, with the end token unless it was cut."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        is_cut = len(ids) >= int(str(self._plan.arguments.GRPOConfig["max_completion_length"]))
        return ids if is_cut or self._tokenizer.eos_token_id is None else [*ids, self._tokenizer.eos_token_id]
