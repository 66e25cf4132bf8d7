"""Contains the plays, in a file for each family; `lab.diagnosis.plays` imports them."""
