"""What a stack accepts: fields, defaults, allowed values and parameters, read from source, never imported."""
