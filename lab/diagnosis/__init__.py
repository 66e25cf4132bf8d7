"""Plays causes of trouble with real clients on a real broker, to test the ledger's diagnosis (`bench.diagnosis`).

clients    the settings of the clients that play
truth      what was played: in which group, with which client, and when each cause began and ended
stage      the broker, the processes in which clients run, the topics and their records
sampler    the sampling rounds that a monitor would have taken
group      one group with its members, which have short names
plays      the registry of plays: a function for each cause, in the files of `families`
levels     a warehouse for each of the three levels of evidence, and its answers
judge      judges which parts of an answer are right, wrong, or left open
"""
