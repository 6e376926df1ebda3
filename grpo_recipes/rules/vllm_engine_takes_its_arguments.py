"""Every key under generation.vllm_engine is an argument of vLLM's engine, and set nowhere else.

`vllm_engine` passes any field of vLLM's EngineArgs to the engine, in both modes: `enforce_eager`, `max_num_seqs`,
`kv_cache_memory_bytes` and so on, by vLLM's own names. With an unknown argument, the run ends with TypeError in
colocate mode, or the server does not start, after loading the model. Arguments that TRL, the recipe or grpo-run sets
have their own key, and a second value would silently override it. grpo-run reads the fields from the installed vLLM, or
knows them for the release that it was tested with; for others it checks only the names that have their own key.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.source.field import Field
from grpo_recipes.facts.vllm_engine import engine_fields, engine_owners
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.plain_values import expected_type

ID = "VLL003"
KEY, HOME = "generation.vllm_engine", ("generation", "vllm_engine")
USE_VLLM = "GRPOConfig.use_vllm"
WRITE = "write "
# Keys for a server; for vLLM in the training processes they are elsewhere.
OF_A_SERVER = {
    "gpu_memory_utilization": "write vllm_server.gpu_memory_utilization",
    "tensor_parallel_size": "write vllm_server.gpus",
}


def check(context: Context) -> Iterator[Finding]:
    written = context.mapping(KEY)
    if not written:
        return
    if context.value(USE_VLLM) is not True:
        yield _finding(context, HOME, "vllm_engine has no effect", "transformers generates", None, severity="warning")
        return
    known, owners = engine_fields(context.facts), {**engine_owners()}
    if context.value("GRPOConfig.vllm_mode") == "server":
        owners |= OF_A_SERVER
    for name, value in written.items():
        path = (*HOME, name)
        if name in owners:
            yield _has_own_key(context, path, owners[name], value)
        elif known is not None and name not in known[0]:
            yield _no_such_argument(context, path, value, set(known[0]) - set(owners), known[1])
        elif known is not None:
            yield from _of_another_type(context, path, value, known[0][name])
    if known is None:
        because = "grpo-run reads the arguments of the installed vllm, and knows those of 0.31.0"
        yield context.not_checked("whether this vLLM's engine takes these arguments is unknown", KEY, because)


def _finding(
    context: Context, path: Path, text: str, why: str, fix: str | None, *, severity: str = "error", value: object = None
) -> Finding:
    """fix: a key in dots that takes the value, other text, or None to remove the key."""
    patch = [Patch(path, remove=True)]
    if fix is not None and fix.startswith(WRITE):
        home: Path = tuple(fix.removeprefix(WRITE).split("."))
        if home in context.source.marks:
            fix = f"remove {path[-1]}, since {fix.removeprefix(WRITE)} is written"
        else:
            patch.append(Patch(home, value))
    return context.finding(
        text, KEY, why, fix=fix, patch=patch, severity="warning" if severity == "warning" else "error"
    )


def _has_own_key(context: Context, path: Path, home: str, value: object) -> Finding:
    message = f"vllm_engine cannot set {path[-1]}"
    if home.startswith(WRITE):
        return _finding(context, path, message, "it has its own key, and two values could disagree", home, value=value)
    return _finding(context, path, message, home, None)


def _no_such_argument(context: Context, path: Path, value: object, names: set[str], source: str) -> Finding:
    message = f"vLLM's engine does not take {path[-1]}"
    why = f"EngineArgs of {source} has no such field, so vLLM does not start"
    near = nearest_words(str(path[-1]), sorted(names), cutoff=0.7)
    fix = f"{WRITE}{'.'.join((*HOME, near[0]))}" if near else None
    return _finding(context, path, message, why, fix, value=value)


def _of_another_type(context: Context, path: Path, value: object, field: Field) -> Iterator[Finding]:
    must = expected_type(field.annotation, value)
    if must is None:
        return
    message = f"{path[-1]} is {value!r}, but must be {must}"
    yield _finding(context, path, message, f"vLLM declares it {field.annotation}", None)
