"""Judges groups by objectives of lag: "in 99% of its minutes the next record to read is younger than 60 s".

    minutes     what a round and a minute were: on time, late or unknown
    burn        what a window's minutes say: attainment, budget left, burn rates, and which of them should alert
    live        the windows of a group that is followed minute by minute

Pure Python without clock. `jobs.ask.objectives` counts the same minutes in the table `lag` by a query, and a test
compares the two.
"""
