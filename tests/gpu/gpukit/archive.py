"""The kit's file: packed on a host with a compiler, unpacked on one with a GPU."""

import hashlib
import io
import json
import lzma
import tarfile

#: A larger kit does not travel.
LARGEST = 25 * 2**20


def pack(files, path, preset=6):
    """Packs files, given as name in the kit and path, with a list of their hashes; the kit's hash."""
    contents = {}
    partial = path.with_suffix(".partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(partial, "wb", preset=preset) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, source in sorted(files.items()):
            data = source.read_bytes()
            contents[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            _add(tar, name, data, source.stat().st_mode & 0o755)
        _add(tar, "CONTENTS.json", json.dumps(contents, indent=1).encode(), 0o644)
    partial.rename(path)
    return hashlib.sha256(path.read_bytes()).hexdigest(), contents


def _add(tar, name, data, mode):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))


def unpack(path, folder):
    """Unpacks a kit and compares every file with its hash; the folder and the kit's hash."""
    folder.mkdir(parents=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with lzma.open(path) as packed, tarfile.open(fileobj=packed) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
    contents = json.loads((folder / "CONTENTS.json").read_text())
    for name, it in contents.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != it["sha256"]:
            raise ValueError(f"{path}: {name} is not what was packed")
    return folder, digest
