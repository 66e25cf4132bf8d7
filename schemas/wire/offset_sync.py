"""Records of MirrorMaker's offset syncs (`OffsetSync.java` of Kafka's connect-mirror).

The key names a topic partition of the source cluster; the value has an offset there, and the offset under which the
copy of that record lies in the target cluster. Neither has a version: key and value are classic fields in a row.
"""

SYNCS_PREFIX, SYNCS_SUFFIX = "mm2-offset-syncs.", ".internal"
"""The beginning and end of the topic's name; the alias of the other cluster is between them."""


def is_syncs_topic(name: str) -> bool:
    """Returns whether MirrorMaker names a topic of offset syncs so."""
    return (
        len(name) > len(SYNCS_PREFIX + SYNCS_SUFFIX) and name.startswith(SYNCS_PREFIX) and name.endswith(SYNCS_SUFFIX)
    )
