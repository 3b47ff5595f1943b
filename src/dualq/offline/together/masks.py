"""Masks that vanish in the sum: every two agents share one, which one adds and the other subtracts, modulo 2^64.

    x_i + sum_{j > i} m_ij - sum_{j < i} m_ij   is what agent i sends; over all agents it adds up to the sum of the x_i

Agent i draws a secret a_i and tells everybody g^a_i (Diffie and Hellman, 1976; group 14 of RFC 3526). From its own
secret and the other's word each of two agents finds g^(a_i a_j), which nobody else can; m_ij is SHAKE-256 of that and
of the name of what is masked, so no mask serves twice.

What this keeps from whom: a masked table looks like random words to everybody who does not know all but one of the
masks in it. Agents that follow the rules, and whoever listens on the wires, learn the sum and nothing else; all agents
but one, together, learn the table of the last (so two agents hide nothing from each other). Words are not signed:
whoever can *change* messages can put himself between two agents, unless the houses share a key (messages.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

Array = np.ndarray

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
GENERATOR = 2
BYTES = 256  # of a public word


@lru_cache(4096)  # agents that are started again, and simulations, need the same powers again and again
def public_word(secret: bytes) -> bytes:
    """What an agent tells everybody: g^secret."""
    return pow(GENERATOR, int.from_bytes(secret, "big"), PRIME).to_bytes(BYTES, "big")


@lru_cache(4096)
def shared_seed(secret: bytes, word: bytes) -> bytes:
    """What two agents share: the other's public word to the power of the own secret."""
    theirs = int.from_bytes(word, "big")
    if not 1 < theirs < PRIME - 1:  # such a word would make everything that is shared with it known
        raise ValueError("the public word of an agent is none")
    return hashlib.sha256(pow(theirs, int.from_bytes(secret, "big"), PRIME).to_bytes(BYTES, "big")).digest()


def mask(seed: bytes, name: str, words: int) -> Array:
    """(words,) of 64 bits, as good as random to whoever does not know the seed."""
    return np.frombuffer(hashlib.shake_256(seed + name.encode()).digest(8 * words), "<u8")


def masked(table: Array, agent: int, seeds: Mapping[int, bytes], name: str) -> Array:
    """The table with the masks of all pairs: added for those after the agent, subtracted for those before."""
    hidden = table.copy()
    for other, seed in seeds.items():
        hidden = hidden + mask(seed, name, table.size) if other > agent else hidden - mask(seed, name, table.size)
    return hidden
