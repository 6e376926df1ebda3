"""Generates answers with a trained model, without a trainer."""
