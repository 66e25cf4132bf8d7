"""Identifies the codec by a digest of everything that decides which bytes can be decoded.

The digest is computed from the source of `schemas.wire` and `schemas.codec`. So every change of a format or of a reader
is noticed, and nobody has to count versions. After a change that makes no further record readable, such as one of a
comment, the quarantined records are tried once more without success.
"""

import hashlib
from importlib.resources import files

PACKAGES = ("groupledger.schemas.wire", "groupledger.schemas.codec")


def codec_digest() -> str:
    """Returns the digest of this release's codec, in hex."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for source in sorted(files(package).iterdir(), key=lambda source: source.name):
            if source.name.endswith(".py"):
                content = source.read_bytes()
                digest.update(f"{package}/{source.name} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()
