#!/usr/bin/env python3
"""A Warploom client in another language: y = 2 x + y on a GPU somewhere, as docs/reference/wire.md says.

  pip install --target target/tools/python -r tests/peers/python/requirements.txt
  PYTHONPATH=target/tools/python tests/peers/python/submit.py URL CLUSTER TENANT USER PASSWORD
"""

import asyncio
import pathlib
import secrets
import struct
import sys

import blake3
import msgpack
import nats

IMAGE = (pathlib.Path(__file__).parents[2] / "kernels" / "saxpy.ptx").read_bytes()
MODULE = blake3.blake3(IMAGE).digest()
SHAPE = (8, 1, 1, 128, 1, 1, 0)  # grid, block, dynamic shared bytes


def kernel_key(name):
    key = int.from_bytes(blake3.blake3(MODULE + name).digest()[:8], "little")
    for low, high in zip(SHAPE[::2], (*SHAPE[1::2], 0)):
        z = (key ^ (low | high << 32)) + 0x9E3779B97F4A7C15 & 2**64 - 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
        key = z ^ z >> 31
    return key


async def main(url, cluster, tenant, user, password):
    root = f"wl.v1.{cluster}.t.{tenant}"
    bus = await nats.connect(url, user=user, password=password, inbox_prefix=f"{root}.dn.inbox")
    heard = await bus.subscribe(f"{root}.dn.*.*")

    async def say(messages, reply, kind, wanted):
        """Says the messages, again after 50 ms of silence, until the kind of answer wanted comes."""
        for _ in range(600):
            for subject, message in messages.items():
                data = msgpack.packb(message)
                await bus.publish(f"{root}.up.{subject}", data, reply=f"{root}.dn.{reply}")
            try:
                while answer := await heard.next_msg(timeout=0.05):
                    # Nothing in it: the broker says that nobody listens yet.
                    body = msgpack.unpackb(answer.data) if answer.data else {}
                    failure = body.get("failure") if isinstance(body, dict) else None
                    if failure and not failure["retryable"]:
                        sys.exit(f"failed: {failure['detail']}")
                    if body and answer.subject.endswith(kind) and (found := wanted(body)):
                        return found
            except asyncio.TimeoutError:
                pass
        sys.exit("no answer")

    request = {"v": 1, "nonce": secrets.randbits(64), "connection": "client-python"}
    opened = await say({"l.open": request}, "inbox.open", ".open", lambda body: body["opened"])
    session, x = f"{opened['session']:016x}", opened["window"]["base"]
    worker, reply = f"w.{opened['incarnation']:016x}.{session}", f"{session}.leader"

    image = {f"{worker}.data": [1, 1, len(IMAGE), 0, MODULE, IMAGE]}
    whole = struct.pack("<2Q", 1, len(IMAGE))
    await say(image, reply, ".worker", lambda body: body["staged"] == whole)

    n, a, y = 1000, 2.0, x + 4096
    xs, ys = [i / 8 for i in range(n)], [float(-i) for i in range(n)]
    launch, params = struct.pack("<9I", 0, 0, *SHAPE), struct.pack("<IfQQ", n, a, x, y)
    ops = [  # kind, fields, payload, and what the leader is told: kernel key, bytes, ops, class
        (1, struct.pack("<2Q", x, 4096), b"", (0, 0, 1, 2)),
        (1, struct.pack("<2Q", y, 4096), b"", (0, 0, 1, 2)),
        (3, struct.pack("<3Q", x, 4 * n, 0), struct.pack(f"<{n}f", *xs), (0, 4 * n, 1, 1)),
        (3, struct.pack("<3Q", y, 4 * n, 0), struct.pack(f"<{n}f", *ys), (0, 4 * n, 1, 1)),
        (7, struct.pack("<I", 0) + MODULE, b"", (0, 0, 1, 2)),
        (9, launch, params, (kernel_key(b"saxpy"), 0, 1, 0)),
        (4, struct.pack("<2Q", y, 4 * n), b"", (0, 4 * n, 1, 3)),
    ]
    rows = [struct.pack("<B3xI40s", kind, len(load), fields) for kind, fields, load, _ in ops]
    payloads, costs = [op[2] for op in ops], [struct.pack("<2QIB3x", *op[3]) for op in ops]
    work = {
        f"{worker}.batch": [1, 1, len(ops), 0, b"".join(rows), b"".join(payloads)],
        f"l.intent.{session}": [1, 1, len(ops), b"".join(costs)],
        f"{worker}.state": [1, len(ops), 0],
    }
    result = await say(work, reply, ".result", lambda body: body[7])
    expected = tuple(a * xi + yi for xi, yi in zip(xs, ys))
    assert struct.unpack(f"<{n}f", result) == expected, "the result differs"

    close = {"v": 1, "session": opened["session"], "after": len(ops), "reason": "Asked"}
    await say({"l.close": close}, reply, ".leader", lambda body: body["ended"])
    await bus.close()
    print(f"{n} elements of {a} x + y from gpu {opened['gpu']}: all as computed here")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:])) if len(sys.argv) == 6 else sys.exit(__doc__)
