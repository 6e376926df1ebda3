"""Loads the plan's rows as a TRL dataset and renders their prompts and columns."""

import contextlib
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import datasets
import jinja2
from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

from grpo_recipes.contract.files.folder_files import read_text, remove_tree, write_whole
from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.integrity.seal import Damaged, seal_content, unseal
from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.contract.tasks import PACKAGE
from grpo_recipes.contract.tasks.task_rows import NotMade, make_rows
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.verified import facts_of_rows
from grpo_recipes.worker.data.checked_rows import check_environments, check_prompts
from grpo_recipes.worker.data.chosen_rows import Choice, LeftOut, chooses, sort_places
from grpo_recipes.worker.data.file_texts import as_written, texts_stay
from grpo_recipes.worker.data.images import check_image_columns, with_images, without_decoding
from grpo_recipes.worker.data.plain_templates import batch_renderer
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.data.templates import LONGEST_TEXT, rows_renderer
from grpo_recipes.worker.data.unreadable_rows import unreadable

PROMPTS_AT_ONCE = 1000
# TRL passes these to each reward function besides the columns, so no column can have these names.
TAKEN_COLUMNS = ("prompts", "completions")
_PURPOSE = "rendered rows"
_KEPT = re.compile(r"(dataset|warm_start|datasets\.[\w-]+|evaluation(\.sets\.[\w-]+)?)-\d+\.(arrow|json)")


def prepare_rows(
    data: Data,
    where: str,
    cache: Path,
    rank: int,
    facts: dict[str, object] | None = None,
    *,
    is_resumed_later: bool = False,
    first: int | None = None,
    tokens: PromptTokens | None = None,
) -> Any:
    """Returns the datasets.Dataset of `data` with a `prompt` column and its templates' columns; others stay.

    where: the recipe section in messages, "dataset" or that of held-out rows. cache: a folder inside the run folder, so
    nothing is left elsewhere (a hub dataset itself is in the hub's cache). facts: gets the number of rows and
    the fingerprint of the whole data. is_resumed_later: reuse the rows that an earlier attempt rendered, and keep
    them for the next one, if the data is a file or has a hub commit. first: the rank that rendered the rows for this
    one; None for a rank that renders them itself. tokens: counts prompt tokens, for data that is chosen by them.

    Raises Refused if the file changed since the plan was made, there are no rows, a row cannot fill a template, or TRL
    does not accept its prompt.
    """
    file, facts = cache / f"{where}-{rank}.arrow", {} if facts is None else facts
    is_kept = is_resumed_later and {"hub": data.commit, "file": data.sha256}.get(data.source) is not None
    kept_by = file if first is None else cache / f"{where}-{first}.arrow"
    of = _identity(data, where, tokens)
    if is_kept and (rendered := _read_kept_rows(data, where, kept_by, of, facts)) is not None:
        return rendered if data.sort_by is None else rendered.select(sort_places(rendered, data, where))
    of_data: dict[str, object] = {}
    rows, _, _ = choose_rows(data, where, cache, file, tokens, of_data)
    if is_kept and kept_by == file:
        content = {"of": of, "sha256": file_sha256(file), "seen": of_data}
        write_whole(cache, f"{file.stem}.json", seal_content(_PURPOSE, content))
    facts |= of_data
    return rows


def choose_rows(
    data: Data, where: str, cache: Path, file: Path, tokens: PromptTokens | None, facts: dict[str, object]
) -> tuple[Any, Sequence[int], LeftOut]:
    """Returns the rendered training rows, their indices in the data, and what is left out. See prepare_rows."""
    loaded = load_rows(data, where, cache, facts)
    choice = Choice(data, where, loaded.column_names, len(loaded))
    places = choice.first(loaded)
    is_all = isinstance(places, range)
    rows = loaded if len(places) == len(loaded) and is_all else loaded.select(places)
    if len(rows) > 0 and choice.is_done:
        rows = render_rows(rows, data, where, file, None if is_all else places, facts)
    elif len(rows) > 0:
        whole = file.with_name(f"{file.stem}-all.arrow")
        rows = render_rows(rows, data, where, whole, None if is_all else places, facts)
        assert tokens is not None  # held-out rows are not chosen
        rows, places = choice.last(rows, places, tokens, **_keywords_to_write(data, where, file))
        whole.unlink()
    if len(rows) == 0:
        choice.refuse_none()
    if data.prompt is None or data.images:
        check_prompts(rows, data, where, places)
    check_environments(rows, data, where, places)
    if data.sort_by is not None:
        order = sort_places(rows, data, where, places)
        rows, places = rows.select(order), [places[index] for index in order]
    if chooses(data):
        facts |= facts_of_rows(f"{where}.kept", rows)
    return rows, places, choice.left_out


