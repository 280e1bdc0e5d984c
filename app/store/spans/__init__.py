"""Imported spans, and the links that they tell of."""
