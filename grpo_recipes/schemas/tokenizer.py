"""`tokenizer`: changes to the model's own tokenizer."""

from grpo_recipes.schemas.section import Section, Word


class TokenizerSection(Section):
    """Changes to the model's own tokenizer."""

    chat_template_path: Word | None = None
    """A jinja file with the chat template. null: the model's own."""
    add_tokens: list[Word] = []
    """New ordinary (not special) tokens that the model must learn, e.g. ["<search>"]."""
