//! The kernels of the PTX file that a command line names.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::candidate::Candidate;

/// Maximum number of bytes read from a file.
const BYTES: u64 = 16 << 20;

/// The kernels of the last PTX file on the command line.
pub(super) fn kernels(words: &[OsString]) -> Result<Vec<Candidate>> {
    let is_ptx = |word: &&OsString| Path::new(word).extension().is_some_and(|it| it == "ptx");
    let file = words.iter().rev().find(is_ptx).context("no file")?;
    let mut bytes = Vec::new();
    File::open(file)?.take(BYTES).read_to_end(&mut bytes)?;
    let names = named(&String::from_utf8_lossy(&bytes));
    Ok(names.into_iter().map(|it| Candidate::new(it, "")).collect())
}

/// The names that follow `.entry`.
fn named(ptx: &str) -> Vec<String> {
    let behind = ptx.lines().filter_map(|line| {
        let (before, behind) = line.split_once(".entry")?;
        let is_code = !before.contains("//") && behind.starts_with([' ', '\t']);
        is_code.then(|| behind.trim_start())
    });
    let ends = |letter: char| !(letter.is_ascii_alphanumeric() || "_$%".contains(letter));
    let names = behind.map(|text| text.split(ends).next().unwrap_or_default().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_what_stands_behind_entry() {
        let ptx = ".version 7.0\n.visible .entry add(\n  .param .u64 a)\n.entry _Z3mulPf (.param .u64 b)\n\
                   // .entry not\n.func helper()\n  .entryway x\n.visible .entry\t last\n.entry \n";
        assert_eq!(named(ptx), ["add", "_Z3mulPf", "last"]);
        let words = ["warploom", "submit", "nowhere.ptx", ""].map(OsString::from);
        assert!(kernels(&words).is_err());
        assert!(kernels(&words[..2]).is_err());
    }
}
