//! State of the display, and the effect of a key: a function of samples and keys.

use admin::SessionRow;
use bus_schemas::{Incarnation, SessionId, Tenant};

use crate::rows::{GpuRow, Sample, Sort, TenantRow};

/// Maximum number of characters of a filter.
const FILTER: usize = 64;

/// A key with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Enter,
    Escape,
    Tab,
    Backspace,
    Char(char),
}

/// A change to make in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ends a session.
    End(SessionId),
    /// Drains a worker, or gives it new sessions again.
    Drain(Incarnation, bool),
    /// Suspends a tenant, or resumes it.
    Suspend(Tenant, bool),
}

impl Action {
    /// The question that asks for confirmation, with the consequences of the action.
    pub(crate) fn question(&self) -> String {
        match self {
            Self::End(session) => {
                format!("End session {session}? Its program's next call fails. y/n")
            }
            Self::Drain(worker, true) => {
                format!(
                    "Drain worker {worker}? It gets no new sessions and leaves when its own have ended. y/n"
                )
            }
            Self::Drain(worker, false) => format!("Give worker {worker} new sessions again? y/n"),
            Self::Suspend(tenant, true) => {
                format!("Suspend tenant {tenant}? Nothing more of it runs until it is resumed. y/n")
            }
            Self::Suspend(tenant, false) => format!("Resume tenant {tenant}? y/n"),
        }
    }
}

/// The pane that receives keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pane {
    #[default]
    Tenants,
    Sessions,
    Devices,
}

/// The effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// Only the display has changed.
    Shown,
    /// An action must run.
    Action(Action),
    /// The program ends.
    Quit,
}

/// State of the display.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) sample: Option<Sample>,
    pub(crate) pane: Pane,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// True if keys go into the filter.
    pub(crate) typing: bool,
    pub(crate) selected: usize,
    /// The action that waits for confirmation.
    pub(crate) asked: Option<Action>,
    /// The last message.
    pub(crate) message: String,
    pub(crate) help: bool,
}

impl Room {
    /// The tenants shown.
    pub(crate) fn tenants(&self) -> Vec<TenantRow> {
        let sample = self.sample.as_ref();
        sample.map_or_else(Vec::new, |sample| sample.tenants(self.sort, &self.filter))
    }

    /// The sessions shown.
    pub(crate) fn sessions(&self) -> Vec<SessionRow> {
        let sample = self.sample.as_ref();
        sample.map_or_else(Vec::new, |sample| sample.sessions(self.sort, &self.filter))
    }

    /// The devices shown.
    pub(crate) fn gpus(&self) -> Vec<GpuRow> {
        self.sample.as_ref().map_or_else(Vec::new, Sample::gpus)
    }

    fn rows(&self) -> usize {
        match self.pane {
            Pane::Tenants => self.tenants().len(),
            Pane::Sessions => self.sessions().len(),
            Pane::Devices => self.gpus().len(),
        }
    }

    /// Takes in a new sample.
    pub(crate) fn take(&mut self, sample: Sample) {
        self.sample = Some(sample);
        self.selected = self.selected.min(self.rows().saturating_sub(1));
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: Key) -> Done {
        if let Some(action) = self.asked.take() {
            return match key {
                Key::Char('y' | 'Y') => Done::Action(action),
                _ => {
                    self.message = "nothing was done".into();
                    Done::Shown
                }
            };
        }
        if self.typing {
            self.typed(key);
            return Done::Shown;
        }
        match key {
            Key::Char('q') => return Done::Quit,
            Key::Escape if self.help => self.help = false,
            Key::Escape if self.filter.is_empty() => return Done::Quit,
            Key::Escape => self.filter.clear(),
            Key::Char('?' | 'h') => self.help = !self.help,
            Key::Char('/') => self.typing = true,
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Tab => {
                self.pane = match self.pane {
                    Pane::Tenants => Pane::Sessions,
                    Pane::Sessions => Pane::Devices,
                    Pane::Devices => Pane::Tenants,
                };
                self.selected = 0;
            }
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => {
                self.selected = (self.selected + 1).min(self.rows().saturating_sub(1));
            }
            Key::Char('e') => self.ask(Pane::Sessions, "sessions"),
            Key::Char('d') => self.ask(Pane::Devices, "devices"),
            Key::Char('p') => self.ask(Pane::Tenants, "tenants"),
            Key::Enter | Key::Backspace | Key::Char(_) => {}
        }
        Done::Shown
    }

