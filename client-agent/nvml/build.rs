//! Generates NVML's exports from the table `symbols.txt`. A symbol that works is a function of
//! `src/api`; the compiler reports it as an error if it is missing there. A refused symbol is
//! exported too, and returns that it is not supported.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=symbols.txt");
    let list = fs::read_to_string(root.join("symbols.txt")).expect("symbols.txt is readable");
    let (mut table, mut stubs) = (String::new(), String::new());
    table.push_str("pub(crate) static SYMBOLS: &[ExportedSymbol] = &[\n");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (symbol, state) = line
            .split_once(' ')
            .expect("symbols.txt: a name and a state");
        let works = match state {
            "works" => true,
            "refused" => false,
            _ => panic!("symbols.txt: `{state}` of `{symbol}` is no state"),
        };
        writeln!(
            table,
            "    ExportedSymbol {{ name: \"{symbol}\", works: {works}, address: Address({symbol} as *const ()) }},"
        )
        .expect("a string grows");
        if !works {
            writeln!(stubs, "unsupported!({symbol});").expect("a string grows");
        }
    }
    table.push_str("];\n");
    fs::write(out.join("table.rs"), table).expect("OUT_DIR is writable");
    fs::write(out.join("stubs.rs"), stubs).expect("OUT_DIR is writable");
}
