"""Recognises deployments of a group's members, and adds up what each cost. Pure Python without clock."""
