//! Changes that administrators made, as the record tells of them.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{ClusterSettings, Tenant, TenantSettings};

use crate::input::Input;
use crate::leader::InputTimes;
use crate::time::Nanos;

/// Maximum number of changes that a replay keeps; beyond it the oldest go.
const KEPT: usize = 4_096;

/// A change that an administrator made.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedChange {
    /// Time at which a leader heard of it, nanoseconds of the leader's clock.
    pub at: Nanos,
    /// The change.
    pub change: Change,
}

/// The kinds of changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Settings of a tenant. Absent settings stand for no such tenant.
    Tenant {
        /// The tenant.
        tenant: Tenant,
        /// Its settings before.
        before: Option<TenantSettings>,
        /// Its settings since.
        after: Option<TenantSettings>,
        /// The cluster's settings, which have limits of their own.
        cluster: Box<ClusterSettings>,
    },
    /// Settings of the cluster's order.
    Settings {
        /// The settings before.
        before: Box<ClusterSettings>,
        /// The settings since.
        after: Box<ClusterSettings>,
    },
    /// All grants were held from then on, or released.
    Hold(bool),
}

/// The changes of a stretch of time, and what the next one is compared with.
#[derive(Debug)]
pub(super) struct Changes {
    from: Nanos,
    to: Nanos,
    /// The settings as known; `None` before the first leader of the replay.
    known: Option<Known>,
    told: VecDeque<ReplayedChange>,
}

#[derive(Debug)]
struct Known {
    tenants: BTreeMap<Tenant, TenantSettings>,
    settings: ClusterSettings,
    held: bool,
}

impl Changes {
    /// Takes the changes from `from` to `to` only.
    pub(super) fn between(from: Nanos, to: Nanos) -> Self {
        Self {
            from,
            to,
            known: None,
            told: VecDeque::new(),
        }
    }

    /// The newest changes since the last call, the oldest first.
    pub(super) fn take(&mut self) -> Vec<ReplayedChange> {
        std::mem::take(&mut self.told).into()
    }

    /// Takes in the next input.
    pub(super) fn input(&mut self, input: &Input, times: Option<&InputTimes>) {
        let at = times.map(|times| times.at);
        match (input, &mut self.known) {
            (Input::Takeover(takeover), known) => {
                let now = Known {
                    tenants: takeover.tenants.iter().cloned().collect(),
                    settings: takeover.settings.clone(),
                    held: takeover.held,
                };
                // A change while no leader led is one that the next leader begins with.
                let changes = known.as_ref().map(|before| before.to(&now));
                *known = Some(now);
                for change in changes.into_iter().flatten() {
                    self.tell(at, change);
                }
            }
            (Input::TenantSet { tenant, settings }, Some(known)) => {
                let before = match settings {
                    Some(settings) => known.tenants.insert(tenant.clone(), settings.clone()),
                    None => known.tenants.remove(tenant),
                };
                let change = Change::Tenant {
                    tenant: tenant.clone(),
                    before,
                    after: settings.clone(),
                    cluster: Box::new(known.settings.clone()),
                };
                self.tell(at, change);
            }
            (Input::Settings(after), Some(known)) => {
                let before = std::mem::replace(&mut known.settings, after.clone());
                let (before, after) = (Box::new(before), Box::new(after.clone()));
                self.tell(at, Change::Settings { before, after });
            }
            (Input::Hold { held }, Some(known)) if known.held != *held => {
                known.held = *held;
                self.tell(at, Change::Hold(*held));
            }
            _ => {}
        }
    }

    fn tell(&mut self, at: Option<Nanos>, change: Change) {
        let Some(at) = at.filter(|at| (self.from..self.to).contains(at)) else {
            return;
        };
        if !change.is_none() {
            self.told.push_back(ReplayedChange { at, change });
        }
        if self.told.len() > KEPT {
            self.told.pop_front();
        }
    }
}

