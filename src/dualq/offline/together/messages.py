"""Messages between agents: bytes with a checksum, so that what arrives is what was sent, or is refused.

    checksum: 16 bytes of the SHA-256 of all that follows; of its HMAC where the houses share a key
    kind, sender, addressee, round
    parts: for each a name, a type and a shape, and its bytes; nothing is unpickled

A checksum without a key finds accidents. With a key that only the houses know, nobody else can make a message that
passes; and a message of another run, for somebody else, or from somebody who does not exist, is refused as well.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from dualq.base import CheckpointError

Array = np.ndarray
Parts = Mapping[str, Array]

HEAD = struct.Struct("<8siiqi")  # the run, sender, addressee, round, number of parts
PART = struct.Struct("<16s2sBq")  # name, type, dimensions, bytes
CHECK = 16
TYPES = {b"f8": np.dtype("<f8"), b"u8": np.dtype("<u8"), b"i8": np.dtype("<i8"), b"u1": np.dtype("u1")}


class MessageError(CheckpointError):
    """A message that is not whole, not for this run, or not from an agent of it."""


class Message(NamedTuple):
    """What one agent says to another in a round."""

    run: bytes  # 8 bytes that all agents of a run share
    sender: int
    to: int
    round: int
    parts: Parts

    @property
    def numbers(self) -> int:
        """How many numbers it holds; bytes count as eighths."""
        return sum([-(-part.nbytes // 8) for part in self.parts.values()])

    def packed(self, key: bytes = b"") -> bytes:
        """As bytes, the checksum first."""
        body = [HEAD.pack(self.run, self.sender, self.to, self.round, len(self.parts))]
        for name, part in self.parts.items():
            kind = part.dtype.str[1:].encode()
            body += PART.pack(name.encode(), kind, part.ndim, part.nbytes), struct.pack(f"<{part.ndim}q", *part.shape)
            body.append(part.tobytes())
        whole = b"".join(body)
        return _checksum(whole, key) + whole


def unpacked_message(data: bytes, run: bytes, to: int, size: int, key: bytes = b"") -> Message:
    """A message from its bytes; MessageError where it is cut off, changed, of another run, or not for this agent."""
    body = memoryview(data)[CHECK:]
    if len(body) < HEAD.size or not hmac.compare_digest(_checksum(body, key), data[:CHECK]):
        raise MessageError("a message is cut off or changed: its checksum does not match")
    its_run, sender, addressee, round_, count = HEAD.unpack_from(body)
    if its_run != run:
        raise MessageError(f"a message of another run, from agent {sender}")
    if addressee != to or not 0 <= sender < size or sender == to:
        raise MessageError(f"a message from agent {sender} to agent {addressee} came to agent {to} of {size}")
    try:
        return Message(run, sender, to, round_, _parts_of(body, count))
    except (struct.error, ValueError, KeyError) as error:
        raise MessageError(f"a message from agent {sender} cannot be read ({error})") from None


def _checksum(body: bytes | memoryview, key: bytes) -> bytes:
    return (hmac.digest(key, body, "sha256") if key else sha256(body).digest())[:CHECK]


def _parts_of(body: memoryview, count: int) -> dict[str, Array]:
    parts, at = {}, HEAD.size
    for _ in range(count):
        name, kind, ndim, length = PART.unpack_from(body, at)
        at += PART.size
        shape = struct.unpack_from(f"<{ndim}q", body, at)
        at += 8 * ndim
        part = np.frombuffer(body, TYPES[kind], length // TYPES[kind].itemsize, at).reshape(shape)
        parts[name.rstrip(b"\0").decode()] = part
        at += length
    return parts
