//! Closed sessions with work that the driver has begun. They stay until it has ended, and the device's thread
//! makes the launches of other sessions meanwhile.

use bus_schemas::Window;

use crate::session::Session;

/// Closed sessions. They keep their memory, which their work may use, and their addresses.
#[derive(Debug, Default)]
pub(crate) struct Closing(Vec<Session>);

impl Closing {
    /// Adds a closed session. A session that uses another's memory is dropped at once, because the other may
    /// free that.
    pub(crate) fn add(&mut self, mut session: Session) {
        if !session.has_imports() {
            session.leave();
            self.0.push(session);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that they take of the device.
    pub(crate) fn held(&self) -> u64 {
        self.0.iter().map(Session::held).sum()
    }

    /// Waits for the sessions with addresses in a window, and drops them.
    pub(crate) fn vacate(&mut self, window: Window) {
        self.0.retain(|session| apart(session.window(), window));
    }

    /// Drops the sessions without work. Returns true if a call failed that asked for one's work.
    pub(crate) fn drop_ended(&mut self) -> bool {
        let mut failed = false;
        self.0.retain(|session| match session.has_ended() {
            Ok(ended) => !ended,
            Err(_) => {
                // It waits for its work when it is dropped; in a context that has ended this is no wait.
                failed = true;
                false
            }
        });
        failed
    }
}

/// True if two windows have no address in common.
pub(crate) fn apart(one: Window, other: Window) -> bool {
    one.end() <= other.base || other.end() <= one.base
}
