//! The lines of JSON that a program of a chaos run prints.

use bus_schemas::Incarnation;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It has a session.
    Opened {
        /// Its id.
        session: String,
        /// Its number among its tenant's, from 1.
        ordinal: u64,
        /// Its worker.
        worker: Incarnation,
        /// The name of the program's connection.
        connection: String,
    },
    /// A request was answered.
    Request {
        /// Nanoseconds from its launch to its result.
        ns: u64,
    },
    /// It knows that a session has ended, and has not closed it yet.
    Noticed {
        /// The session.
        session: String,
    },
    /// Results came and were compared with what plain Rust computes.
    Round {
        /// Results that are right.
        right: u64,
        /// Results that are not.
        wrong: u64,
    },
    /// It lives, and nothing has happened to its sessions.
    Idle,
    /// It closed its session in good order.
    Closed {
        /// The session.
        session: String,
    },
    /// A call on its session failed.
    Failed {
        /// The session.
        session: String,
        /// The error's code.
        code: String,
        /// The error in words.
        why: String,
    },
    /// It got no session.
    Refused {
        /// The error's code.
        code: String,
        /// The error in words.
        why: String,
    },
    /// A call did not end within the deadline.
    Hung {
        /// Which.
        call: String,
    },
    /// It was asked to stop, and all is done.
    Stopped,
}
