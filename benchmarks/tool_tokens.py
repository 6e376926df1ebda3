"""Prints one completion with a tool call, token by token: who wrote each, and whether it is in the loss.

    python benchmarks/tool_tokens.py [--model recipes/calculator/model] [--question 47*38=] [--markdown]

TRL's own loop makes the completion, as in a training of recipes/calculator.yaml; the column "in the loss" is its
tool_mask. The model calls its tool in some of its samples alone, so the first sample that does is taken. Exits 1 when
none of 256 does.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer

CALCULATOR = Path(__file__).parents[1] / "recipes" / "calculator"
SAMPLES = 256


def loaded_trainer(model: str, question: str, folder: str) -> GRPOTrainer:
    """A trainer with the recipe's tool and settings, whose dataset is the question."""
    sys.path.insert(0, str(CALCULATOR))
    from calculator import calculate

    def no_reward(completions: list[object], **_: object) -> list[float]:
        return [0.0 for _ in completions]

    arguments = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=8,
        max_completion_length=40,
        max_tool_calling_iterations=1,
        temperature=1.0,
        top_k=0,
        bf16=False,
        use_cpu=True,
        report_to=[],
    )
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": question}]}])
    return GRPOTrainer(model=model, reward_funcs=no_reward, args=arguments, train_dataset=rows, tools=[calculate])


def completion_with_call(trainer: GRPOTrainer, question: str) -> tuple[list[int], list[int], list[int]] | None:
    """Prompt, completion and tool_mask of the first sample with a call; TRL's own tensors, without padding."""
    row = {"prompt": [{"role": "user", "content": question}]}
    found = trainer._generate_and_score_completions([row] * SAMPLES)
    for place, mask in enumerate(found["tool_mask"]):
        length = int(found["completion_mask"][place].sum())
        if not mask[:length].all():
            prompt = found["prompt_ids"][place][found["prompt_mask"][place].bool()]
            return prompt.tolist(), found["completion_ids"][place][:length].tolist(), mask[:length].tolist()
    return None


def table(trainer: GRPOTrainer, prompt: list[int], completion: list[int], mask: list[int]) -> list[list[str]]:
    """Rows of place, token, who wrote it and whether it is in the loss; the prompt is one row."""
    tokenizer = trainer.processing_class
    rows = [["", shown(tokenizer.decode(prompt)), f"prompt, {len(prompt)} tokens", "no"]]
    texts = [tokenizer.decode([token]) for token in completion]
    is_reply = False
    for place, (text, is_own) in enumerate(zip(texts, mask, strict=True)):
        is_reply = (
            not is_own and text != tokenizer.eos_token and (is_reply or texts[place - 2 : place] == ["tool", "\n"])
        )
        who = "the model" if is_own else "the tool" if is_reply else "the chat template"
        rows.append([str(place), shown(text), who, "yes" if is_own else "no"])
    return rows


def shown(text: str) -> str:
    """The text with its line ends visible."""
    return text.replace("\n", "\\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(CALCULATOR / "model"))
    parser.add_argument("--question", default="47*38=")
    parser.add_argument("--markdown", action="store_true", help="a table of a page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # What the libraries say while they load does not belong to the table.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = loaded_trainer(options.model, options.question, folder)
        set_seed(0)
        found = completion_with_call(trainer, options.question)
    if found is None:
        print(f"none of {SAMPLES} completions called the tool", file=sys.stderr)
        return 1
    rows = [["", "token", "written by", "in the loss"], *table(trainer, *found)]
    if options.markdown:
        quoted = [[place, "`" + token.replace("|", r"\|") + "`", *rest] for place, token, *rest in rows[1:]]
        lines = ["| " + " | ".join(row) + " |" for row in [rows[0], *quoted]]
        print("\n".join([lines[0], "|---" * 4 + "|", *lines[1:]]))
    else:
        for place, token, who, is_in_loss in rows:
            print(f"{place:>3}  {is_in_loss:<13}{who:<20}{token}")
    own, written = sum(found[2]), len(found[1])
    print(f"\n{written} tokens of completion, {own} of them in the loss, {written - own} not.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
