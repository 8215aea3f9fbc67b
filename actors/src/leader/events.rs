//! Events of the broker that a candidate listens to.

use bus_schemas::subject::Users;

/// The broker's disconnect events.
#[derive(Clone)]
pub struct Events {
    /// User and password of the system account.
    pub login: (String, String),
    /// `$SYS.ACCOUNT.<account>.DISCONNECT`.
    pub subject: String,
    /// The users that the events may name, and the owner of each.
    pub users: Users,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not reveal passwords.
        f.debug_struct("Events")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}
