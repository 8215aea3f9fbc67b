//! Exit codes: 0 success (or its reader stopped reading), 1 failure, 2 usage, 3 unreachable. A
//! missing file, tenant or setting that the command line names is a usage error. `run` ends with
//! its program's own code; if that cannot be started, with the code that shells use.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;

use actors::leader::LeaderError;
use actors::worker::WorkerError;
use bus::BusError;
use bus_schemas::Code;
use thiserror::Error;

/// Exit code of a command that failed.
pub const FAILED: u8 = 1;
/// Exit code of a command that was called wrongly.
pub const USAGE: u8 = 2;
/// Exit code of a command that found no cluster.
pub const UNREACHABLE: u8 = 3;
/// Exit code of `run` if the program exists and cannot be run.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code of `run` if there is no such program.
pub const NOT_FOUND: u8 = 127;

/// No cluster answers; the text gives advice.
#[derive(Debug, Error)]
#[error("{}", coded("E-CLUSTER-UNREACHABLE", .0))]
pub struct Unreachable(pub String);

/// The command was called wrongly.
#[derive(Debug, Error)]
#[error("{}", coded("E-USAGE", .0))]
pub struct UsageError(pub String);

/// A setting is wrong, or something that the command line names does not exist. The text begins
/// with its own code.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Misset(pub String);

/// The program of `run` cannot be started.
#[derive(Debug, Error)]
#[error("E-RUN-PROGRAM: {program} cannot be started")]
pub struct Unstarted {
    /// The program as named on the command line.
    pub program: String,
    /// Reason.
    #[source]
    pub error: io::Error,
}

/// The output of the command has no reader any more. The command ends, but has not failed.
#[derive(Debug, Error)]
#[error("the output has no reader any more")]
pub struct Unread;

/// Puts a code before a text, unless the text has its own.
fn coded(code: &str, text: &str) -> String {
    let letters = |it: u8| it == b'-' || it.is_ascii_uppercase() || it.is_ascii_digit();
    let own = text.split_once(": ").map_or("", |(first, _)| first);
    match own.starts_with("E-") && own.bytes().all(letters) {
        true => text.to_owned(),
        false => format!("{code}: {text}"),
    }
}

/// Adds context to the error of a file that the command line names. A missing file is a usage
/// error.
///
/// # Errors
/// The error, with `what` before it.
pub fn named<T>(done: io::Result<T>, what: impl Display) -> anyhow::Result<T> {
    done.map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let error = anyhow::Error::new(error);
        match missing {
            true => error.context(Misset(what.to_string())),
            false => error.context(what.to_string()),
        }
    })
}

/// True if a role or a client reports that no broker answers.
fn is_no_broker(error: &(dyn StdError + 'static)) -> bool {
    let leader = match error.downcast_ref() {
        Some(LeaderError::Bus(bus)) => Some(bus),
        _ => None,
    };
    let worker = match error.downcast_ref() {
        Some(WorkerError::Bus(bus)) => Some(bus),
        _ => None,
    };
    let bus = leader.or(worker).or(error.downcast_ref());
    matches!(bus, Some(BusError::Unreachable { .. }))
}

/// The exit code of an error.
#[must_use]
pub fn code(error: &anyhow::Error) -> u8 {
    if let Some(unstarted) = error.downcast_ref::<Unstarted>() {
        return match unstarted.error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
    }
    // A downcast sees contexts, the chain sees causes.
    let refused = error
        .chain()
        .find_map(|it| it.downcast_ref::<client_agent::Error>());
    let refused = refused.map(client_agent::Error::code);
    let unreachable = error.is::<Unreachable>()
        || error.chain().any(|it| it.is::<Unreachable>())
        || error.chain().any(is_no_broker)
        || refused == Some(Code::NoLeader);
    let no_tenant = error
        .chain()
        .any(|it| matches!(it.downcast_ref(), Some(broker::Error::UnknownTenant { .. })));
    let usage = error.is::<UsageError>() || error.chain().any(|it| it.is::<UsageError>());
    let misset = error.is::<Misset>() || error.chain().any(|it| it.is::<Misset>());
    let unknown = no_tenant || refused == Some(Code::UnknownTenant);
    match (unreachable, usage || misset || unknown) {
        (true, _) => UNREACHABLE,
        (false, true) => USAGE,
        (false, false) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_text_has_one_code() {
        let text = |it: &str| UsageError(it.into()).to_string();
        assert_eq!(
            text("E-BROKER-SERVERS: 2 brokers"),
            "E-BROKER-SERVERS: 2 brokers"
        );
        assert_eq!(text("--x: none"), "E-USAGE: --x: none");
        assert_eq!(text("E-mail: none"), "E-USAGE: E-mail: none");
    }

    #[test]
    fn what_is_named_and_is_not_there_is_usage() {
        let open = |kind: io::ErrorKind| named::<()>(Err(kind.into()), "E-RECORD-FILE: x");
        assert_eq!(code(&open(io::ErrorKind::NotFound).unwrap_err()), USAGE);
        assert_eq!(
            code(&open(io::ErrorKind::PermissionDenied).unwrap_err()),
            FAILED
        );
        let unknown = broker::Error::UnknownTenant { tenant: "a".into() };
        assert_eq!(code(&anyhow::Error::new(unknown).context("a login")), USAGE);
        let silent = BusError::Unreachable {
            url: "nats://h".into(),
            detail: "no".into(),
        };
        let silent = Err::<(), _>(silent).context("a role").unwrap_err();
        assert_eq!(code(&silent), UNREACHABLE);
        for (kind, expected) in [
            (io::ErrorKind::NotFound, NOT_FOUND),
            (io::ErrorKind::PermissionDenied, NOT_EXECUTABLE),
        ] {
            let program = "p".to_owned();
            let error = kind.into();
            assert_eq!(code(&Unstarted { program, error }.into()), expected);
        }
    }
}
