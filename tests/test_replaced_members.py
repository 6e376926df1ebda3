"""Nothing in the worker assigns to members of other libraries' objects, but for what is listed here with its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import grpo_recipes
from grpo_recipes.contract.seams import SEAMS, VALUES

WORKER = Path(grpo_recipes.__file__).parent / "worker"
# They replace members for everybody else, and refuse to if there is none of that name.
DOORS = ("trainer/observed.py", "_shared/replacing.py")
# Names of objects that are the worker's own, in which it may set what it likes.
OWN = {
    "self", "cls", "inputs", "drawn", "count", "evaluation", "log", "request", "left_out", "_peaks", "peaks", "_timer",
    "_generating", "finder", "bound", "made", "function", "_data", "_watched(trainer)", "problem", "weight",
    "sys", "parameters", "connection",
}  # fmt: skip


def test_members_are_replaced_through_two_doors() -> None:
    known = {(file, target): reason for file, target, reason in EXCEPTIONS}
    assignments = {(file, target) for file, target in _assignments() if file not in DOORS}
    assert assignments - known.keys() == set(), "replace them through trainer.seams or replacing.replace"
    assert known.keys() - assignments == set(), "these are gone"
    assert all(len(reason) > 10 for reason in known.values())


@pytest.mark.parametrize(
    "text", ["trainer.x = 1", "trainer.model.y: int = 1", "setattr(trainer, name, 1)", "a.b.c += 1"]
)
def test_an_assignment_is_noticed(text: str) -> None:
    assert list(_targets(ast.parse(text)))


def _assignments() -> Iterator[tuple[str, str]]:
    for path in sorted(WORKER.rglob("*.py")):
        for target in _targets(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(WORKER).as_posix(), target


def _targets(tree: ast.AST) -> Iterator[str]:
    """Yields each assignment to an attribute of an object that is not the worker's own, as written."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            yield f"{node.func.id}({', '.join(map(ast.unparse, node.args[:2]))})"
        for target in targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value).rpartition(".")[2] not in OWN:
                yield ast.unparse(target)


