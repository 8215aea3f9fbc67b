#!/usr/bin/env python3
"""No circle of imports between the files of a crate.

Nodes are the source files of a target (a library, a binary, an example, a test or a benchmark), without
what a library compiles for its own tests only. A file depends on another if it names something that is
defined there: by `use`, or by a path in its code. A re-export is looked through: whoever imports it
depends on the file that defines it, and the file that re-exports it depends on nothing by that alone.
Methods are found by the compiler without being named, so they tie no files.

Circles that stay for now are listed in .ci/circles.txt, a file of source and the reason in each line; a
line that is not needed any more is an error, so that the list can only shrink.

    .ci/circles.py          says what is wrong; exit status 1 if there is anything
    .ci/circles.py --list   the files in circles, one in each line
"""

import json
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALLOWED = ".ci/circles.txt"
ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(\w+)")
MODULE = re.compile(r"(?:#\[path\s*=\s*@(\d+)@\]\s*)?(?:pub(?:\([^)]*\))?\s+)?\bmod\s+(\w+)\s*([;{])")
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.$])((?:crate|self|super|[a-z_]\w*)(?:::[A-Za-z_]\w*)+)")
TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
TOKEN = re.compile(
    r"""//[^\n]*
      | b?r(?P<hash>\#*)".*?"(?P=hash)
      | b?"(?:\\.|[^"\\])*"
      | b?'(?:\\.[^']*|[^'\\])'
      | /\*.*?\*/""",
    re.S | re.X,
)


def code(text):
    """The text without comments and without what is in strings, and those strings; lines stay lines.

    >>> code('a // b\\n"c" \\'d\\' x')
    ('a \\n@0@ @1@ x', ['"c"', "'d'"])
    """
    strings = []

    def blank(token):
        lines = "\n" * token[0].count("\n")
        if token[0].startswith("/"):
            return lines
        strings.append(token[0])
        return f"@{len(strings) - 1}@{lines}"

    return TOKEN.sub(blank, text), strings


def closing(text, start):
    """Where the bracket that is opened at `start` is closed.

    >>> closing("a { b { c } } d", 2)
    12
    """
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "{([":
            depth += 1
        elif text[at] in "})]":
            depth -= 1
            if depth == 0:
                return at
    return len(text) - 1


def blanked(text, start, end):
    """The text with this part left out; lines stay lines."""
    return text[:start] + "\n" * text.count("\n", start, end) + text[end:]


def without_tests(text):
    """The text without the items that only tests have.

    >>> without_tests("a #[cfg(test)] mod tests { b } c #[cfg(test)] use d; e")
    'a  c  e'
    """
    while mark := TEST.search(text):
        at = mark.end()
        while at < len(text) and text[at] not in ";{":
            at = closing(text, at) + 1 if text[at] in "([" else at + 1
        end = closing(text, at) + 1 if at < len(text) and text[at] == "{" else at + 1
        text = blanked(text, mark.start(), end)
    return text


def flat(tree, before=()):
    """The paths of a use tree, each with the name that it gets.

    >>> flat("a::{b, c::{self, d as e}, f::*}")
    [(('a', 'b'), 'b'), (('a', 'c'), 'c'), (('a', 'c', 'd'), 'e'), (('a', 'f'), '*')]
    """
    tree = tree.strip()
    if "{" in tree and "}" in tree:
        head, rest = tree.split("{", 1)
        before += tuple(part.strip() for part in head.split("::") if part.strip())
        inner, parts, depth = rest[: rest.rindex("}")], [""], 0
        for sign in inner:
            depth += (sign == "{") - (sign == "}")
            if sign == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += sign
        return [path for part in parts if part.strip() for path in flat(part, before)]
    tree, _, name = (part.strip() for part in tree.partition(" as "))
    path = before + tuple(part.strip() for part in tree.split("::") if part.strip())
    if path and path[-1] in ("self", "*") and len(path) > 1:
        name = name or ("*" if path[-1] == "*" else path[-2])
        path = path[:-1]
    return [(path, name or path[-1])] if path else []