def _read_kept_rows(data: Data, where: str, file: Path, of: str, facts: dict[str, object]) -> Any:
    """Returns the rows an earlier attempt rendered, None if they are damaged or differ. See prepare_rows.

    Reading a million takes one second, rendering them five, or 25 with jinja2.
    """
    try:
        record = unseal(_PURPOSE, read_text(file.parent, f"{file.stem}.json"))
        if record["of"] != of or file_sha256(file) != record["sha256"]:
            return None
    except (OSError, ValueError, KeyError, Damaged):
        return None
    _refuse_other_data(data, where)
    facts |= record["seen"]
    return Dataset.from_file(str(file))


def _identity(data: Data, where: str, tokens: PromptTokens | None) -> str:
    """Returns a digest of the data, the templates, and everything that renders, counts and chooses."""
    texts = (module.read_bytes() for module in files(__package__).iterdir() if module.name.endswith(".py"))
    sources = [hashlib.sha256(text).hexdigest() for text in texts]
    versions, counted = f"{datasets.__version__} {jinja2.__version__}", "" if tokens is None else tokens.of
    return hashlib.sha256(f"{where} {data} {versions} {sorted(sources)} {counted}".encode()).hexdigest()


def without_cache(cache: Path) -> None:
    """Removes cached data that earlier attempts left behind.

    Rendered rows stay, since they are used only if they have their digest. A link is removed, but not its target.
    Raises Refused if something cannot be removed.
    """
    try:
        if cache.is_symlink() or cache.is_file():
            cache.unlink()
        elif cache.exists():
            for entry in list(cache.iterdir()):
                if entry.is_symlink() or not entry.is_file() or not _KEPT.fullmatch(entry.name):
                    remove_tree(cache, entry.name)
            with contextlib.suppress(OSError):
                cache.rmdir()  # only if empty
    except OSError as problem:
        raise Refused.of(
            f"{cache} cannot be removed",
            because=f"{problem.strerror or problem}; rows that an earlier attempt left there are not trusted",
            fix="remove it",
        ) from problem


def load_rows(data: Data, where: str, cache: Path, facts: dict[str, object] | None = None) -> Any:
    """Returns the rows of `data` as loaded, with the columns that a run needs. Raises Refused like prepare_rows."""
    _refuse_other_data(data, where)
    rows = _load(data, where, cache)
    if facts is not None and len(rows) > 0:
        facts |= facts_of_rows(where, rows)
    if data.max_rows is not None and not chooses(data):
        rows = rows.select(range(min(data.max_rows, len(rows))))
    if len(rows) == 0:
        raise Refused.of(f"{where}: {data.path} has no rows")
    _check_columns(data, where, rows.column_names)
    return without_decoding(rows, data)


def render_rows(
    rows: Any, data: Data, where: str, file: Path, places: Sequence[int] | None = None, facts: Any = None
) -> Any:
    """Returns the loaded rows with rendered templates, which are written to a file and read from there.

    places: indices of the rows in the data, if only a part. facts: as in prepare_rows; gets the images' digest.
    """
    if not data.images:
        return _with_texts(rows, data, where, file, places)
    without = file.with_name(f"{file.stem}-without.arrow")
    texts = _with_texts(rows, data, where, without, places)
    how = _keywords_to_write(data, where, file)
    made = with_images(texts, data, where, places, {} if facts is None else facts, how)
    without.unlink()
    return made


def _with_texts(rows: Any, data: Data, where: str, file: Path, places: Sequence[int] | None) -> Any:
    file.parent.mkdir(parents=True, exist_ok=True)
    how = {"batched": True, **_keywords_to_write(data, where, file)}
    with contextlib.suppress(Exception):  # on any error jinja2 renders the rows, or reports which one it cannot
        return rows.with_format("arrow").map(batch_renderer(rows, data, LONGEST_TEXT), **how).with_format(None)
    render = rows_renderer(data, where)
    return rows.map(
        render if places is None else lambda batch, indices: render(batch, [places[index] for index in indices]),
        with_indices=True,
        **how,
    )


def _keywords_to_write(data: Data, where: str, file: Path) -> dict[str, Any]:
    """Returns the keywords that make `datasets` write rows to a file and read them from there."""
    fingerprint = hashlib.sha256(f"{where} {data}".encode()).hexdigest()[:32]
    return {"cache_file_name": str(file), "load_from_cache_file": False, "new_fingerprint": fingerprint}


