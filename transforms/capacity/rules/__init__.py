"""Computes whether a group has enough members, from the rate of production, the pace of each member, and the number of
partitions.

    seen        rounds of lag as the input of these rules, and the rate of production
    pace        how fast each member processes while it has work left; else only a lower bound
    deal        how many members carry the load, by how an assignor divides the partitions
    capacity    the result: hot partitions, idle and stuck members, and whether more members help, or fewer suffice
    scaling     facts for autoscalers beside the sum of lag

Pure Python without clock. Rates are in records per second; offsets stand for records, so that markers of transactions
and records that were compacted away count, too.
"""
