//! Makes the tables of the driver API's symbols from `symbols.txt` and from what `src/api` defines:
//! a symbol without a definition there is exported too, and answers that it is not supported.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=symbols.txt");
    println!("cargo::rerun-if-changed=src/api");
    // Never unmapped: our threads run in it. Its name is the driver's, its file's is not.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let list = fs::read_to_string(root.join("symbols.txt")).expect("symbols.txt is readable");
    let defined = defined(&root.join("src/api"));
    let (mut table, mut stubs) = (String::new(), String::new());
    table.push_str("pub(crate) static SYMBOLS: &[Symbol] = &[\n");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(symbol), Some(base), Some(version), Some(stream)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            panic!("symbols.txt: `{line}` is no row");
        };
        let done = defined.contains(symbol);
        let thread = stream == "thread";
        writeln!(
            table,
            "    Symbol {{ #[cfg(test)] name: \"{symbol}\", base: \"{base}\", version: {version}, \
             per_thread: {thread}, #[cfg(test)] implemented: {done}, address: Address({symbol} as *const ()) }},"
        )
        .expect("a string grows");
        if !done {
            writeln!(stubs, "unsupported!({symbol});").expect("a string grows");
        }
    }
    table.push_str("];\n");
    fs::write(out.join("table.rs"), table).expect("OUT_DIR is writable");
    fs::write(out.join("stubs.rs"), stubs).expect("OUT_DIR is writable");
}

/// The symbols that the files of a folder define.
fn defined(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("src/api is there").flatten() {
        let text = fs::read_to_string(entry.path()).expect("a source is readable");
        for definition in text.split("fn cu").skip(1) {
            let Some((name, rest)) = definition.split_once('(') else {
                continue;
            };
            names.insert(format!("cu{name}"));
            // `fn cuName(arguments) also cuOther, cuThird {`
            let head = rest.split('{').next().unwrap_or_default();
            let also = head.split_once(" also ").map_or("", |(_, also)| also);
            names.extend(also.split(',').map(|name| name.trim().to_owned()));
        }
    }
    names
}
