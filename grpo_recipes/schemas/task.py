"""`dataset`, `rewards`, `tools`, `environment` and `rollout`: what is learned."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Section, Word

SOURCE = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"
Seed = Annotated[int, Field(ge=0, lt=2**30)]


class ReasoningGymSection(Section):
    """Rows that tasks of the package reasoning-gym generate; `grpo-run explain reasoning_gym` lists the tasks."""

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


class PromptTokensSection(Section):
    """Prompts that are too long."""

    limit: PositiveInt
    """Maximum number of tokens of a prompt as the model gets it, with the chat template and the descriptions of tools.
    """
    over: Literal["drop", "cut", "error"] = "drop"
    """What to do with a longer prompt. drop: leave out its row. cut: remove its beginning, as
    `generation.max_prompt_length` does. error: do not start the training.
    """


class DatasetSection(Section):
    """The rows, and how a row becomes a prompt."""

    path: Word | None = None
    """Hub id, a file (.jsonl .json .csv .parquet) or a folder; relative to this file. null: reasoning_gym
    generates the rows, or an `environment` owns the data, and the rows are numbered episodes.
    """
    reasoning_gym: ReasoningGymSection | None = None
    """Rows that tasks of the package reasoning-gym generate, with the columns question, answer, task, task_config and
    metadata. null: the rows are at path."""
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
    """Columns to add, name to jinja2 template; rewards receive them in addition to the row's own columns."""
    images: Word | list[Word] | None = None
    """Column with the images of a row, or several in the order in which the model sees them. A value is a file's path,
    relative to the data file, the bytes of a file, an image of `datasets`, or a list of these. They come before the
    text of the first user message, and rewards receive them as `images`. A row is text if each of its columns is null
    or an empty list. null: no images, for rows of text.
    """
    max_pixels: PositiveInt | None = None
    """Largest width times height of an image; a larger one is scaled down before the model's processor sees it, e.g.
    1003520. null: unchanged.
    """
    filter: Word | None = None
    """Rows to keep: an expression over the row's columns, those of `columns`, and prompt_tokens, the length of the
    prompt as in max_prompt_tokens. E.g. "{{ prompt_tokens <= 1024 and level in ('3', '4') }}". A row is kept if the
    result is True and dropped if it is False; any other result, and a null that decides it, is an error. An expression
    over the row's own columns alone runs before the templates. Held-out rows of `evaluation` are not filtered. null:
    all rows.
    """
    max_prompt_tokens: PromptTokensSection | None = None
    """What to do with prompts that are too long, e.g. {limit: 1024, over: drop}. Held-out rows are never dropped.
    null: whole prompts of any length, unless generation.max_prompt_length cuts them.
    """
    shuffle_seed: Seed | None = None
    """Shuffle the rows once with this seed before max_rows takes the first ones: the same order with every release and
    on every machine. null: the order of the data. training.shuffle_dataset draws from these rows, epoch by epoch.
    """
    max_rows: PositiveInt | None = None
    """Use only the first rows of the split that filter and max_prompt_tokens keep. null: all. Without a path:
    the number of episodes; null: one for each prompt that max_steps draws, at most 100,000.
    """
    sort_by: Word | None = None
    """Train the rows in ascending order of this column, e.g. pass_rate, or, with a minus in front, in descending order:
    -pass_rate. The column has a number in each row, or a text in each row; texts are ordered by their characters.
    max_rows takes rows before they are sorted. training.shuffle_dataset is then false. null: not sorted.
    """


