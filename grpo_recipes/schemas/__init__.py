"""The recipe format: one Pydantic model per section, put together in `recipe.py`."""
