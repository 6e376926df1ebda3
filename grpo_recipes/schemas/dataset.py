"""`dataset`: the rows, and how a row becomes a prompt."""

from typing import Literal

from grpo_recipes.schemas.section import PositiveInt, Section, Word


class DatasetSection(Section):
    """The rows, and how a row becomes a prompt."""

    path: Word | None = None
    """Hub id, a file (.jsonl .json .csv .parquet) or a folder; relative to the file that says it. null: an
    `environment` owns the data, and the rows are numbered episodes."""
    name: Word | None = None
    """Configuration of a hub data set, e.g. main."""
    split: Word = "train"
    """Split to take. A file has the one split train."""
    revision: Word | None = None
    """Branch, tag or commit of the hub data set. null is the newest."""
    prompt: Word | None = None
    """Jinja2 template over the row, e.g. "{{ question }}". null: the rows have a `prompt` column already; without a
    path the prompt is empty."""
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
