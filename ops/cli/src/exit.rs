//! Exit codes: 0 success (or its reader stopped reading), 1 failure, 2 usage, 3 unreachable. A
//! missing file, tenant or setting that the command line names is a usage error. `run` ends with
//! its program's own code; if that cannot be started, with the code that shells use.

use std::error::Error as StdError;
use std::io;

use actors::leader::LeaderError;
use actors::worker::WorkerError;
use admin::errors::{Class, ErrorCode, class};
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

/// The program of `run` cannot be started.
#[derive(Debug, Error)]
#[error("{code}: {program} cannot be started", code = ErrorCode::RunProgram.name())]
pub struct Unstarted {
    /// The program as named on the command line.
    pub program: String,
    /// Reason.
    #[source]
    pub error: io::Error,
}

/// True if a role reports that no broker answers; its errors show the bus's as their own.
fn is_role_without_broker(error: &(dyn StdError + 'static)) -> bool {
    let leader = matches!(
        error.downcast_ref(),
        Some(LeaderError::Bus(BusError::Unreachable { .. }))
    );
    leader
        || matches!(
            error.downcast_ref(),
            Some(WorkerError::Bus(BusError::Unreachable { .. }))
        )
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
    if error.chain().any(is_role_without_broker) {
        return UNREACHABLE;
    }
    let refused = error
        .chain()
        .find_map(|it| it.downcast_ref::<client_agent::Error>());
    // The command line named them.
    let named = error.chain().any(|it| {
        use broker::BrokerError::{Servers, UnknownTenant};
        matches!(
            it.downcast_ref(),
            Some(UnknownTenant { .. } | Servers { .. })
        )
    });
    match (class(error), refused.map(client_agent::Error::code)) {
        (Class::Unreachable, _) | (_, Some(Code::NoLeader)) => UNREACHABLE,
        (Class::Usage, _) | (_, Some(Code::UnknownTenant)) => USAGE,
        (Class::Failed, _) if named => USAGE,
        (Class::Failed, _) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use admin::errors::{Unreachable, UsageError};

    use super::*;

    #[test]
    fn each_class_of_errors_has_an_exit_code() {
        for (error, expected) in [
            (Unreachable("no".into()).into(), UNREACHABLE),
            (UsageError("no".into()).into(), USAGE),
            (anyhow::anyhow!("no"), FAILED),
        ] {
            assert_eq!(code(&error), expected, "{error}");
        }
        let unknown = broker::BrokerError::UnknownTenant { tenant: "a".into() };
        assert_eq!(code(&anyhow::Error::new(unknown).context("a login")), USAGE);
        let silent = || BusError::Unreachable {
            url: "nats://h".into(),
            detail: "no".into(),
        };
        let leader = anyhow::Error::new(LeaderError::Bus(silent()));
        assert_eq!(code(&leader.context("a role")), UNREACHABLE);
        let worker = anyhow::Error::new(WorkerError::Bus(silent()));
        assert_eq!(code(&worker), UNREACHABLE);
    }

    #[test]
    fn an_unstarted_program_has_the_codes_of_shells() {
        for (kind, expected) in [
            (io::ErrorKind::NotFound, NOT_FOUND),
            (io::ErrorKind::PermissionDenied, NOT_EXECUTABLE),
        ] {
            let program = "p".to_owned();
            let error = kind.into();
            let error = anyhow::Error::new(Unstarted { program, error });
            assert_eq!(code(&error), expected);
            assert_eq!(error.to_string(), "E-RUN-PROGRAM: p cannot be started");
        }
    }
}
