//! The times at which something is sent again.

use crate::event::Nanos;

/// One kind of thing that is outstanding: due after a wait without progress, which doubles.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    first: Nanos,
    most: Nanos,
    wait: Nanos,
    /// What is outstanding may be on its way for so long beside.
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

    /// When it is due, if anything is outstanding.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// What is outstanding may be on its way for so long beside the wait; with `more`, something was
    /// added just now.
    pub(crate) fn allow(&mut self, now: Nanos, transit: Nanos, more: bool) {
        self.transit = transit;
        let after = self.after(now);
        self.due = self.due.map(|due| if more { due.max(after) } else { due });
    }

    fn after(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.wait).saturating_add(self.transit)
    }

    /// Begins to wait if something is outstanding and nothing was; stops if nothing is.
    pub(crate) fn arm(&mut self, now: Nanos, outstanding: bool) {
        if !outstanding {
            self.due = None;
            self.wait = self.first;
        } else if self.due.is_none() {
            self.due = Some(self.after(now));
        }
    }

    /// Something moved: the shortest wait again, from now on.
    pub(crate) fn progress(&mut self, now: Nanos) {
        self.wait = self.first;
        if self.due.is_some() {
            self.due = Some(self.after(now));
        }
    }

    /// Makes it due at once, if anything is outstanding.
    pub(crate) fn hurry(&mut self, now: Nanos) {
        self.wait = self.first;
        if self.due.is_some() {
            self.due = Some(now);
        }
    }

    /// Whether it is time; if so, the next wait is twice as long.
    pub(crate) fn fire(&mut self, now: Nanos) -> bool {
        let fired = self.due.is_some_and(|due| due <= now);
        if fired {
            self.due = Some(self.after(now));
            self.wait = self.wait.saturating_mul(2).min(self.most);
        }
        fired
    }
}
