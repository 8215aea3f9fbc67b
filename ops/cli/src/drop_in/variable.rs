//! Variables that a program is given.

use std::ffi::OsString;

/// A variable for a program, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OsString,
    /// What it is for.
    pub why: &'static str,
}

/// A variable.
pub(super) fn set(
    name: &'static str,
    value: impl Into<OsString>,
    why: &'static str,
) -> EnvVariable {
    let value = value.into();
    EnvVariable { name, value, why }
}

/// Texts with this between them; those that are empty are left out.
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
