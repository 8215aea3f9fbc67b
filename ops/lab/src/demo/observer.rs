//! An observer of the bus while a demo runs: grants, chains, use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use admin::Administrator;
use admin::evidence::Kill;
use anyhow::Result;
use bus_schemas::{
    Chain, Done, Epoch, GpuPosition, GrantBatch, Incarnation, LeaderBeat, LeaderId, Lost, Usage,
    decode,
};
use futures_util::StreamExt;

/// Observations so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Time of the first grant of each epoch.
    pub first_grant: BTreeMap<Epoch, Instant>,
    /// Last accepted position and chain of each worker, as reported by it.
    pub tails: BTreeMap<Incarnation, (GpuPosition, Chain)>,
    /// Last reported use of each worker.
    pub usage: BTreeMap<Incarnation, Usage>,
    /// The leader of each epoch, as reported by itself.
    pub leaders: BTreeMap<Epoch, LeaderId>,
    /// Workers that a leader declared lost.
    pub lost: BTreeSet<Incarnation>,
}

impl Seen {
    /// Number of changes of the leader that none of these kills caused. A leader that follows itself, in a
    /// new epoch, is no change.
    #[must_use]
    pub fn changes_without(&self, kills: &[Kill]) -> usize {
        let killed: BTreeSet<&str> = kills.iter().map(|kill| kill.leader.as_str()).collect();
        let leaders: Vec<&LeaderId> = self.leaders.values().collect();
        let changed = leaders.windows(2).filter(|pair| pair[0] != pair[1]);
        changed
            .filter(|pair| !killed.contains(pair[0].to_string().as_str()))
            .count()
    }

    fn note(&mut self, subject: &str, payload: &[u8]) {
        if subject.ends_with(".s.l.beat") {
            if let Ok(beat) = decode::<LeaderBeat>(payload) {
                self.leaders.entry(beat.epoch).or_insert(beat.leader);
            }
            return;
        }
        if subject.ends_with(".s.lost") {
            if let Ok(lost) = decode::<Lost>(payload) {
                self.lost.insert(lost.incarnation);
            }
            return;
        }
        let mut tokens = subject.rsplit('.');
        let last = tokens.next().unwrap_or_default();
        let worker = tokens.next().unwrap_or_default();
        if last == "order" {
            if let Ok(order) = decode::<GrantBatch<'_>>(payload)
                && !order.grants.is_empty()
            {
                self.first_grant
                    .entry(order.epoch)
                    .or_insert_with(Instant::now);
            }
            return;
        }
        let Ok(incarnation) = last.parse::<Incarnation>() else {
            return;
        };
        match worker {
            "done" => {
                if let Ok(done) = decode::<Done<'_>>(payload) {
                    let tail = self.tails.entry(incarnation).or_default();
                    if done.accepted >= tail.0 {
                        *tail = (done.accepted, done.chain);
                    }
                }
            }
            "usage" => {
                if let Ok(usage) = decode::<Usage>(payload) {
                    self.usage.insert(incarnation, usage);
                }
            }
            _ => {}
        }
    }
}

/// Listens to the messages of leaders and workers to each other.
#[derive(Clone, Default)]
pub struct RunObserver(Arc<Mutex<Seen>>);

impl RunObserver {
    /// Starts to listen, on a task of the current runtime.
    ///
    /// # Errors
    /// If the broker refuses the subscriptions.
    pub async fn start(administrator: &Administrator) -> Result<Self> {
        let observer = Self::default();
        let root = administrator.subjects().all();
        let root = root.trim_end_matches('>');
        let subjects = [
            "s.w.*.order",
            "s.l.done.*",
            "s.usage.*",
            "s.l.beat",
            "s.lost",
        ];
        for subject in subjects {
            let subscription = administrator
                .client()
                .subscribe(format!("{root}{subject}"))
                .await?;
            let observer = observer.clone();
            tokio::spawn(subscription.for_each(move |message| {
                observer.see(|seen| seen.note(&message.subject, &message.payload));
                std::future::ready(())
            }));
        }
        administrator.client().flush().await?;
        Ok(observer)
    }

    /// Calls `look` with the observations.
    pub fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(leader: LeaderId, epoch: Epoch) -> Kill {
        Kill {
            kill: 1,
            of: 1,
            at_ms: 0,
            pid: 1,
            leader: leader.to_string(),
            epoch,
            takeover_ms: 1.0,
            successor: epoch + 1,
        }
    }

    #[test]
    fn a_change_of_the_leader_has_a_cause_if_the_one_before_was_killed() {
        let (first, second, third) = (LeaderId(1), LeaderId(2), LeaderId(3));
        let seen = |leaders: &[(Epoch, LeaderId)]| Seen {
            leaders: leaders.iter().copied().collect(),
            ..Seen::default()
        };
        let itself = seen(&[(1, first), (2, first), (5, first)]);
        assert_eq!(itself.changes_without(&[]), 0);
        let two = seen(&[(1, first), (3, second), (4, third)]);
        assert_eq!(two.changes_without(&[]), 2);
        assert_eq!(two.changes_without(&[kill(first, 1)]), 1);
        assert_eq!(two.changes_without(&[kill(third, 4)]), 2, "another");
        assert_eq!(two.changes_without(&[kill(first, 1), kill(second, 3)]), 0);
    }

    #[test]
    fn what_leaders_say_is_noted_and_nothing_else_is_taken_for_it() {
        let mut seen = Seen::default();
        let beat = |epoch, leader| LeaderBeat {
            v: bus_schemas::WIRE_VERSION,
            epoch,
            leader,
            leaving: false,
        };
        for (epoch, leader) in [(1, LeaderId(7)), (1, LeaderId(7)), (2, LeaderId(8))] {
            let bytes = bus_schemas::encode(&beat(epoch, leader));
            seen.note("wl.v1.local.s.l.beat", &bytes);
        }
        let lost = Lost {
            v: bus_schemas::WIRE_VERSION,
            epoch: 2,
            leader: LeaderId(8),
            incarnation: Incarnation(5),
        };
        seen.note("wl.v1.local.s.lost", &bus_schemas::encode(&lost));
        seen.note("wl.v1.local.s.lost", b"no message");
        assert_eq!(seen.changes_without(&[]), 1);
        assert_eq!(seen.lost, BTreeSet::from([Incarnation(5)]));
    }
}