def _check_columns(data: Data, where: str, columns: list[str]) -> None:
    if data.prompt is None and "prompt" not in columns:
        raise Refused.of(
            f"{where}: the rows have no column `prompt`",
            because=f"{data.path} has the columns {', '.join(sorted(columns))}",
            fix=f"{where}.prompt with a template over them",
        )
    check_image_columns(data, where, columns)
    passed = "trl passes its own values to the reward functions under this name"
    taken = {name: passed for name in TAKEN_COLUMNS if name in columns or name in data.columns}
    if data.source_name is not None and SOURCE_NAME in columns:
        taken[SOURCE_NAME] = "a mixture writes the name of the source there"
    for name, because in taken.items():
        what = f"{where}: the rows have a column `{name}`"
        raise Refused.of(what, because=because, fix=f"rename the column in {data.path}")


def prompts_of(rows: Any) -> Iterator[Any]:
    """Yields the prompts of rows, read in batches: rows["prompt"] takes six times as long."""
    for batch in rows.select_columns("prompt").iter(PROMPTS_AT_ONCE):
        yield from batch["prompt"]


def _load(data: Data, where: str, cache: Path) -> Any:
    if data.made is not None and "episodes" in data.made:
        first, count = int(str(data.made["first"])), int(str(data.made["episodes"]))
        return Dataset.from_dict({"episode": list(range(first, first + count))})
    if data.source == "hub":
        return load_dataset(data.path, data.name, split=data.split, revision=data.commit or data.revision)
    if data.made is not None and "reasoning_gym" in data.made:
        return _make_tasks(data, where, data.made["reasoning_gym"])
    path = Path(data.path)
    if data.source == "file":
        return _read_source(data, where, data.format, data_files=str(path), split="train", cache_dir=str(cache))
    if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
        return _load_saved(path, data.split, where)
    return _read_source(data, where, str(path), name=data.name, split=data.split, cache_dir=str(cache))


def _make_tasks(data: Data, where: str, made: Any) -> Dataset:
    """Returns generated task rows. Raises Refused if they, or their scoring code, differ from the plan."""
    try:
        tasks = make_rows(made)
    except NotMade as problem:
        raise Refused.of(f"{where}: reasoning_gym cannot generate the rows", because=str(problem)) from None
    is_other = data.sha256 not in (None, tasks.sha256)
    if is_other or made.get("scorers") not in (None, tasks.scorers):
        what = "rows" if is_other else "scorers"
        raise Refused.of(
            f"{where}: the {what} of reasoning_gym differ from the plan",
            because=f"{PACKAGE} {tasks.release} is installed, and its source code of the tasks differs from the plan's",
            fix=f"install the release of {PACKAGE} that plan.json names under stack, or plan again",
        )
    return Dataset.from_list(tasks.rows)


def _read_source(data: Data, where: str, *source: Any, **options: Any) -> Any:
    """Returns what load_dataset returns. Raises Refused, with file and line, for rows that cannot be read."""
    try:
        with texts_stay() as mixed:  # the run has its own cache
            rows = load_dataset(*source, **options)
        if data.format == "csv":
            rows = as_written(rows, Path(data.path), functools.partial(load_dataset, *source, **options))
    except Exception as problem:
        if (stopped := unreadable(problem, data, where)) is None:
            raise
        raise stopped from problem
    if (name := (data.sort_by or "").removeprefix("-")) in mixed:
        what = f"{where}.sort_by: column {name} of {data.path} cannot be sorted"
        raise Refused.of(what, because="its values are int and str", fix="a column of numbers or of strings")
    return rows


def _refuse_other_data(data: Data, where: str) -> None:
    """Raises Refused if a local file is missing or differs from the plan."""
    if data.made is not None or data.source == "hub":
        return
    path = Path(data.path)
    if not path.exists():
        raise Refused.of(f"{where}: {path} does not exist", because="the plan was made with it")
    if data.source == "file" and data.sha256 is not None and (digest := file_sha256(path)) != data.sha256:
        raise Refused.of(
            f"{where}: {path} changed since the plan was made",
            because=f"its sha256 is {digest[:12]}, the plan has {data.sha256[:12]}",
            fix="plan again",
        )


def _load_saved(path: Path, split: str, where: str) -> Dataset:
    """Returns the dataset in a folder written by Dataset.save_to_disk. A single dataset has no splits."""
    saved = load_from_disk(str(path))
    if not isinstance(saved, DatasetDict):
        return saved
    if split not in saved:
        raise Refused.of(f"{where}: {path} has no split {split}", because=f"it has {', '.join(sorted(saved))}")
    return saved[split]
