"""The fields, defaults, allowed values and parameters that a stack accepts, read from source, never imported."""
