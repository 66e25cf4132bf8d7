"""The sections of `groupledger --help`: the commands in the order in which users need them, each in one short line.

A command that is missing here is listed under `More` with the beginning of its own text; a test allows none.
"""

from __future__ import annotations

SECTIONS = {
    "Start here": {
        "demo": "Play a day of forty groups and show what groupledger finds",
        "serve": "Serve pages about every group; --demo needs no warehouse",
        "doctor": "Check the installation, the brokers and the warehouse",
        "setup": "Fetch the libraries that Spark needs",
    },
    "Problems": {
        "why": "The problem of a group, since when, who causes it, what to do",
        "groups": "All groups, those in trouble first",
        "incidents": "Incidents with cause, harm and the setting to change",
        "lag": "Lag by partition, topic or group, now or at any time",
        "topics": "All topics with their lag, those in trouble first",
        "forecast": "When groups catch up, and when they lose records",
        "idle": "Groups whose committed offsets will expire",
        "capacity": "Whether a group has enough members, or too many",
        "objectives": "Objectives of lag: attainment, budget, burn rate",
    },
    "What happened": {
        "group": "The history of a group: generations, members, owners",
        "owner": "Who owned a partition at any time, in one or all groups",
        "members": "The members of all groups, or of one, at any time",
        "diff": "What changed in a group between two times",
        "rebalances": "The groups that rebalance most, or one group's rebalances",
        "offsets": "Committed offsets at any time, ready for a reset",
        "audit": "Who reset or removed committed offsets, and how to undo it",
        "deploys": "The deployments of groups, and the cost of each",
        "deploy": "What one deployment cost, beside those before it",
        "failover": "What a failover to a mirrored cluster would repeat or skip",
        "readers": "The groups that read a topic",
        "committers": "The groups that commit most",
        "share": "Progress of a share group",
        "inventory": "Clients by library and version, and who can't move to KIP-848",
        "records": "The decoded records in log order",
        "what-if": "What other settings would have saved",
        "report": "The pages as one HTML file",
        "sql": "Any question in SQL",
        "mcp": "Answer an assistant by the Model Context Protocol",
    },
    "Run": {
        "monitor": "Follow a cluster: tables, lag, metrics, messages",
        "pipeline": "One scheduled pass of all steps",
        "ingest": "Only decode the topic into a table",
        "history": "Only update generations, members and assignments",
        "sample": "Ask the brokers once for ends of topics and groups",
        "import-logs": "Import request logs and server logs of brokers",
        "notify": "Send messages about incidents, or test the receivers",
        "capture": "Copy the topic into Parquet files",
    },
    "Keep": {
        "maintain": "Compact files and apply retention",
        "validate": "Replay the history through the reference coordinator",
        "quality": "Check the tables with Great Expectations",
        "forget": "Remove a group, client or host from every table",
        "register": "Make the tables known to a catalog",
    },
    "Try without a cluster": {
        "simulate": "Simulate a cluster and its groups",
        "coordinator": "Run the reference coordinator for real consumers",
        "protocols": "Compare all group protocols on one script",
    },
}
