"""Asks msgspec, vLLM's reader, about damaged messages; writes damaged_messages.json.

Usage: python damaged_messages.py   (needs msgspec; run in this folder)

Each answer is [kind, hex, canonical]: canonical is msgspec's own encoding of what it read, or null
where it refused. Messages that differ by our stated limits (an integer that must fit an int, a
negative address) are left out.
"""

import enum
import json
import random

import msgspec


class Status(enum.IntEnum):
    FINISH = 0
    CONTINUE = 1
    ERROR = 2
    LAYOUT_MISS = 3


class Pull(msgspec.Struct, omit_defaults=True):
    remote_hostname: str
    remote_port: int
    remote_tp_size: int
    remote_tp_rank: int
    req_blocks: dict[str, tuple[str, list[list[int]]]]
    kv_caches_base_addr: list[int]
    block_lens: list[int]
    kv_block_lens: list[int]
    registered_layer_names: list[str] = []
    registered_layer_indices: list[int] = []
    registered_group_indices: list[int] = []
    registered_shared_group_ids: list[list[int]] = []
    registered_row_offsets: list[int] = []
    remote_pp_size: int = 1
    layout_id: int = 0


class Response(msgspec.Struct, omit_defaults=True):
    status: Status
    ok_reqs: list[str] | None = None
    err_reqs: list[str] | None = None
    err_msg: str | None = None
    layout_id: int = 0


TYPES = {"pull": Pull, "response": Response}


def fits(kind, m):
    def ints(values):
        return all(-(2**31) <= v < 2**31 for v in values)

    if m.layout_id < 0:
        return False
    if kind == "response":
        return True
    return (
        ints([m.remote_port, m.remote_tp_size, m.remote_tp_rank, m.remote_pp_size])
        and ints(m.registered_layer_indices)
        and ints(m.registered_group_indices)
        and all(ints(g) for g in m.registered_shared_group_ids)
        and all(ints(g) for _, groups in m.req_blocks.values() for g in groups)
        and all(v >= 0 for v in m.kv_caches_base_addr + m.block_lens + m.kv_block_lens)
        and all(v < 2**63 for v in m.registered_row_offsets)
    )


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data))
        what = rng.randrange(6)
        if what == 0:
            data[at] = rng.randrange(256)
        elif what == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            del data[at]
        elif what == 3:
            data.insert(at, rng.choice((0xC0, 0xC1, 0xC3, 0xCA, 0xCF, 0xD3, 0x80, 0x90, 0xA0, 0)))
        elif what == 4:
            data[at] = rng.choice((0xC0, 0xC2, 0xC4, 0xCB, 0xCC, 0xD0, 0xD4, 0xD9, 0xDC, 0xDE, 0xFF))
        else:
            other = rng.randrange(len(data))
            data[at : at + 4] = data[other : other + 4]
        if not data:
            data.append(0)
    return bytes(data)


def main():
    rng = random.Random(20260)
    seeds = [c for c in json.load(open("../vllm-answers/side_channel_messages.json")) if len(c["hex"]) < 700]
    answers = []
    wanted = {True: 300, False: 400}
    seen = set()
    while any(wanted.values()):
        case = rng.choice(seeds)
        kind = case["type"]
        data = mutate(rng, bytes.fromhex(case["hex"]))
        if data in seen:
            continue
        seen.add(data)
        try:
            m = msgspec.msgpack.decode(data, type=TYPES[kind])
        except (msgspec.MsgspecError, RecursionError):
            canonical = None
        else:
            if not fits(kind, m):
                continue
            canonical = msgspec.msgpack.encode(m).hex()
        if wanted[canonical is not None] == 0:
            continue
        wanted[canonical is not None] -= 1
        answers.append([kind, data.hex(), canonical])
    with open("damaged_messages.json", "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(a) for a in answers) + "\n]\n")


if __name__ == "__main__":
    main()
