"""groupledger: the ledger of every Kafka consumer group.

The five folders of the package lie at the top of the repository; here are links to them, so that Python, editors, mypy
and pytest find `groupledger.jobs` where an installation has it, and nothing else of ours is on anybody's path.
"""
