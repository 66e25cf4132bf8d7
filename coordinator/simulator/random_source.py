"""The simulator's only source of random numbers: everything random follows from one seed.

The generator is SplitMix64 (Steele, Lea, Flood 2014), whose numbers depend on no library's version. A source has a
name: the numbers of one group do not depend on the other groups, so that a group can be simulated again by itself.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b

_MASK = (1 << 64) - 1


class RandomSource:
    """A source of random numbers. Its name, which includes the seed and its purpose, determines all its numbers."""

    __slots__ = ("_name", "_state")

    def __init__(self, *name: str | int) -> None:
        self._name = name
        digest = blake2b(repr(self._name).encode(), digest_size=8).digest()
        self._state = int.from_bytes(digest, "big")

    def source(self, *name: str | int) -> RandomSource:
        """Returns another source, whose name is longer by `name`. Its numbers do not depend on how many were drawn from
        this one."""
        return RandomSource(*self._name, *name)

    def bits(self) -> int:
        """Returns 64 random bits."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def between(self, low: int, high: int) -> int:
        """Returns an integer of [low, high], nearly uniform: the bias is below (high - low) / 2**64."""
        return low + self.bits() % (high - low + 1)

    def uuid(self) -> str:
        """Returns a random UUID (version 4) as Java prints it."""
        digits = f"{self.bits():016x}{self.bits():016x}"
        variant = "89ab"[int(digits[16], 16) % 4]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def kafka_id(self) -> str:
        """Returns a random UUID as Kafka prints topic and cluster ids, with 22 characters. The first one is never a
        dash."""
        number = (self.bits() << 64) | self.bits()
        text = urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
        return self.kafka_id() if text.startswith("-") else text
