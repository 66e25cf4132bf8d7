"""Decides what happened to committed offsets: moved, expired, deleted or lost. Plain Python."""
