"""Takes over GRPOConfig fields by the table of their homes, and by a function if a recipe spells them differently."""

from collections.abc import Callable

from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.classified import ClassifiedField, classified_fields
from grpo_recipes.facts.released.shipped import Removed, removal
from grpo_recipes.facts.source.field import Field
from grpo_recipes.takeover.basis.context import SERVER_ADDRESS, Situation
from grpo_recipes.takeover.basis.draft import ANYWAY
from grpo_recipes.takeover.basis.read import Unreadable, as_trl_reads, table_of, whole_steps
from grpo_recipes.takeover.basis.release import default_of, in_format_words, is_same

# Fields that also process other keys.
ANNOTATIONS = {"scale_rewards": "bool | str"}


def take_fields(situation: Situation) -> None:
    """Takes over all remaining keys: first fields with a function, then the others."""
    given = situation.given
    for name, function in SPECIAL.items():
        if name in given:
            function(situation, name)
    for name in list(given.values):
        take_field(situation, name)


def take_field(situation: Situation, name: str) -> None:
    """Takes over one key."""
    given = situation.given
    has_home = name in classified_fields() and classified_fields()[name].home
    gone = None if has_home else removal("GRPOConfig", name)
    today = gone.renamed_to if gone is not None and gone.renamed_to else name
    field = classified_fields().get(today)
    tables = table_of("answers")
    answer = (tables["open_r1"].get(name) if situation.dialect == "open_r1" else None) or tables["trl"].get(name)
    if answer is not None:
        given.answer(name, answer)
        return
    if field is None:
        given.refused(name, _unknown(name, gone))
        return
    try:
        value = as_trl_reads(given.values[name], _annotation(situation, name, field))
    except Unreadable as problem:
        given.refused(name, f"TRL cannot take it: {problem}", field.home)
        return
    if today != name and field.name in given and value is None:
        given.mapped(name, None, because=f"{today} is its name today, and is written")
        return
    if today != name and field.name in given:
        given.refused(name, f"it is {today} under an older name, and both are written", field.home)
        return
    _place(situation, name, field, value, gone)


def _place(situation: Situation, name: str, field: ClassifiedField, value: object, gone: Removed | None) -> None:
    given = situation.given
    value = in_format_words(field, value, situation.release, _values(situation))
    because = f"its name is {field.name} today" if field.name != name else ""
    if field.home:
        given.mapped(name, field.home, value, because)
    elif field.owner:
        given.refused(name, field.owner)
    elif name not in situation.release.fields and gone is None and field.kind != "experiment":
        given.emulated(name, None, None, f"{situation.release.name} have no such field: it is a key of the script")
    elif gone is not None and gone.removed_in and not gone.renamed_to:
        fate = given.emulated if field.kind != "experiment" else None
        text = f"{gone.package} {gone.removed_in} removed it; instead: {gone.instead}"
        fate(name, None, None, text) if fate else given.refused(name, text)
    elif name == field.name and _is_default(situation, field, value):
        given.mapped(name, None, because="the default")
    else:
        given.mapped(name, f"trl.{field.name}", value, because)


def _is_default(situation: Situation, field: ClassifiedField, value: object) -> bool:
    """Whether the release and the format both give a key without a section this value if it is missing."""
    if field.name not in situation.release.fields:
        return False
    default = default_of(field, situation.release, _values(situation))
    return is_same(value, default) and (not field.has_value or is_same(value, field.value))


def _annotation(situation: Situation, name: str, field: ClassifiedField) -> str:
    if field.name in ANNOTATIONS:
        return ANNOTATIONS[field.name]
    there: Field | None = situation.release.fields.get(name) or situation.release.fields.get(field.name)
    return "" if there is None else there.annotation


