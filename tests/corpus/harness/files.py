"""Everything a source module makes: PTX and cases, until they are written."""

PTX = {}
CASES = {}


def add_ptx(name, text):
    """Keeps the PTX of `name`; returns its file's name."""
    file = name + ".ptx"
    # Trailing NULs and blanks are no part of the text.
    text = "\n".join(line.rstrip() for line in text.rstrip("\0\n ").splitlines()) + "\n"
    if PTX.setdefault(file, text) != text:
        raise ValueError(f"two different modules are named {file}")
    return file


def add_case(case):
    """Keeps a case."""
    if case.name in CASES:
        raise ValueError(f"two cases are named {case.name}")
    CASES[case.name] = case


def write(out):
    """Writes it all into a folder."""
    for name, text in PTX.items():
        (out / name).write_text(text)
    for name, case in CASES.items():
        manifest, blob = case.write()
        (out / (name + ".json")).write_text(manifest)
        (out / (name + ".bin")).write_bytes(blob)
