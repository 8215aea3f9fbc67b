//! Errors by what a caller can do about them. Each text begins with a stable code.

use std::fmt::Display;
use std::io;

use bus::BusError;
use thiserror::Error;

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
    let caused = |is: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(is);
    let silent = |it: &(dyn std::error::Error + 'static)| {
        it.is::<Unreachable>() || matches!(it.downcast_ref(), Some(BusError::Unreachable { .. }))
    };
    let wrong = |it: &(dyn std::error::Error + 'static)| {
        let unknown = matches!(it.downcast_ref(), Some(broker::Error::UnknownTenant { .. }));
        it.is::<UsageError>() || it.is::<Misset>() || unknown
    };
    if error.is::<Unreachable>() || caused(silent) {
        Class::Unreachable
    } else if error.is::<UsageError>() || error.is::<Misset>() || caused(wrong) {
        Class::Usage
    } else {
        Class::Failed
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn what_is_named_and_is_not_there_is_usage() {
        let open = |kind: io::ErrorKind| named::<()>(Err(kind.into()), "E-RECORD-FILE: x");
        let of = |kind| class(&open(kind).unwrap_err());
        assert_eq!(of(io::ErrorKind::NotFound), Class::Usage);
        assert_eq!(of(io::ErrorKind::PermissionDenied), Class::Failed);
        let unknown = broker::Error::UnknownTenant { tenant: "a".into() };
        let unknown = anyhow::Error::new(unknown).context("a login");
        assert_eq!(class(&unknown), Class::Usage);
        let silent = BusError::Unreachable {
            url: "nats://h".into(),
            detail: "no".into(),
        };
        let silent = Err::<(), _>(silent).context("a role").unwrap_err();
        assert_eq!(class(&silent), Class::Unreachable);
    }

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
}
