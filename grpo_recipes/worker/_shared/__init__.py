"""Code that several folders of the worker use."""
