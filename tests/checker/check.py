#!/usr/bin/env python3
"""Decides from what clients and workers wrote whether a cluster kept its promises.

Reads submitted.jsonl, started.jsonl, failures.jsonl and the signed manifest of each directory
(docs/reference/evidence.md) and shares no code with Warploom. Prints a JSON object each; exit code 1 if one does
not hold: ops ran at most once, in program order, as a gapless prefix, all of them unless the program
was told; each worker's chain and the digest are what the record led to."""

import argparse
import collections
import json
import pathlib
import sys

import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FILES = ["submitted.jsonl", "started.jsonl", "order.jsonl", "kills.jsonl", "failures.jsonl", "faults.jsonl"]
KINDS = {"run": 0, "open": 1, "close": 2, "standing": 3, "revoke": 4, "return": 5}
OUTCOMES = {"ran", "failed", "void", "gone"}
SUBMITTED = {"session": str, "tenant": str, "ordinal": int, "first": int, "last": int}
STARTED = {"gpu": int, "incarnation": str, "position": int, **SUBMITTED, "kind": str, "granted": int,
           "outcome": str, "running": list}
FAILURE = {"session": str, "tenant": str, "ordinal": int, "code": str}

class Findings(collections.Counter):
    """What is wrong: `lost`, `duplicated`, `reordered`, `failed`, and in words."""
    def say(self, what):
        self.setdefault("disagreements", []).append(what)


def need(holds, why):
    if not holds:
        raise ValueError(why)


def rows(data, name, fields):
    """The lines of a file, each with exactly these fields of these types."""
    need(data == b"" or data.endswith(b"\n"), f"{name} ends within a line")
    found = [json.loads(line) for line in data.split(b"\n")[:-1]]
    for number, row in enumerate(found, 1):
        right = row.keys() == fields.keys() and all(type(row[key]) is fields[key] for key in fields)
        need(right, f"{name}, line {number} is not of the form {sorted(fields)}")
    return found


def signed(folder, key):
    """The manifest and the files' bytes, if the manifest is signed and they are what it says."""
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    need(manifest["version"] == 1 and key in (None, manifest["key"]), "another version, or another key's")
    public, signature = manifest["key"], (folder / "manifest.sig").read_text().strip()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text)
    need([entry["name"] for entry in manifest["files"]] == FILES, "the manifest names other files")
    contents = {}
    for entry in manifest["files"]:
        data = contents[entry["name"]] = (folder / entry["name"]).read_bytes()
        found = [data.count(b"\n"), len(data), blake3.blake3(data).hexdigest()]
        need(found == [entry[key] for key in ("lines", "bytes", "blake3")], f"{entry['name']} was changed")
    beside(folder, manifest)
    return manifest, contents


def beside(folder, manifest):
    """Every other file is named as well, but by a build before that."""
    if "beside" not in manifest:
        return
    own = {*FILES, "manifest.json", "manifest.sig"}
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if not path.is_dir()}
    named = {entry["name"]: entry for entry in manifest["beside"]}
    need(files.keys() - own == named.keys(), "the manifest names other files beside")
    for name, entry in named.items():
        need(not files[name].is_symlink(), f"{name} is a link")
        data = files[name].read_bytes()
        found = [data.count(b"\n"), len(data), blake3.blake3(data).hexdigest()]
        need(found == [entry[key] for key in ("lines", "bytes", "blake3")], f"{name} was changed")


def histories(submitted, findings):
    """Ops that each session's client sent; gapless from 1."""
    sent, owners = {}, {}
    for row in submitted:
        session, owner, through = row["session"], (row["tenant"], row["ordinal"]), sent.get(row["session"], 0)
        if owners.setdefault(session, owner) != owner:
            findings.say(f"session {session} is {owner} and {owners[session]}")
        if row["first"] != through + 1 or row["last"] < row["first"]:
            findings.say(f"session {session} was sent {row['first']}..{row['last']} after {through}")
        sent[session] = max(through, row["last"])
    return sent, owners


def chains(started, findings):
    """Each worker's chain, computed anew; one that died may lack positions that later lines say it was at."""
    workers, absent, through = {}, collections.defaultdict(set), collections.Counter()
    for row in started:
        worker, at = (row["gpu"], row["incarnation"]), row["position"]
        chain, last, through[worker] = workers.setdefault(worker, [bytes(32)]), through[worker], at
        absent[worker].update(range(last + 1, min(at, last + 65536)))
        if at <= last or not absent[worker] <= set(row["running"]) or at <= max(row["running"], default=0):
            findings["reordered"] += 1
            findings.say(f"worker {row['incarnation']} goes from position {last} to {at}")
        tenant = row["tenant"].encode()
        need(row["kind"] in KINDS and row["outcome"] in OUTCOMES and len(tenant) < 256, f"no position: {row}")
        entry = b"".join([chain[-1], row["position"].to_bytes(8, "little"), bytes([len(tenant)]), tenant,
                          row["ordinal"].to_bytes(8, "little"), bytes([KINDS[row["kind"]]]),
                          row["first"].to_bytes(8, "little"), row["granted"].to_bytes(8, "little")])
        if not absent[worker]:
            chain.append(blake3.blake3(entry).digest())
    return workers