@dataclass
class Module:
    """A module: where it is written, what it declares and what it imports."""

    file: str
    parent: "Module | None"
    body: str = ""
    children: dict = field(default_factory=dict)
    # (path, name, line)
    imports: list = field(default_factory=list)
    exports: list = field(default_factory=list)

    def names(self, path):
        """The imports and exports that give this name."""
        return [entry for entry in self.imports + self.exports if entry[1] == path]

    def items(self):
        """The names of what is defined here."""
        return set(ITEM.findall(self.body))


class Crate:
    """The modules of one target."""

    def __init__(self, root, read):
        self.read = read
        self.modules = []
        self.root = self.module(root, None, pathlib.PurePosixPath(root).parent)

    def module(self, file, parent, folder):
        text, strings = code(self.read(file))
        return self.scan(Module(file, parent), without_tests(text), strings, folder)

    def scan(self, module, text, strings, folder):
        """Fills a module whose children are in `folder`."""
        self.modules.append(module)
        at = 0
        while declared := MODULE.search(text, at):
            own_path, name, sign = declared.groups()
            if sign == "{":
                end = closing(text, declared.end() - 1)
                inner = "\n" * text.count("\n", 0, declared.end()) + text[declared.end() : end]
                child = Module(module.file, module)
                module.children[name] = self.scan(child, inner, strings, folder / name)
                text, at = blanked(text, declared.start(), end + 1), declared.start()
                continue
            at = declared.end()
            if own_path:
                beside = pathlib.PurePosixPath(module.file).parent
                places = [(beside / strings[int(own_path)].strip('"'), beside)]
            else:
                places = [(folder / f"{name}.rs", folder / name), (folder / name / "mod.rs", folder / name)]
            for place, below in places:
                if self.read(str(place)) is not None:
                    module.children[name] = self.module(str(place), module, below)
                    break
        for use in list(USE.finditer(text)):
            line = text.count("\n", 0, use.start(2)) + 1
            kind = module.exports if use[1] else module.imports
            kind += [(path, name, line) for path, name in flat(use[2])]
            text = text[: use.start()] + re.sub(r"[^\n]", " ", use[0]) + text[use.end() :]
        module.body = text
        return module

    def resolve(self, module, path, seen=()):
        """The module that a path names, or that defines what it names; None if that is another crate's.
        The second value says whether it is the module itself."""
        here, rest = module, list(path)
        if rest[0] == "crate":
            here = self.root
            rest.pop(0)
        elif rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                if rest.pop(0) == "super":
                    here = here.parent or here
        elif rest[0] not in module.children and not module.names(rest[0]):
            return None, False
        while rest:
            name = rest.pop(0)
            if name in here.children:
                here = here.children[name]
                continue
            if (id(here), name) in seen:
                return here, False
            seen += ((id(here), name),)
            for target, _, _ in here.names(name):
                if target[0] in ("crate", "self", "super") or target[0] in here.children:
                    found, whole = self.resolve(here, target, seen)
                    if found and whole and rest:
                        return self.resolve(found, ["self"] + rest, seen)
                    return found, whole and not rest
                return None, False
            if name not in here.items():
                for target, _, _ in here.names("*"):
                    below, whole = self.resolve(here, target, seen)
                    if below and whole and (name in below.items() or below.names(name)):
                        return self.resolve(below, ["self", name] + rest, seen)
            return here, False
        return here, True

    def depends(self, module):
        """(file, line) of what a module names."""
        words = set(re.findall(r"\w+", module.body))
        # What is only re-exported is not depended on.
        used = module.imports + [entry for entry in module.exports if entry[1] in words]
        for path, name, line in used:
            target, whole = self.resolve(module, path)
            if not target:
                continue
            if name == "*" and whole:
                for word in words & (target.items() | {entry[1] for entry in target.imports + target.exports}):
                    found, _ = self.resolve(target, ["self", word])
                    if found:
                        yield found.file, line
            elif not whole:
                yield target.file, line
            # A module that is imported is used by paths that begin with its name.
        for path in PATH.finditer(module.body):
            first = path[1].split("::")
            imported = any(entry[1] == first[0] for entry in used)
            if first[0] not in ("crate", "self", "super") and first[0] not in module.children and not imported:
                continue
            target, whole = self.resolve(module, first)
            if target and not whole:
                yield target.file, module.body.count("\n", 0, path.start()) + 1

    def edges(self):
        """By file, the files that it depends on, each with the first line that says so."""
        edges = {module.file: {} for module in self.modules}
        for module in self.modules:
            for file, line in self.depends(module):
                if file != module.file:
                    before = edges[module.file].get(file, line)
                    edges[module.file][file] = min(before, line)
        return edges


