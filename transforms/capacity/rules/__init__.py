"""Says whether a group has enough members: what is produced, what each member can process, and how partitions divide.

    seen        rounds of lag as these rules take them, and what is produced
    pace        how fast each member processes while it has work left; else only a lower bound
    deal        how many members carry the load, by how partitions are dealt to them
    capacity    what is found: hot partitions, idle members, stuck ones, and whether more members help, or fewer do
    scaling     facts for autoscalers beside the sum of lag

Pure Python without clock. Rates are in records per second; offsets stand for records, so that markers of transactions
and records that were compacted away count, too.
"""
