"""Causes, played by real clients on a real broker, and what the ledger says of them (`bench.diagnosis`).

clients    the settings of the clients that play
truth      what was played: who, what and when
stage      the broker, the processes in which clients live, the topics and what is written to them
sampler    the rounds that a monitor would have taken
group      the members of one group, by short names
plays      the registry: a function for each cause, by families in the files beside it
levels     the warehouses of the three levels of evidence, and their answers
judge      what of an answer is right, wrong, or left open
"""
