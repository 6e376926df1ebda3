"""`dataset`: the rows, and how a row becomes a prompt."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import PositiveInt, Section, Word

Seed = Annotated[int, Field(ge=0, lt=2**30)]


class ReasoningGymSection(Section):
    """Rows that tasks of the package reasoning-gym make; `grpo-run explain reasoning_gym` lists the tasks."""

    name: Word | None = None
    """One task, e.g. chain_sum; or say several under tasks."""
    config: dict[str, Any] = {}
    """Its configuration, e.g. {min_terms: 2}. A key that is not said has the package's default."""
    tasks: list[dict[str, Any]] = []
    """Several tasks, {name: ..., weight: 1, config: {...}} each. A row is of a task as often as its weight says."""
    size: PositiveInt = 1000
    """How many rows are made."""
    seed: Seed = 0
    """The package's seed: the same one makes the same rows with a release."""


class DatasetSection(Section):
    """The rows, and how a row becomes a prompt."""

    path: Word | None = None
    """Hub id, a file (.jsonl .json .csv .parquet) or a folder; relative to the file that says it. null: the rows are
    made, see reasoning_gym, or an `environment` owns the data, and they are numbered episodes."""
    reasoning_gym: ReasoningGymSection | None = None
    """Rows that tasks of the package reasoning-gym make, with the columns question, answer, task, task_config and
    metadata. null: they are at path."""
    name: Word | None = None
    """Configuration of a hub data set, e.g. main."""
    split: Word = "train"
    """Split to take. A file has the one split train."""
    revision: Word | None = None
    """Branch, tag or commit of the hub data set. null is the newest."""
    prompt: Word | None = None
    """Jinja2 template over the row, e.g. "{{ question }}". null: the rows have a `prompt` column already; of
    reasoning_gym's rows the question, and of an environment's episodes an empty prompt."""
    prompt_format: Literal["conversational", "standard"] = "conversational"
    """What the template makes: a user message, to which the chat template is applied, or a plain string."""
    system_prompt: Word | None = None
    """System message before each prompt; in the standard format it is put before the text, with an empty line
    between them. null: none."""
    columns: dict[str, str] = {}
    """Columns to add, name to jinja2 template; rewards receive them beside the row's own columns."""
    max_rows: PositiveInt | None = None
    """Only the first rows of the split. null takes all. Without a path: how many episodes; null is one for each prompt
    that max_steps draws, at most 100,000."""
