//! The process of a session, as reported to its worker for operators.

use std::sync::OnceLock;

use bus_schemas::{ClientProcess, ShortText};

/// The names of host and program, which are read once.
static NAMES: OnceLock<[ShortText; 2]> = OnceLock::new();

/// This process: the machine's name, its id there, and the file name of its program. Fields that
/// the host does not provide are empty.
pub(crate) fn this_process() -> ClientProcess {
    let [host, name] = *NAMES.get_or_init(names);
    ClientProcess {
        host,
        pid: std::process::id(),
        name,
    }
}

fn names() -> [ShortText; 2] {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    [ShortText::new(host.trim()), ShortText::new(&name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_the_test_itself() {
        let process = this_process();
        assert_eq!(process.pid, std::process::id());
        assert!(process.name.as_str().starts_with("client_session"));
        assert!(!process.host.as_str().is_empty());
    }
}
