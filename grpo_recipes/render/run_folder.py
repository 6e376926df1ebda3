"""Writes the run folder, with everything that a run needs, atomically."""

import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from grpo_recipes.contract.exits import SYSTEM_FIXES, Refusal
from grpo_recipes.contract.files.regular_file import TRAVELS
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.integrity.digests import Digest
from grpo_recipes.contract.integrity.run_folder import NONE_KNOWN, new_run_id, read_integrity, write_integrity
from grpo_recipes.contract.plan import Plan, to_json
from grpo_recipes.render.launch_script import accelerate_yaml, launch_sh, train_sh
from grpo_recipes.trust.user_code import user_files

NO_SCRIPTS: Mapping[str, str] = MappingProxyType({})
_PACKAGE = "worker/grpo_recipes.zip"
PART_OF_ARCHIVE = """import importlib, os, sys
sys.path[0] = os.path.abspath(sys.path[0])
import grpo_recipes
del sys.path[0]
if __name__ == "__main__":
    sys.exit(importlib.import_module(f"grpo_recipes.worker.{sys.argv[1]}").main(sys.argv[2:]))
"""
"""What `python worker/grpo_recipes.zip NAME` runs, as worker/part.py does; nothing else in the folder is imported."""


class FirstRun(NamedTuple):
    """The first run folder of a sweep: its archive of the package, and the archive's digest."""

    package: Path
    digest: Digest


def first_run(folder: Path) -> FirstRun:
    """The parts of a run folder, just written, that the other runs of its sweep reuse."""
    written = read_integrity(folder)
    assert written is not None
    return FirstRun(folder / _PACKAGE, written[_PACKAGE])


def write_run_folder(
    plan: Plan, folder: str, recipe_text: str, scripts: Mapping[str, str] = NO_SCRIPTS, first: FirstRun | None = None
) -> str:
    """Writes all files of a run into `folder` and returns its absolute path. scripts: of the engine, by name.

    first: the sweep's run folder that was written first; this one links its archive of the package. Raises Refusal as
    `build_folder`, and if a user file differs from the planned one.
    """
    with build_folder(folder) as (target, building):
        write_texts(building, texts_of_plan(plan, recipe_text, scripts))
        copy_worker(plan, building / "worker", first)
        write_integrity(building, new_run_id(), NONE_KNOWN if first is None else {_PACKAGE: first.digest})
    return str(target)


@contextlib.contextmanager
def build_folder(folder: str, what: str = "run") -> Iterator[tuple[Path, Path]]:
    """The absolute path of a folder, and a folder next to it in which to build it before it is renamed.

    The folder must be missing or empty. If two runs want the same folder, one gets it, and a failure leaves nothing
    behind. what: run or sweep. Raises Refusal if the folder exists or cannot be written.
    """
    target = Path(os.path.abspath(folder))
    if not _is_free(target):
        raise _folder_exists(target, what)
    building = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        building.mkdir(parents=True)
        yield target, building
        # rename(2) replaces an empty folder and fails on any other, so the second one loses.
        building.rename(target)
    except OSError as problem:
        if not _is_free(target):
            raise _folder_exists(target, what) from problem
        number = _number(problem)
        because = str(problem) if number is None else os.strerror(number)
        fix = SYSTEM_FIXES.get(number, "a folder that this user may write")
        raise Refusal.of(
            f"{target}: the {what} folder cannot be written",
            because=because,
            fix=f"{fix}, or use --out with a different folder",
        ) from problem
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _is_free(target: Path) -> bool:
    return not os.path.lexists(target) or (not target.is_symlink() and target.is_dir() and not any(target.iterdir()))


def _number(problem: OSError) -> int | None:
    """The error number if nothing could be written; copying a tree reports each file only in words."""
    match = re.search(r"\[Errno (\d+)\]", str(problem))
    return problem.errno if match is None else int(match[1])


def _folder_exists(target: Path, what: str) -> Refusal:
    return Refusal.of(
        f"{target}: the {what} folder already exists",
        because="two runs cannot share a folder",
        fix="--out with a folder that does not exist yet",
    )


def texts_of_plan(plan: Plan, recipe_text: str, scripts: Mapping[str, str]) -> dict[str, str | None]:
    """The files of a run folder that follow from its plan, by name; None for one that this plan does not need."""
    return {
        "recipe.yaml": recipe_text,
        "plan.json": to_json(plan),
        "accelerate.yaml": accelerate_yaml(plan),
        "deepspeed.json": deepspeed_json(plan),
        "launch.sh": launch_sh(plan),
        "train.sh": train_sh(plan),
        **{name: scripts.get(name) for kind in ENGINES.values() for name in kind.scripts},
    }


