//! The destinations of a request's messages, by which its spans name them.

use bus_schemas::subject::Subjects;

/// Patterns of subjects. They are the same for all tenants and sessions, of which there are many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destinations {
    /// The subjects of intents, by which the leader hears of a request.
    pub(crate) submit: String,
    /// The subjects of what a program hears of its sessions: acknowledgements, and results.
    pub(crate) answer: String,
}

impl Destinations {
    pub(crate) fn new(subjects: &Subjects) -> Self {
        Self {
            submit: subjects.intents_all(),
            answer: subjects.sessions_inbound_all(),
        }
    }
}
