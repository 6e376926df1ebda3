"""`dataset`: the rows, and how a row becomes a prompt."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import PositiveInt, Section, Word

Seed = Annotated[int, Field(ge=0, lt=2**30)]


class ReasoningGymSection(Section):
    """Rows that tasks of the package reasoning-gym make; `grpo-run explain reasoning_gym` lists the tasks."""

    name: Word | None = None
    """One task, e.g. chain_sum; for several use tasks."""
    config: dict[str, Any] = {}
    """Its configuration, e.g. {min_terms: 2}. Missing keys have the package's defaults."""
    tasks: list[dict[str, Any]] = []
    """Several tasks, {name: ..., weight: 1, config: {...}} each. Rows are drawn from the tasks by their weights."""
    size: PositiveInt = 1000
    """Number of rows."""
    seed: Seed = 0
    """The package's seed: with the same release it gives the same rows."""


class DatasetSection(Section):
    """The rows, and how a row becomes a prompt."""

    path: Word | None = None
    """Hub id, a file (.jsonl .json .csv .parquet) or a folder; relative to this file. null: reasoning_gym makes the
    rows, or an `environment` owns the data and the rows are numbered episodes.
    """
    reasoning_gym: ReasoningGymSection | None = None
    """Rows that tasks of the package reasoning-gym make, with the columns question, answer, task, task_config and
    metadata. null: they are at path."""
    name: Word | None = None
    """Configuration of a hub data set, e.g. main."""
    split: Word = "train"
    """Split to use. A file has only the split train."""
    revision: Word | None = None
    """Branch, tag or commit of the hub data set. null: the newest."""
    prompt: Word | None = None
    """Jinja2 template over the row, e.g. "{{ question }}". null: the row's own column `prompt`; for reasoning_gym the
    question, for an environment's episodes an empty prompt.
    """
    prompt_format: Literal["conversational", "standard"] = "conversational"
    """Whether the template gives a user message, to which the chat template is applied, or a plain string."""
    system_prompt: Word | None = None
    """System message before each prompt; in the standard format it is put before the text, followed by an empty line.
    null: none.
    """
    columns: dict[str, str] = {}
    """Columns to add, name to jinja2 template; rewards receive them beside the row's own columns."""
    max_rows: PositiveInt | None = None
    """Use only the first rows of the split. null: all. Without a path: the number of episodes; null: one for each
    prompt that max_steps draws, at most 100,000.
    """