def write_texts(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Writes the files into a new folder, with launch.sh executable."""
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / "launch.sh").chmod(0o755)


def copy_worker(plan: Plan, worker: Path, first: FirstRun | None = None) -> None:
    """Writes the training code: the archive of the package's worker and rewards, the start files, and the user's files.

    first: as for write_run_folder.
    """
    package = Path(str(files("grpo_recipes")))
    worker.mkdir()
    archive = worker / Path(_PACKAGE).name
    if first is not None:
        link_or_copy(first.package, archive)
    else:
        archive.write_bytes(archive_modules(package))
    starts = ["train.py"] if plan.vllm is None or plan.vllm.server is None else ["train.py", "serve.py"]
    starts += ["meet.py"] if plan.world.num_nodes > 1 else []
    for start in starts:
        shutil.copyfile(package / "worker" / start, worker / start)
    for file in user_files(plan):
        _copy_user_file(file.kind, Path(file.path), file.sha256, worker / "user")
        for name, sha256 in file.imports.items():
            _copy_user_file(file.kind, Path(file.path).with_name(name), sha256, worker / "user")


@functools.cache
def archive_modules(package: Path) -> bytes:
    """The modules of the package that travel, as an archive that Python imports; equal for equal files."""
    names = sorted(
        str(path.relative_to(package.parent))
        for part in TRAVELS
        for path in ([package / part] if (package / part).is_file() else (package / part).rglob("*.py"))
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), PART_OF_ARCHIVE)
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), (package.parent / name).read_bytes())
    return content.getvalue()


def link_or_copy(old: str | Path, new: str | Path) -> None:
    """Makes a hard link, or a copy if the file system has no hard links."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _copy_user_file(kind: str, source: Path, sha256: str | None, user: Path) -> None:
    """Copies one file of user code, writing exactly the bytes that were checked."""
    try:
        content = source.read_bytes()
    except OSError as problem:
        raise Refusal.of(f"{source}: the {kind} file cannot be read", because=str(problem.strerror)) from problem
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise Refusal.of(
            f"{source}: the {kind} file changed since the plan was made",
            because=f"its sha256 is {digest[:12]}, the plan has {str(sha256)[:12]}",
            fix="plan again",
        )
    user.mkdir(exist_ok=True)
    target = user / source.name
    if target.exists() and target.read_bytes() != content:
        raise Refusal.of(
            f"{source}: another file has the same name",
            because=f"both would be worker/user/{source.name} of the run folder",
            fix="rename one of them",
        )
    target.write_bytes(content)


AUTO = "auto"


def deepspeed_json(plan: Plan) -> str | None:
    """The text of deepspeed.json, or None for a run without DeepSpeed.

    "auto" takes the trainer's value. A number would have to equal it, and a missing gradient_accumulation_steps means
    1, not auto (accelerate 1.15.0, transformers 5.23.0).
    """
    if plan.deepspeed is None:
        return None
    config: dict[str, object] = {
        "train_batch_size": AUTO,
        "train_micro_batch_size_per_gpu": AUTO,
        "gradient_accumulation_steps": AUTO,
        "gradient_clipping": AUTO,
        "bf16": {"enabled": AUTO},
        "fp16": {"enabled": AUTO},
        "zero_optimization": _zero_optimization(plan.deepspeed, pin_memory=plan.world.device == "cuda"),
    }
    autocast = plan.deepspeed.get("torch_autocast")
    if autocast is not None:
        # Empty rather than absent or false: accelerate 1.15.0 would enable an absent one, transformers refuse a false
        # one.
        config["bf16"] = {}
        config["torch_autocast"] = {"enabled": True, "dtype": autocast}
    extra = plan.deepspeed.get("extra")
    if isinstance(extra, Mapping):
        config = merge(config, extra)
    return json.dumps(config, indent=2) + "\n"


def _zero_optimization(deepspeed: Mapping[str, object], *, pin_memory: bool) -> dict[str, object]:
    """The ZeRO section. Pinned memory needs a GPU that copies from it."""
    stage = deepspeed["zero_stage"]
    zero: dict[str, object] = {"stage": stage, "reduce_bucket_size": AUTO}
    for key in ("offload_optimizer", "offload_param"):
        device = deepspeed.get(f"{key}_device", "none")
        if device != "none":
            zero[key] = {"device": device, "pin_memory": pin_memory}
    if stage == 3:
        zero["stage3_prefetch_bucket_size"] = AUTO
        zero["stage3_param_persistence_threshold"] = AUTO
        # Without it, a saved model contains no weights.
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return zero


def merge(base: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """A new mapping with the keys of both; maps merge, and otherwise `extra` wins."""
    result = dict(base)
    for key, value in extra.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return result
