"""The rules of share groups' state, in plain Python."""
