//! Environment variables for a program.

use std::ffi::OsString;
use std::path::PathBuf;

/// A variable for a program, with its purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OsString,
    /// Its purpose.
    pub why: &'static str,
}

/// Makes a variable.
pub(super) fn set(
    name: &'static str,
    value: impl Into<OsString>,
    why: &'static str,
) -> EnvVariable {
    let value = value.into();
    EnvVariable { name, value, why }
}

/// Joins texts with a separator; empty texts are left out.
pub(super) fn joined(texts: impl IntoIterator<Item = OsString>, between: &str) -> OsString {
    let mut all = OsString::new();
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        if !all.is_empty() {
            all.push(between);
        }
        all.push(text);
    }
    all
}

/// Puts entries before those that a list already has.
pub(super) fn ahead(
    name: &'static str,
    entries: Vec<PathBuf>,
    present: &impl Fn(&str) -> Option<OsString>,
    why: &'static str,
) -> EnvVariable {
    let entries = entries.into_iter().map(PathBuf::into_os_string);
    set(name, joined(entries.chain(present(name)), ":"), why)
}