def circles(edges):
    """The sets of files of which each is reached from each other one.

    >>> circles({"a": {"b": 1}, "b": {"c": 1}, "c": {"b": 2}, "d": {"a": 1}})
    [['b', 'c']]
    >>> files = {
    ...     "lib.rs": "mod a; mod b; pub use a::A; pub use b::B;",
    ...     "a.rs": "use crate::B; pub struct A(B);",
    ...     "b.rs": "pub struct B; #[cfg(test)] mod tests { use crate::A; }",
    ... }
    >>> circles(Crate("lib.rs", files.get).edges())
    []
    >>> files["b.rs"] += " use super::*; fn of(a: A) -> u32 { 1 }"
    >>> circles(Crate("lib.rs", files.get).edges())
    [['a.rs', 'b.rs']]
    >>> files["b.rs"] = "pub struct B; fn of() { crate::a::make(); }"
    >>> circles(Crate("lib.rs", files.get).edges())
    [['a.rs', 'b.rs']]
    """
    reached = {}
    for start in edges:
        found, waiting = set(), [start]
        while waiting:
            for file in edges.get(waiting.pop(), ()):
                if file not in found:
                    found.add(file)
                    waiting.append(file)
        reached[start] = found
    groups = {
        tuple(sorted(file for file in reached[start] if start in reached[file]))
        for start in edges
        if start in reached[start]
    }
    return sorted(list(group) for group in groups)


def targets():
    """The roots of the workspace's libraries, binaries, examples, tests and benchmarks, relative to it."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]
    packages = json.loads(subprocess.check_output(command, cwd=ROOT))["packages"]
    roots = {
        pathlib.Path(target["src_path"]).relative_to(ROOT).as_posix()
        for package in packages
        for target in package["targets"]
        if "custom-build" not in target["kind"]
    }
    return sorted(roots)


def read(file):
    """The text of a file of the workspace; None if there is none."""
    path = ROOT / file
    return path.read_text() if path.is_file() else None


def allowed(text):
    """The files of the list, each with its reason.

    >>> allowed("# comment\\na/b.rs: because\\n")
    {'a/b.rs': 'because'}
    """
    lines = (line.strip() for line in text.splitlines())
    entries = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {file.strip(): reason.strip() for file, _, reason in entries}


def main():
    listed = allowed(read(ALLOWED) or "")
    wrong = [f"{ALLOWED}: {file} has no reason" for file, reason in listed.items() if not reason]
    inside = set()
    for root in targets():
        edges = Crate(root, read).edges()
        for group in circles(edges):
            # Tests share files: what is known of another one is not said again.
            known = inside.issuperset(group)
            inside.update(group)
            if known or all(file in listed for file in group):
                continue
            wrong.append(f"{root}: these {len(group)} files import one another in a circle:")
            for file in group:
                ties = sorted((line, other) for other, line in edges[file].items() if other in group)
                wrong += [f"    {file}:{line}: {other}" for line, other in ties]
    if "--list" in sys.argv[1:]:
        print("\n".join(sorted(inside)))
        return 0
    wrong += [f"{ALLOWED}: {file} is in no circle any more" for file in sorted(listed.keys() - inside)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
