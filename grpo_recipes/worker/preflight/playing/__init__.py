"""A conversation with tools played without the model, in a process of its own."""