    fn typed(&mut self, key: Key) {
        match key {
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(letter) if self.filter.len() < FILTER => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    /// Asks for confirmation of an action on the selected row.
    fn ask(&mut self, pane: Pane, named: &str) {
        if self.pane != pane {
            self.message = format!("Tab leads to the {named}, where this key does something");
            return;
        }
        self.asked = match pane {
            Pane::Sessions => {
                let row = self.sessions().into_iter().nth(self.selected);
                row.map(|row| Action::End(row.id))
            }
            Pane::Devices => {
                let row = self.gpus().into_iter().nth(self.selected);
                row.and_then(|row| {
                    let worker = row.worker.parse().ok()?;
                    Some(Action::Drain(worker, row.state != "draining"))
                })
            }
            Pane::Tenants => {
                let row = self.tenants().into_iter().nth(self.selected);
                row.and_then(|row| {
                    let tenant = row.tenant.parse().ok()?;
                    Some(Action::Suspend(tenant, !row.suspended))
                })
            }
        };
        self.message = match self.asked {
            Some(_) => String::new(),
            None => "nothing is selected".into(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;

    fn press(room: &mut Room, keys: &str) -> Vec<Done> {
        let key = |letter: char| match letter {
            '\t' => Key::Tab,
            '\n' => Key::Enter,
            '\u{1b}' => Key::Escape,
            '\u{8}' => Key::Backspace,
            letter => Key::Char(letter),
        };
        keys.chars().map(|letter| room.key(key(letter))).collect()
    }

    fn room() -> Room {
        let mut room = Room::default();
        room.take(sample());
        room
    }

    #[test]
    fn nothing_is_done_that_was_not_confirmed() {
        let mut room = room();
        assert_eq!(press(&mut room, "p"), [Done::Shown]);
        let asked = room.asked.clone().expect("it asks");
        assert!(asked.question().contains("Suspend tenant chat?"));
        assert_eq!(press(&mut room, "n"), [Done::Shown]);
        assert_eq!(
            (&room.asked, room.message.as_str()),
            (&None, "nothing was done")
        );
        let done = press(&mut room, "jpy");
        let Some(Done::Action(Action::Suspend(tenant, on))) = done.last() else {
            panic!("{done:?}");
        };
        assert_eq!(
            (tenant.as_str(), *on),
            ("train", false),
            "the second is suspended"
        );
        assert_eq!(press(&mut room, "e"), [Done::Shown]);
        assert!(room.message.contains("Tab"), "{}", room.message);
        let done = press(&mut room, "\tey");
        assert!(
            matches!(done.last(), Some(Done::Action(Action::End(_)))),
            "{done:?}"
        );
        let done = press(&mut room, "\tdy");
        assert!(
            matches!(done.last(), Some(Done::Action(Action::Drain(_, true)))),
            "{done:?}"
        );
    }

    #[test]
    fn a_filter_is_typed_and_cleared_and_only_then_escape_ends_it() {
        let mut room = room();
        press(&mut room, "/traq\u{8}i\n");
        assert_eq!(room.filter, "trai");
        assert_eq!(room.tenants().len(), 1);
        assert_eq!(press(&mut room, "\u{1b}"), [Done::Shown]);
        assert_eq!((room.filter.as_str(), room.tenants().len()), ("", 2));
        assert_eq!(press(&mut room, "\u{1b}"), [Done::Quit]);
        // The filter stays bounded.
        press(&mut room, "/");
        press(&mut room, &"x".repeat(1_000));
        assert!(room.filter.len() <= FILTER);
    }

    #[test]
    fn any_keys_in_any_order_do_no_harm() {
        let mut room = Room::default();
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let keys = "qsjkedpyn/?h\t\n\u{8}\u{1b}a";
            let at = (state >> 16) as usize % keys.chars().count();
            let key: String = keys.chars().skip(at).take(1).collect();
            press(&mut room, &key);
            if state.is_multiple_of(97) {
                room.take(sample());
            }
            assert!(room.selected == 0 || room.selected < room.rows().max(1));
        }
    }
}