class SourceSection(DatasetSection):
    """One source of a mixture: the keys of `dataset`, and its share of the training.

    Unless the recipe sets shuffle_dataset, each source is shuffled separately, and starts over in a different order
    when all its rows were drawn.
    """

    source: Annotated[str, Field(pattern=SOURCE)] | None = None
    """Name of the source, in the column source_name of its rows and in the names of its metrics. Required."""
    weight: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Its share of the prompts, relative to the other weights: with 3 and 1 the first source gives three of four
    prompts. null, for all sources: in proportion to the number of rows.
    """
    rewards: list[Word] | None = None
    """Names of the rewards that judge its rows, e.g. [accuracy]; the others give None for them. null: all rewards."""
    from_step: PositiveInt = 1
    """The first optimizer step that draws from it, or, if a generation feeds several steps, the first step of the next
    generation; until then the other sources share the prompts. 1: all steps draw from it.
    """


FUNCTION = r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$"
REWARD = r"^([^:]+\.py|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*):[A-Za-z_][A-Za-z0-9_]*$"


# An address of an OpenAI-compatible endpoint, which has neither a password nor a query in it.
ENDPOINT = r"^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~%/-]*)?$"


class JudgeSection(Section):
    """A model behind an OpenAI-compatible endpoint that scores each completion. Nothing is sent
    without your consent.
    """

    base_url: Annotated[str, Field(pattern=ENDPOINT)]
    """Address of the endpoint, e.g. http://127.0.0.1:8000/v1; requests go to /chat/completions below it."""
    model: Word
    """Name of the model at the endpoint."""
    prompt: Word
    """Jinja2 template of the message to the judge, over the row's columns, `completion` (the text of the completion)
    and `prompt` (the text of the last message of its prompt).
    """
    score: Word | None = None
    """Regular expression that finds the score in the judge's answer, with one group around the number; the last match
    counts. null: the only number of the answer, or the 7 of one that ends with "7/10" or "7 out of 10".
    """
    scale: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    """Lowest and highest score, e.g. [0, 10], which become 0 and 1. Any score outside is an answer without a score.
    null: the score itself is the reward, whatever it is.
    """
    key_variable: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] | None = None
    """Name of the environment variable with the endpoint's key, e.g. OPENAI_API_KEY; never the key itself. null: no key
    is sent.
    """
    timeout: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """Time limit for an answer, in seconds."""
    retries: NonNegativeInt = 3
    """How often to ask an unanswered question again, after 1, 2, 4, ... seconds."""
    concurrency: Annotated[int, Field(gt=0, le=1024)] = 8
    """Number of questions that each process asks at the same time."""
    temperature: NonNegativeFloat | None = 0.0
    """Sampling temperature of the judge. null: the endpoint's own."""
    max_tokens: PositiveInt | None = 512
    """Longest answer, in tokens. null: the endpoint's own limit."""
    request: dict[str, Any] = {}
    """More fields of each request, e.g. {reasoning_effort: low}; not model, messages, stream and n."""


class RewardSection(Section):
    """One reward, with exactly one of name, python, model and judge."""

    name: Word | None = None
    """A shipped reward: accuracy, code_tests, completion_length, cosine_scaled, countdown, exact_match,
    follows_instruction, function_calls, json_fields, language_consistency, reasoning_gym, regex_match,
    repetition_penalty, soft_overlong_punishment, tag_format, valid_json."""
    python: Annotated[str, Field(pattern=REWARD)] | None = None
    """Your function, `file.py:function`, relative to this file, or `module:function` of an installed package. It only
    runs with your consent, except for `trl.rewards`.
    """
    model: Word | None = None
    """A reward model (sequence classification with one label): hub id or folder."""
    judge: JudgeSection | None = None
    """A model behind an endpoint that scores completions, e.g. {base_url: ..., model: ..., prompt: ...}."""
    weight: float = 1.0
    """Factor in the weighted sum of all rewards."""
    options: dict[str, Any] = {}
    """Keyword arguments of the function, e.g. {pattern: '...'}, or of the package function that makes it."""


class ToolSection(Section):
    """One function that the model can call; the model sees its name, type hints and docstring."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to this file. Each parameter needs a type hint and a line under
    `Args:` in the docstring. It only runs with your consent.
    """
    timeout: PositiveFloat = 10.0
    """Seconds that a call may take; after that the model gets an error."""


class EnvironmentSection(Section):
    """A class whose methods the model can call while it answers. Each completion has its own object, and so its own
    state.
    """

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your class, `file.py:Class`, relative to this file. TRL calls its `reset` with the columns of a row before each
    completion; its other public methods are tools, and its `get_reward`, if any, is an additional reward. It only
    runs with your consent.
    """
    config: dict[str, Any] = {}
    """Keyword arguments for each object, e.g. {size: 4}."""
    timeout: PositiveFloat = 10.0
    """Seconds that a call of a method may take; after that the model gets an error. A reset that takes longer ends the
    run.
    """


class NamedEnvironmentSection(EnvironmentSection):
    """One of several environments, for the rows that name it in the column `environment`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Its name in the rows, and in the metrics of its `get_reward`."""


class RolloutSection(Section):
    """A function that generates the completions instead of TRL."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to this file. It takes the prompts and the trainer, and returns the
    tokens of prompts and completions with their log-probs. It only runs with your consent.
    """
