//! The lines of JSON that a program of a chaos run prints.

use bus_schemas::Incarnation;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// The program has a session.
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
    /// The program knows that a session has ended, and has not closed it yet.
    Noticed {
        /// The session.
        session: String,
    },
    /// Results came and were compared with what plain Rust computes.
    Round {
        /// Results that are right.
        right: u64,
        /// Results that are wrong.
        wrong: u64,
    },
    /// The program is alive, and nothing has happened to its sessions.
    Idle,
    /// The program closed its session in good order.
    Closed {
        /// The session.
        session: String,
    },
    /// A call on the program's session failed.
    Failed {
        /// The session.
        session: String,
        /// The error's code.
        code: String,
        /// The error in words.
        why: String,
    },
    /// The program got no session.
    Refused {
        /// The error's code.
        code: String,
        /// The error in words.
        why: String,
    },
    /// A call did not end within the deadline.
    Hung {
        /// Name of the call.
        call: String,
    },
    /// The program was asked to stop, and has finished.
    Stopped,
}
