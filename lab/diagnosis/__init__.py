"""Plays causes of trouble with real clients on a real broker, to test the ledger's diagnosis (`bench.diagnosis`).

clients    the settings of the clients that play
truth      what was played: who, what and when
stage      the broker, the processes in which clients run, the topics and their records
sampler    the rounds that a monitor would have taken
group      the members of one group, by short names
plays      the registry: a function for each cause, by families in the files beside it
levels     the warehouses of the three levels of evidence, and their answers
judge      judges which parts of an answer are right, wrong, or left open
"""
