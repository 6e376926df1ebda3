"""The run's generator reads every key of generation_kwargs.

`generation.generation_kwargs` accepts fields of vLLM's SamplingParams or transformers' GenerationConfig for which the
format has no key: `frequency_penalty` or `bad_words` for vLLM, `no_repeat_ngram_size` or `typical_p` for transformers.
They define the experiment, so a key that the chosen backend does not know is an error, even if `use_vllm: auto` chose
that backend. transformers keeps an unknown key but never reads it, a vLLM server silently ignores it, and vLLM in the
training process raises TypeError at the first generation. Evaluation generates with transformers and reads only
transformers' keys. TRL before 0.19 does not pass these keys on.
"""

from collections.abc import Iterator, Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.generation_keys import (
    ALWAYS,
    LISTS,
    TRANSFORMERS,
    VLLM,
    homes,
    keys_of,
    keys_of_newest,
    keys_to_refuse,
)
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.plain_values import expected_type

ID = "GEN010"
KEY = "generation.generation_kwargs"
HOME: Path = ("generation", "generation_kwargs")
USE_VLLM = "GRPOConfig.use_vllm"


def check(context: Context) -> Iterator[Finding]:
    written = context.mapping(KEY)
    if not written:
        return
    fields = context.facts.fields("GRPOConfig")
    if fields is not None and "generation_kwargs" not in fields:
        message = f"{context.facts.source('GRPOConfig')} does not pass generation_kwargs on"
        yield _finding(context, HOME, message, "trl 0.19.0 is the first release that does", "remove generation_kwargs")
        return
    backend = _backend(context)
    known = keys_of(backend, context.facts)
    for name, value in written.items():
        path = (*HOME, name)
        if name in ALWAYS:
            yield _finding(context, path, f"{name} cannot be set", f"it is always {ALWAYS[name]}", f"remove {name}")
        elif name in homes():
            home: Path = tuple(homes()[name].split("."))
            moved = [value] if homes()[name] in LISTS and not isinstance(value, list) else value
            fix, patch = f"write {homes()[name]}", [Patch(home, moved)]
            if home in context.source.marks:
                fix, patch = f"remove {name}, since {homes()[name]} is written", []
            why = "the format has one key for it on every backend"
            yield _finding(context, path, f"{name} is set by {homes()[name]}", why, fix, patch)
        elif name in keys_to_refuse():
            yield _finding(context, path, f"{name} cannot be set in a recipe", keys_to_refuse()[name], f"remove {name}")
        if name not in ALWAYS and name not in homes() and name not in keys_to_refuse() and known is not None:
            yield from _judge_key(context, name, value, known, backend)
    if known is None:
        message = f"whether the target's {backend} reads these keys is unknown"
        because = [f"grpo-run does not know which keys this release of {backend} reads"]
        yield context.not_checked(message, KEY, because)


def _backend(context: Context) -> str:
    return VLLM if context.value(USE_VLLM) is True else TRANSFORMERS


def _finding(
    context: Context, path: Path, message: str, why: str, fix: str, patch: Sequence[Patch] = (), *, warns: bool = False
) -> Finding:
    """A finding at a key that its fix removes; patch: the key that is set instead."""
    return context.finding(
        message, KEY, why, fix=fix, patch=[Patch(path, remove=True), *patch], severity="warning" if warns else "error"
    )


def _judge_key(context: Context, name: str, value: object, known: frozenset[str], backend: str) -> Iterator[Finding]:
    path = (*HOME, name)
    if name not in known:
        yield _no_such_key(context, name, value, known, backend)
    elif backend == VLLM:
        field = (context.facts.fields("SamplingParams") or {})[name]
        must = expected_type(field.annotation, value)
        if must is not None:
            message = f"{name} is {value!r}, but must be {must}"
            yield _finding(context, path, message, f"vLLM declares it {field.annotation}", f"remove {name}")
        elif context.has_section("evaluation") and context.value("evaluation.generated_by") != "vllm":
            why = "transformers generates its completions, and does not know the key"
            message = f"evaluation samples without {name}"
            yield _finding(context, path, message, why, f"remove {name}, or evaluation", warns=True)


def _no_such_key(context: Context, name: str, value: object, known: frozenset[str], backend: str) -> Finding:
    path = (*HOME, name)
    other = TRANSFORMERS if backend == VLLM else VLLM
    if name in keys_of_newest(other, context.facts):
        wanted = str(backend != VLLM).lower()
        message = f"only {other} supports {name}, but {backend} generates"
        why = (
            f"use_vllm is {str(backend == VLLM).lower()}: {context.origin(USE_VLLM)}; {_what_happens(context, backend)}"
        )
        return _finding(context, path, message, why, f"remove {name}, or use_vllm: {wanted}")
    near = nearest_words(name, sorted(known | set(homes())), cutoff=0.7)
    message = f"neither vLLM nor transformers supports {name}"
    if not near:
        return _finding(context, path, message, _what_happens(context, backend), f"remove {name}")
    home: Path = tuple(homes()[near[0]].split(".")) if near[0] in homes() else (*HOME, near[0])
    fix, patch = f"write {'.'.join(map(str, home))}", [Patch(home, value)]
    if home in context.source.marks or near[0] in keys_to_refuse():
        fix, patch = f"remove {name}", []
    return _finding(context, path, message, _what_happens(context, backend), fix, patch)


def _what_happens(context: Context, backend: str) -> str:
    if backend != VLLM:
        return "transformers' GenerationConfig keeps unknown keys but never reads them"
    if context.value("GRPOConfig.vllm_mode") == "server":
        return "a vLLM server silently ignores it"
    return "vLLM raises TypeError at the first generation"
