"""The rules of what happens to committed offsets, in plain Python."""
