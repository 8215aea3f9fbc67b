//! The binary of a nats-server, and its version.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The oldest supported server: it has atomic batches, message TTLs, markers.
pub const MINIMUM_VERSION: Version = Version {
    major: 2,
    minor: 12,
    patch: 0,
};

/// A server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; a pre-release suffix is ignored.
    pub patch: u32,
}

impl Version {
    /// Parses the output of `nats-server --version`, such as `nats-server: v2.15.1`.
    fn parse(output: &str) -> Option<Version> {
        let text = output.trim().strip_prefix("nats-server: v")?;
        let mut numbers = text
            .split(['.', '-', '+', ' '])
            .map(|part| part.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Version {
            major: next()?,
            minor: next()?,
            patch: next()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A server binary that runs and is new enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsServer {
    /// The binary.
    pub path: PathBuf,
    /// Its version, at least [`MINIMUM_VERSION`].
    pub version: Version,
}

/// Asks the binary for its version; the error describes the unexpected result.
pub(crate) fn version_of(path: &Path) -> std::result::Result<Version, String> {
    let run = || {
        Command::new(path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
    };
    let mut output = run();
    // The file may still be open for writing: a process forked meanwhile holds the descriptor for a
    // moment.
    for _ in 0..20 {
        match &output {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(5));
                output = run();
            }
            _ => break,
        }
    }
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Version::parse(&text).ok_or_else(|| {
        let first = text.lines().next().unwrap_or_default();
        format!("--version printed {first:?} ({})", output.status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let parse = |text| Version::parse(text);
        let version = |major, minor, patch| {
            Some(Version {
                major,
                minor,
                patch,
            })
        };
        assert_eq!(parse("nats-server: v2.15.1\n"), version(2, 15, 1));
        assert_eq!(parse("nats-server: v2.12.0-RC.1"), version(2, 12, 0));
        assert_eq!(parse("nats-server: v2.9"), None);
        assert_eq!(parse("Python 3.11.7"), None);
        assert!(version(2, 9, 10) < Some(MINIMUM_VERSION));
        assert!(version(3, 0, 0) > Some(MINIMUM_VERSION));
        assert_eq!(MINIMUM_VERSION.to_string(), "2.12.0");
    }
}
