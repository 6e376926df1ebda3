"""What the fields that stand under `trl:` mean, in the first sentence of the library's own documentation.

TRL and transformers are under the Apache License 2.0. A field that the newest releases lack has no text.
"""

from collections.abc import Mapping

from grpo_recipes.facts.released.shipped import table


def field_help() -> Mapping[str, str]:
    """Field -> its meaning."""
    return table("field_help")
