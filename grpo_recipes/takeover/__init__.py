"""What other programs' configurations say, as a recipe: every key is mapped, emulated or refused with its reason."""
