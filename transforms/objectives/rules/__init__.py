"""Judges groups by objectives of lag: "in 99% of its minutes the next record to read is younger than 60 s".

    minutes     judges a round and a minute: on time, late or unknown
    burn        computes from a window's minutes: attainment, budget left, burn rates, and which of them should alert
    live        updates the windows of a group minute by minute

Pure Python without clock. `jobs.ask.objectives` counts the same minutes in the table `lag` by a query, and a test
compares the two.
"""