def sessions(started, sent, owners, findings):
    """What ran of each session: at most once, in program order, a gapless prefix of what was sent."""
    ran, home, state = {}, {}, {}
    for row in started:
        session, kind, first, last = row["session"], row["kind"], row["first"], row["last"]
        owner, worker = (row["tenant"], row["ordinal"]), row["incarnation"]
        if (owners.setdefault(session, owner), home.setdefault(session, worker)) != (owner, worker):
            findings.say(f"session {session} is on {worker} as {owner}, else {home[session]}, {owners[session]}")
        before = state.get(session, "new")
        # Closed before anything came: as soon as it has begun, though the opening before it may not have ended.
        empty = kind == "standing" and last == first - 1 and row["outcome"] == "ran"
        idle = kind in ("revoke", "return") or row["outcome"] in ("void", "gone") or (empty and before in ("new", "open"))
        whole = row["granted"] == last if row["outcome"] != "failed" else row["granted"] >= last
        bare = kind in ("run", "standing") or (row["outcome"] != "void" and first == last == 0)
        if not whole or not bare or (idle and before == "new" and not (empty and row["running"])):
            findings.say(f"session {session}: {before}, {kind} {first}..{last} {row['outcome']}")
        if idle:
            continue
        if before != ("new" if kind == "open" else "open") and (kind, before) != ("close", "failed"):
            findings.say(f"session {session}: {kind} when it was {before}")
        if kind in ("open", "close"):
            state[session] = "failed" if before == "failed" else kind if kind == "open" else "closed"
            continue
        if row["outcome"] == "failed":
            state[session] = "failed"
        through = ran.get(session, 0)
        if last < first:
            findings.say(f"session {session} ran {first}..{last}")
        elif first <= through:
            findings["duplicated"] += min(through, last) - first + 1
        elif first > through + 1:
            findings["reordered"] += first - through - 1
        ran[session] = max(through, last)
        if ran[session] > sent.get(session, 0):
            findings.say(f"session {session} ran through {last}, was sent through {sent.get(session, 0)}")
    return ran, home, state


def ends(manifest, workers, findings):
    """Compares chains with those that the record leads to, and the digest; gives the broken workers."""
    broken, digest = set(), blake3.blake3()
    for end in sorted(manifest["workers"], key=lambda end: (end["gpu"], end["position"], end["chain"])):
        chain, position = workers.pop((end["gpu"], end["incarnation"]), [bytes(32)]), end["position"]
        tail = chain[position] if position < len(chain) else bytes.fromhex(end["chain"])
        if end["lost"] or end.get("dead"):
            broken.add(end["incarnation"])
        elif position != len(chain) - 1:
            findings.say(f"worker {end['incarnation']} wrote {len(chain) - 1} positions, the record has {position}")
        for at, theirs in ((position, end["chain"]), (end["from"], end["from_chain"])):
            if 0 < at < len(chain) and chain[at].hex() != theirs:
                findings.say(f"worker {end['incarnation']}: its chain at position {at} is not the record's")
        if position and (end.get("fate") or not end["lost"]):
            digest.update(end["gpu"].to_bytes(4, "little") + position.to_bytes(8, "little") + tail)
    for _, incarnation in workers:
        findings.say(f"the record knows nothing of worker {incarnation}")
    if digest.hexdigest() != manifest["digest"]:
        findings.say("the digest is not the record's")
    return broken


def check(folder, key):
    (manifest, data), findings = signed(folder, key), Findings()
    forms = zip(("submitted.jsonl", "started.jsonl", "failures.jsonl"), (SUBMITTED, STARTED, FAILURE))
    submitted, started, failures = (rows(data[name], name, form) for name, form in forms)
    sent, owners = histories(submitted, findings)
    workers = chains(started, findings)
    ran, home, state = sessions(started, sent, owners, findings)
    broken = ends(manifest, workers, findings)
    told = {row["session"]: row["code"] for row in failures}
    need(len(told) == len(failures), "a session failed twice")
    for session, code in told.items():
        if code != "killed" and state.get(session) != "failed" and home.get(session) not in broken | {None}:
            findings["failed"] += 1
            findings.say(f"session {session} failed with {code}, and nothing of it was broken")
    for session, through in sent.items():
        if session not in told and state.get(session) != "failed" and home.get(session) not in broken:
            findings["lost"] += max(0, through - ran.get(session, 0))
            if state.get(session) != "closed":
                findings.say(f"session {session} was closed by its program, and is {state.get(session)}")
    found = {key: findings[key] for key in ("lost", "duplicated", "reordered", "failed")}
    count = {"submitted": sum(sent.values()), "ran": sum(ran.values()), "positions": len(started)}
    said = findings.get("disagreements", [])[:20]
    return not (said or any(found.values())), {**count, **found, "disagreements": said}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", help="the public key that must have signed")
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    good = True
    for folder in given.folder:
        try:
            holds, found = check(folder, given.key)
        except (InvalidSignature, OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
            holds, found = False, {"disagreements": [f"{type(broken).__name__}: {broken}"]}
        print(json.dumps({"ok": holds, **found}), flush=True)
        good &= holds
    return not good


if __name__ == "__main__":
    sys.exit(main())
