"""Facts of releases that are not installed here: brought along, folded, and renewed by maintainers."""
