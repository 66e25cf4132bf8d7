"""Folds the state of share groups, in plain Python."""
