"""Seeded ways to spoil a file: at random in its bytes, or knowingly in its JSON or safetensors."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "x", "\x00", "../../etc/passwd", "é" * 300, "0" * 5000,
    [], [[]], [None], {}, {"": 0}, [1] * 1000,
)  # fmt: skip


def spoil_bytes(random: random.Random, data: bytes) -> bytes:
    """One to four of: a bit flipped, bytes overwritten, removed, repeated, inserted, cut off."""
    spoiled = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(spoiled) + 1)
        size = min(random.choice([1, 1, 2, 4, 8, 64]), len(spoiled) - at)
        match random.randrange(6):
            case 0 if size:
                spoiled[at] ^= 1 << random.randrange(8)
            case 1:
                filler = random.choice([b"\x00", b"\xff", b"\x7f", b"\x80"])
                spoiled[at : at + size] = filler * size
            case 2:
                del spoiled[at : at + size]
            case 3:
                spoiled[at:at] = spoiled[at : at + size] * random.choice([1, 2, 100])
            case 4:
                spoiled[at:at] = random.randbytes(random.choice([1, 4, 64]))
            case 5 if random.random() < 0.3:
                del spoiled[at:]
    return bytes(spoiled)


def spoil_json(random: random.Random, document: Any) -> Any:
    """A copy with one to three places removed, doubled, or replaced by an odd or nearby value."""
    document = copy.deepcopy(document)
    for _ in range(random.randint(1, 3)):
        places = list(_places(document))
        if not places:
            return document
        holder, key = random.choice(places)
        match random.randrange(4):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 2 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
                holder[key] = random.choice([holder[key] + 1, -holder[key], holder[key] * 10**6])
            case _:
                holder[key] = random.choice(ODD_VALUES)
    return document


def spoil_safetensors(random: random.Random, data: bytes) -> bytes:
    """The header's JSON spoiled, its length kept right, and now and then the numbers behind it."""
    (size,) = struct.unpack_from("<Q", data)
    header, numbers = json.loads(data[8 : 8 + size]), data[8 + size :]
    if random.random() < 0.8:
        header = spoil_json(random, header)
    if random.random() < 0.4:
        numbers = spoil_bytes(random, numbers)
    text = to_json_bytes(header)
    return struct.pack("<Q", len(text)) + text + numbers


def to_json_bytes(document: Any) -> bytes:
    """JSON as a careless writer makes it: NaN, infinities and lone surrogates included."""
    return json.dumps(document).encode()


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON document."""
    places: list[tuple[Any, Any]] = []
    open_containers = [document]
    while open_containers:
        holder = open_containers.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            places.append((holder, key))
            if isinstance(holder[key], dict | list):
                open_containers.append(holder[key])
    return places