def _values(situation: Situation) -> dict[str, object]:
    names = ("use_vllm", "loss_type", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size")
    return {name: situation.value(name) for name in names}


def _unknown(name: str, gone: Removed | None) -> str:
    if gone is not None:
        return f"{gone.package} {gone.removed_in} removed it; instead: {gone.instead}"
    tables = table_of("answers")
    known = [*classified_fields(), *tables["script_arguments"], *tables["model_config"], *tables["open_r1_keys"]]
    near = nearest_words(name, known, cutoff=0.8)
    meant = f"; the nearest is {near[0]}" if near else ""
    return f"it is not a key of ScriptArguments, GRPOConfig or ModelConfig in any release{meant}"


def _max_steps(situation: Situation, name: str) -> None:
    value = situation.given.values[name]
    if isinstance(value, int) and value <= 0:
        situation.given.mapped(name, None, because="num_train_epochs decides")
    else:
        take_field(situation, name)


def _warmup_ratio(situation: Situation, name: str) -> None:
    """A share of all steps becomes a number below 1 in warmup_steps; a number of steps next to it wins."""
    given = situation.given
    try:
        share = as_trl_reads(given.values[name], "float | None")
        steps = as_trl_reads(given.values.get("warmup_steps", 0), "int | float")
    except Unreadable as problem:
        given.refused(name, f"TRL cannot take it: {problem}", "training.warmup_steps")
        return
    if isinstance(steps, int | float) and steps > 0:
        given.emulated(name, None, None, "warmup_steps is written too, and wins")
    elif share in (None, 0):
        given.mapped(name, None, because="no warm-up")
    elif share == 1:
        given.refused(
            name, "a warm-up over all steps is not a share below 1; write their number", "training.warmup_steps"
        )
    else:
        given.mapped(name, "training.warmup_steps", share, "a share of all steps")
        if "warmup_steps" in given:
            given.mapped("warmup_steps", None, because="warmup_ratio decides")


def _report_to(situation: Situation, name: str) -> None:
    value = situation.given.values[name]
    services = [value] if isinstance(value, str) else value
    if services in (None, ["none"], False, []):
        situation.given.mapped(name, "logging.report_to", [])
    elif services == ["all"]:
        situation.given.emulated(name, "logging.report_to", [], "name the services; all means those installed here")
    elif isinstance(services, list):
        situation.given.mapped(name, "logging.report_to", [str(service) for service in services])
    else:
        situation.given.refused(name, "it must be a list of services", "logging.report_to")


def _save_strategy(situation: Situation, name: str) -> None:
    given = situation.given
    value = given.values[name]
    if value == "steps":
        given.mapped(name, None, because="training.save_steps says how often")
        return
    if "save_steps" in given:
        given.emulated("save_steps", None, None, f"it is not read with save_strategy {value}")
    if value in ("no", False):
        given.mapped(name, "training.save_steps", 0, "no checkpoint before the end")
    else:
        given.emulated(name, "training.save_steps", 500, "grpo-run writes checkpoints by steps; choose how many")


def _steps(home: str) -> Callable[[Situation, str], None]:
    """Takes over a number of steps; a share of all steps is unknown before the run."""

    def take(situation: Situation, name: str) -> None:
        try:
            value = as_trl_reads(situation.given.values[name], "float")
        except Unreadable as problem:
            situation.given.refused(name, f"TRL cannot take it: {problem}", home)
            return
        whole = whole_steps({**situation.given.taken, **situation.given.values}, value)
        if whole is not None:
            situation.given.mapped(name, home, whole, because=f"{value:g} of all steps")
        elif isinstance(value, float) and 0 < value < 1:
            share = "it is a share of all steps; choose their number"
            situation.given.emulated(name, home, 500 if home.endswith("save_steps") else 1, share)
        elif isinstance(value, int | float) and float(value).is_integer():
            situation.given.mapped(name, home, int(value))
        else:
            situation.given.refused(name, "it must be a number of steps", home)

    return take


def _where_true(home: str, written: object) -> Callable[[Situation, str], None]:
    """Takes over a key that gives its value to another if it is true."""

    def take(situation: Situation, name: str) -> None:
        if situation.given.values[name] is True:
            situation.given.mapped(name, home, written)
        else:
            situation.given.mapped(name, None, because=ANYWAY)

    return take


def _renamed(home: str, because: str) -> Callable[[Situation, str], None]:
    """Takes over a key that the format, or a newer release, calls differently."""

    def take(situation: Situation, name: str) -> None:
        situation.given.mapped(name, home, situation.given.values[name], because)

    return take


def _vllm_mode(situation: Situation, name: str) -> None:
    given = situation.given
    if name not in situation.release.fields:
        given.emulated(name, None, None, f"trl {situation.release.trl} has no such field, and only one way to run vLLM")
    elif given.values[name] == "server" and not any(address in given for address in SERVER_ADDRESS):
        words = "the run starts the server itself; an address under trl: uses your own"
        given.emulated(name, "generation.vllm_mode", "server", words)
    else:
        given.mapped(name, "generation.vllm_mode", given.values[name])


def _of_the_first_vllm(situation: Situation, name: str) -> None:
    """Takes over a field of the vLLM that trl before 0.16 runs in the first process; later releases ignore or drop it.

    So its default value is not written, which every release since 0.18 would have to refuse. The dtype is written: by
    default, grpo-run makes vLLM compute as the trainer does.
    """
    given = situation.given
    is_read = situation.release.is_in({"trl": "<0.16"}) and situation.value("use_vllm") in (True, "true")
    is_default = given.values[name] in (None, *table_of("answers")["trl"][name]["unless"])
    if is_read and given.values[name] is not None and (name == "vllm_dtype" or not is_default):
        given.mapped(name, f"trl.{name}", given.values[name])
    else:
        take_field(situation, name)


def _max_prompt_length(situation: Situation, name: str) -> None:
    """Takes over the length, which trl 0.26 and 0.27 only have in GRPOConfig: their trainer does not cut prompts."""
    release, given = situation.release, situation.given
    if release.is_declared and release.is_in({"trl": ">=0.26,<0.28"}) and given.values[name] is not None:
        given.emulated(name, None, None, f"trl {release.trl} never reads it: no prompt is cut there, nor here")
    else:
        take_field(situation, name)


SPECIAL: dict[str, Callable[[Situation, str], None]] = {
    "max_steps": _max_steps,
    "warmup_ratio": _warmup_ratio,
    "report_to": _report_to,
    "save_strategy": _save_strategy,
    "save_steps": _steps("training.save_steps"),
    "logging_steps": _steps("logging.logging_steps"),
    "adafactor": _where_true("training.optim", "adafactor"),
    "activation_checkpointing": _renamed("training.gradient_checkpointing", "its name in the format"),
    "activation_checkpointing_kwargs": _renamed("training.gradient_checkpointing_kwargs", "its name in the format"),
    "use_liger_loss": _renamed("trl.use_liger_kernel", "use_liger_kernel today"),
    "vllm_max_model_len": _renamed("generation.vllm_max_model_length", "renamed in trl 0.18"),
    "vllm_mode": _vllm_mode,
    "max_prompt_length": _max_prompt_length,
    "vllm_device": _of_the_first_vllm,
    "vllm_dtype": _of_the_first_vllm,
    "vllm_enable_prefix_caching": _of_the_first_vllm,
    **dict.fromkeys(("use_cpu", "no_cuda"), _where_true("launch.gpus_per_node", 0)),
}
