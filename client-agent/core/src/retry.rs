//! The times at which messages are sent again.

use crate::event::Nanos;

/// One kind of outstanding message: due after a wait without progress, which doubles.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    first: Nanos,
    most: Nanos,
    wait: Nanos,
    /// Additional time that outstanding messages may need on their way.
    transit: Nanos,
    due: Option<Nanos>,
}

impl Retry {
    pub(crate) fn new(first: Nanos, most: Nanos) -> Self {
        Self {
            first,
            most,
            wait: first,
            transit: 0,
            due: None,
        }
    }

    /// The time at which it is due, if a message is outstanding.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Sets the additional time that outstanding messages may need on their way; with `more`, one
    /// was just added.
    pub(crate) fn allow(&mut self, now: Nanos, transit: Nanos, more: bool) {
        self.transit = transit;
        let after = self.after(now);
        self.due = self.due.map(|due| if more { due.max(after) } else { due });
    }

    fn after(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.wait).saturating_add(self.transit)
    }

    /// Starts the wait if a message is outstanding and none was; stops it if none is.
    pub(crate) fn arm(&mut self, now: Nanos, outstanding: bool) {
        if !outstanding {
            self.due = None;
            self.wait = self.first;
        } else if self.due.is_none() {
            self.due = Some(self.after(now));
        }
    }

    /// Restarts with the shortest wait after progress.
    pub(crate) fn progress(&mut self, now: Nanos) {
        self.wait = self.first;
        if self.due.is_some() {
            self.due = Some(self.after(now));
        }
    }

    /// Makes it due at once, if a message is outstanding.
    pub(crate) fn hurry(&mut self, now: Nanos) {
        self.wait = self.first;
        if self.due.is_some() {
            self.due = Some(now);
        }
    }

    /// True if it is due; then the next wait is twice as long.
    pub(crate) fn fire(&mut self, now: Nanos) -> bool {
        let fired = self.due.is_some_and(|due| due <= now);
        if fired {
            self.due = Some(self.after(now));
            self.wait = self.wait.saturating_mul(2).min(self.most);
        }
        fired
    }
}
