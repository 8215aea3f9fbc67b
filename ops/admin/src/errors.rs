//! Errors by what a caller can do about them. Each text begins with a stable code.

mod codes;

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;

use broker::BrokerError;
use bus::BusError;
use thiserror::Error;

pub use codes::ErrorCode;

/// An error with a code of its own, which its text begins with.
#[derive(Debug, Error)]
#[error("{}: {detail}", code.name())]
pub struct CommandError {
    code: ErrorCode,
    class: Class,
    detail: String,
}

impl CommandError {
    /// Adds to the detail.
    #[must_use]
    pub fn with(mut self, more: &str) -> Self {
        self.detail += more;
        self
    }
}

impl ErrorCode {
    /// The error of an operation that failed.
    pub fn failed(self, detail: impl Display) -> CommandError {
        self.of(Class::Failed, detail)
    }

    /// The error of a caller: a setting is wrong, or what the command line names does not exist.
    pub fn usage(self, detail: impl Display) -> CommandError {
        self.of(Class::Usage, detail)
    }

    fn of(self, class: Class, detail: impl Display) -> CommandError {
        CommandError {
            code: self,
            // These blame the caller, wherever they are given.
            class: match self {
                Self::Usage | Self::ConfigFile | Self::ConfigKey | Self::ConfigValue => {
                    Class::Usage
                }
                _ => class,
            },
            detail: detail.to_string(),
        }
    }
}

/// No cluster answers; the text gives advice.
#[derive(Debug, Error)]
#[error("{code}: {0}", code = ErrorCode::ClusterUnreachable.name())]
pub struct Unreachable(pub String);

/// The command was called wrongly.
#[derive(Debug, Error)]
#[error("{code}: {0}", code = ErrorCode::Usage.name())]
pub struct UsageError(pub String);

/// The output of the command has no reader any more. The command ends, but has not failed.
#[derive(Debug, Error)]
#[error("the output has no reader any more")]
pub struct Unread;

/// Adds a code and `what` to the error of a file that the command line names. A missing file is a
/// usage error.
///
/// # Errors
/// The error with this context.
pub fn named<T>(done: io::Result<T>, code: ErrorCode, what: impl Display) -> anyhow::Result<T> {
    done.map_err(|error| {
        let of = match error.kind() {
            io::ErrorKind::NotFound => Class::Usage,
            _ => Class::Failed,
        };
        anyhow::Error::new(error).context(code.of(of, what))
    })
}

/// The class of an error: what its caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The operation failed.
    Failed,
    /// The caller asked wrongly, or named something that does not exist.
    Usage,
    /// No cluster answers.
    Unreachable,
}

/// The class of an error. A downcast sees contexts, the chain sees causes.
#[must_use]
pub fn class(error: &anyhow::Error) -> Class {
    let caused = |is: fn(&(dyn StdError + 'static)) -> bool| error.chain().any(is);
    let silent = |it: &(dyn StdError + 'static)| {
        it.is::<Unreachable>() || matches!(it.downcast_ref(), Some(BusError::Unreachable { .. }))
    };
    let of_caller = |it: &(dyn StdError + 'static)| {
        let own = it.downcast_ref().map(|it: &CommandError| it.class);
        it.is::<UsageError>() || own == Some(Class::Usage)
    };
    let own = error.downcast_ref().map(|it: &CommandError| it.class);
    if error.is::<Unreachable>() || caused(silent) {
        Class::Unreachable
    } else if error.is::<UsageError>() || own == Some(Class::Usage) || caused(of_caller) {
        Class::Usage
    } else {
        Class::Failed
    }
}

/// The code of an error: that of its outermost [`CommandError`], else of what it is or was caused by.
#[must_use]
pub fn code(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<CommandError>() {
        Some(error.code.name())
    } else if error.is::<Unreachable>() {
        Some(ErrorCode::ClusterUnreachable.name())
    } else if error.is::<UsageError>() {
        Some(ErrorCode::Usage.name())
    } else {
        let broker = error.downcast_ref::<BrokerError>();
        broker.map(BrokerError::code)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn what_is_named_and_is_not_there_is_usage() {
        let open = |kind: io::ErrorKind| named::<()>(Err(kind.into()), ErrorCode::RecordFile, "x");
        let of = |kind| class(&open(kind).unwrap_err());
        assert_eq!(of(io::ErrorKind::NotFound), Class::Usage);
        assert_eq!(of(io::ErrorKind::PermissionDenied), Class::Failed);
        let silent = BusError::Unreachable {
            url: "nats://h".into(),
            detail: "no".into(),
        };
        let silent = Err::<(), _>(silent).context("a role").unwrap_err();
        assert_eq!(class(&silent), Class::Unreachable);
    }

    #[test]
    fn a_code_of_usage_has_the_class_of_usage_wherever_it_is_given() {
        for code in ErrorCode::ALL {
            let of_usage = *code == ErrorCode::Usage || code.name().contains("-CONFIG-");
            let failed = class(&code.failed("x").into());
            assert_eq!(failed == Class::Usage, of_usage, "{}", code.name());
            let usage = class(&code.usage("x").into());
            assert_eq!(usage, Class::Usage, "{}", code.name());
        }
    }

    #[test]
    fn an_error_shows_and_has_one_code() {
        let wrong = ErrorCode::ConfigValue.usage("a.b = 1");
        assert_eq!(wrong.to_string(), "E-CONFIG-VALUE: a.b = 1");
        let wrong = anyhow::Error::new(wrong);
        assert_eq!(
            (code(&wrong), class(&wrong)),
            (Some("E-CONFIG-VALUE"), Class::Usage)
        );
        let outer = wrong.context(ErrorCode::Replay.failed("x"));
        assert_eq!(code(&outer), Some("E-REPLAY"), "the outermost");
        assert_eq!(
            code(&anyhow::anyhow!("E-M: none")),
            None,
            "a text is not parsed"
        );
        let wrong = UsageError("--x: none".into());
        assert_eq!(wrong.to_string(), "E-USAGE: --x: none");
    }
}
