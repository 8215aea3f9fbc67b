//! Documents that tests generate.

use std::path::Path;

/// Checks that a committed document matches the tests; with `WARPLOOM_BLESS` set, writes it.
///
/// # Errors
/// The first line that differs, or the reason why it cannot be written.
pub(crate) fn agree(name: &str, want: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../docs")
        .join(name);
    if std::env::var_os("WARPLOOM_BLESS").is_some() {
        return std::fs::write(&path, want).map_err(|error| format!("{}: {error}", path.display()));
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    if have == want {
        return Ok(());
    }
    let differs = have.lines().zip(want.lines()).find(|(a, b)| a != b);
    let (old, new) = differs.unwrap_or(("", "the length"));
    Err(format!(
        "docs/{name} is not what the tests say; with WARPLOOM_BLESS=1 they write it\n- {old}\n+ {new}"
    ))
}
