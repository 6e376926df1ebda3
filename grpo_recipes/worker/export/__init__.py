"""Exports a trained model, and proves that the export is the trained model."""