_VALUE = "a value of the library's configuration or state, not a function"
_TENSOR = "the data of a tensor, which every release has"
_OLD = "a value of older releases, under a condition that it exists or by a rule for them"
_SUBCLASS = "a tokenizer for an older TRL, as a subclass with one other member"
_STAND_IN = "our own Policy, which stands for a trainer"
NAMED = (
    "trainer/observed.py: _logs",
    "trainer/observed.py: _textual_logs",
    "model/continued_adapter.py: _last_loaded_step",  # set for trl 0.14
    "shims/first_weights.py: _last_loaded_step",  # set for trl 0.16
    "callbacks/warm_start.py: _last_loaded_step",  # set, since the weights change before the first step
    "resume/run_state.py: _total_train_tokens",  # set from a checkpoint, which had read it
)
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("_shared/imports.py", "EpsImagePlugin.gs_binary", _VALUE),
    ("_shared/library.py", "forward.__signature__", "a signature of our own function"),
    ("_shared/library.py", "generation.generation_kwargs", _VALUE),
    ("answering/policy.py", "model.config.pad_token_id", _VALUE),
    ("answering/policy.py", "policy.reward_funcs", _STAND_IN),
    ("answering/policy.py", "policy.reward_processing_classes", _STAND_IN),
    ("answering/policy.py", "tokenizer.pad_token", _VALUE),
    ("callbacks/progress.py", "control.should_save", "how a callback of transformers answers"),
    ("callbacks/progress.py", "control.should_training_stop", "how a callback of transformers answers"),
    ("callbacks/warm_start.py", "trainer._last_loaded_step", "the weights change before the first step"),
    ("checkpoints/checkpoint.py", "trainer.args.output_dir", _VALUE),
    ("completions/undisturbed.py", "module.training", "what eval() and train() set, module by module"),
    ("completions/resampled_groups.py", "trainer.state.num_input_tokens_seen", _VALUE),
    ("completions/held_out_environments.py", "setattr(trainer, _FACTORY)", "a value of our own, also on a Policy"),
    ("export/texts.py", "model.generation_config", _VALUE),
    ("model/build_trainer.py", "processing.chat_template", _VALUE),
    ("model/build_trainer.py", "tokenizer.model_input_names", _VALUE),
    ("model/build_trainer.py", "tokenizer.pad_token", _VALUE),
    ("model/continued_adapter.py", "trainer._last_loaded_step", _OLD),
    ("model/generation_file.py", "model.generation_config", _VALUE),
    ("model/merging.py", "base.config.get_text_config().tie_word_embeddings", _VALUE),
    ("model/merging.py", "base.config.tie_word_embeddings", _VALUE),
    ("model/merging.py", "last.weight", _TENSOR),
    ("model/saved_names.py", "setattr(model, _RENAMINGS)", _VALUE),
    ("preflight/look_at_tokenizer.py", "processor.chat_template", _VALUE),
    ("preflight/look_at_tokenizer.py", "tokenizer.chat_template", _VALUE),
    ("resume/extended_schedule.py", "scheduler._last_lr", "state of a checkpoint, which was read before"),
    ("resume/run_state.py", "parameter.data", _TENSOR),
    ("resume/run_state.py", "trainer._globalstep_last_logged", "state of a checkpoint, which was read before"),
    ("resume/run_state.py", "trainer._total_train_tokens", "state of a checkpoint, which was read before"),
    ("shims/adapter_dtype.py", "parameter.data", _TENSOR),
    ("shims/adapter_sync.py", "self._client.model", "what our own subclass, or TRL's client, sends"),
    ("shims/adapter_sync.py", "self._engine.adapter", "what our own subclass, or TRL's client, sends"),
    (
        "shims/completion_ends.py",
        "tokenizer.__class__",
        _SUBCLASS,
    ),
    ("shims/completion_ends.py", "trainer.eos_token_id", _OLD),
    ("shims/completion_ends.py", "trainer.generation_config.eos_token_id", _VALUE),
    ("shims/empty_parameter_groups.py", "optimizer.param_groups", _VALUE),
    ("shims/first_weights.py", "trainer._last_loaded_step", _OLD),
    ("shims/generation_cache.py", "layer.gradient_checkpointing", _VALUE),
    ("shims/image_tokens.py", "trainer.generation_config.suppress_tokens", _VALUE),
    ("shims/logits_to_keep.py", "output.logits", "the result of this forward pass"),
    ("shims/logits_to_keep.py", "trainer.model_kwarg_keys", _OLD),
    ("shims/max_prompt_length.py", "trainer.max_prompt_length", _OLD),
    (
        "shims/prompt_tokens.py",
        "tokenizer.__class__",
        _SUBCLASS,
    ),
    (
        "shims/remote_code.py",
        "setattr(transformers, config.architectures[0])",
        "the model's own class, for TRL",
    ),
    ("shims/scored_temperature.py", "output.logits", "the result of this forward pass"),
    ("shims/text_rows.py", "handler.find_unused_parameters", _VALUE),
    ("shims/vllm_images.py", "generation.generation_kwargs", _VALUE),
    ("user_code/isolation.py", "setattr(sys, name)", "Python's streams, while user code runs"),
    ("user_code/process_settings.py", "owner.fp32_precision", "restores what user code has changed"),
    ("user_code/process_settings.py", "setattr(owner, name)", "restores what user code has changed"),
)


def test_private_members_of_the_trainer_are_named_in_one_table() -> None:
    private = {seam.member for seam in SEAMS if seam.member[0] == "_"} | VALUES.keys()
    named = {
        f"{path.relative_to(WORKER).as_posix()}: {name}"
        for path in sorted(WORKER.rglob("*.py"))
        for name in _names(ast.parse(path.read_text(encoding="utf-8"))) & private
    }
    assert named == set(NAMED), "use trainer.seams"


def _names(tree: ast.AST) -> set[str]:
    """Attributes of what is not self, and texts that are not asked of the seams."""
    nodes = [*ast.walk(tree)]
    asked = {
        id(argument)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "value"
        for argument in node.args
    }
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in asked}
    return attributes | {text for text in texts if isinstance(text, str)}
