"""Known answers of crates/seeds, computed from its documentation with the standard library alone.

    python3 crates/seeds/tests/vectors.py
"""

import hashlib
import struct

MASK = 0xFFFFFFFF


def key(seed, name, *indices):
    text = b"evenkeel-seeds/1" + bytes([len(name)]) + name.encode() + struct.pack("<Q", seed)
    return hashlib.sha256(text + b"".join(struct.pack("<Q", index) for index in indices)).digest()


def quarter(state, a, b, c, d):
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = (state[x] + state[y]) & MASK
        state[z] ^= state[x]
        state[z] = ((state[z] << turn) | (state[z] >> (32 - turn))) & MASK


def block(key, counter, rounds):
    """A block of ChaCha with a counter of 64 bits and nonce 0, as 16 words (Bernstein 2008)."""
    start = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key))
    start += [counter & MASK, counter >> 32, 0, 0]
    state = list(start)
    for _ in range(rounds // 2):
        for column in range(4):
            quarter(state, column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(state, column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
    return [(a + b) & MASK for a, b in zip(state, start)]


def word(key, position):
    """The 64-bit word at a position of the ChaCha12 stream."""
    words = block(key, position // 8, 12)
    low, high = words[2 * (position % 8)], words[2 * (position % 8) + 1]
    return high << 32 | low


# ChaCha20 with the zero key, whose first words RFC 8439 (A.1, test vector 1) has: the code above is that cipher.
assert struct.pack("<4I", *block(bytes(32), 0, 20)[:4]).hex() == "76b8e0ada0f13d90405d6ae55386bd28"

STREAMS = [
    (0, "training-sample", 0, 0, 0),
    (42, "training-sample", 12, 345, 7),
    (42, "evaluation-sample", 12, 345, 7),
    (7, "continuation", 100),
    (7, "requested-sample", 2),
    (2**63 - 1, "held-out"),
    (3, "prompt-order", 1),
    (3, "source-order", 2, 1),
    (3, "demonstration", 5, 6),
    (3, "initial-weights", 2),
    (3, "initial-adapters", 2),
    (3, "group-order", 5, 6),
    (2**64 - 1, "tokens"),
    (0, "unseeded-sample", 1),
    (0, "sandbox-entropy"),
    (8, "weights-proof", 3),
    (8, "sampler-audit", 9),
    (8, "bootstrap"),
    (8, "sign-flips"),
    (5, "word-problem", 3, 17),
    (5, "product", 17),
]
for seed, name, *indices in STREAMS:
    bytes_ = key(seed, name, *indices)
    derived = struct.unpack("<Q", bytes_[:8])[0] >> 1
    print(f"{name} {seed} {indices}: seed {derived:_}, words", *(f"{word(bytes_, at):#018x}" for at in (0, 1, 1000)))
