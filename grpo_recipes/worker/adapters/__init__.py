"""Adapters of PEFT, and the weights that they are of."""
