"""Plays by families; `lab.diagnosis.plays` finds them."""