impl Known {
    /// The changes from these settings to others.
    fn to(&self, now: &Self) -> Vec<Change> {
        let mut names: Vec<_> = self.tenants.keys().chain(now.tenants.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let tenants = names.into_iter().map(|tenant| Change::Tenant {
            tenant: tenant.clone(),
            before: self.tenants.get(tenant).cloned(),
            after: now.tenants.get(tenant).cloned(),
            cluster: Box::new(now.settings.clone()),
        });
        let settings = Change::Settings {
            before: Box::new(self.settings.clone()),
            after: Box::new(now.settings.clone()),
        };
        let hold = (self.held != now.held).then_some(Change::Hold(now.held));
        tenants.chain([settings]).chain(hold).collect()
    }
}

impl Change {
    /// Returns true if nothing differs.
    fn is_none(&self) -> bool {
        match self {
            Self::Tenant { before, after, .. } => before == after,
            Self::Settings { before, after } => before == after,
            Self::Hold(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Profile, Takeover};
    use crate::policy::ORDER_VERSION;

    fn takeover(tenants: &[(&str, u8)]) -> Input {
        let tenant = |(name, priority): &(&str, u8)| (name.parse().unwrap(), of(*priority));
        Input::Takeover(Box::new(Takeover {
            order_version: ORDER_VERSION,
            epoch: 1,
            leader: bus_schemas::LeaderId(1),
            settings: ClusterSettings::default(),
            tenants: tenants.iter().map(tenant).collect(),
            profile: Profile::default(),
            ordinals: Vec::new(),
            held: false,
        }))
    }

    fn of(priority: u8) -> TenantSettings {
        TenantSettings {
            priority,
            ..TenantSettings::default()
        }
    }

    fn set(tenant: &str, settings: Option<TenantSettings>) -> Input {
        let tenant = tenant.parse().unwrap();
        Input::TenantSet { tenant, settings }
    }

    /// The changes that are told of inputs at 10, 20, 30 …, from 15 to 75.
    fn told(inputs: &[Input]) -> Vec<(Nanos, String)> {
        let mut changes = Changes::between(15, 75);
        for (index, input) in inputs.iter().enumerate() {
            let times = InputTimes::at(10 * (index as u64 + 1));
            changes.input(input, Some(&times));
        }
        let text = |told: ReplayedChange| match told.change {
            Change::Tenant {
                tenant,
                before,
                after,
                ..
            } => {
                let [before, after] = [before, after].map(|it| it.map(|it| it.priority));
                (told.at, format!("{tenant} {before:?} {after:?}"))
            }
            other => (told.at, format!("{other:?}")),
        };
        changes.take().into_iter().map(text).collect()
    }

    #[test]
    fn changes_are_told_with_what_was_before_and_only_those_of_the_time() {
        let inputs = [
            takeover(&[("chat", 1), ("train", 3)]),
            set("train", Some(of(0))),
            set("train", Some(of(0))),
            Input::Tick,
            set("chat", None),
            Input::Hold { held: true },
            Input::Hold { held: true },
            set("train", Some(of(3))),
        ];
        let expected = [
            (20, "train Some(3) Some(0)"),
            (50, "chat Some(1) None"),
            (60, "Hold(true)"),
        ];
        assert_eq!(
            told(&inputs),
            expected.map(|(at, text)| (at, text.to_owned()))
        );
    }

    #[test]
    fn a_change_while_no_leader_led_is_told_of_the_next_one() {
        let inputs = [
            takeover(&[("chat", 1)]),
            takeover(&[("chat", 2), ("train", 3)]),
            takeover(&[("chat", 2), ("train", 3)]),
        ];
        let expected = [(20, "chat Some(1) Some(2)"), (20, "train None Some(3)")];
        assert_eq!(
            told(&inputs),
            expected.map(|(at, text)| (at, text.to_owned()))
        );
    }
}
