//! The bus: every message is on its way for a while, and a link keeps its order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::slices::Slice;
use crate::scenario::Scenario;
use sim_cluster::Random;
use sim_cluster::{Agenda, Nanos};

/// The 99th percentile of a normal distribution, in deviations.
const P99: f64 = 2.326;

/// Who hears or says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    Leader,
    Worker,
    Client(usize),
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub subject: Arc<str>,
    pub reply: Option<Arc<str>>,
    pub bytes: Vec<u8>,
}

/// The store's answer to the leader.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stored {
    Read,
    Write,
    Appended { epoch: u64, number: u64 },
}

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    Message {
        to: Party,
        message: Message,
    },
    Stored(Stored),
    /// The worker has noticed that a slice is done.
    Completed(Box<Slice>),
    /// The worker says what it has measured.
    Measured,
}

/// A launch that was called, for the timeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub request: u64,
    pub kernel: u32,
    pub at: Nanos,
}

/// Everything that is under way.
#[derive(Debug)]
pub(super) struct Bus {
    agenda: Agenda<Event>,
    random: Random,
    median: f64,
    deviation: f64,
    parties: usize,
    /// When the last message of each link arrives.
    links: Vec<Nanos>,
    messages: u64,
    /// Launches called and not done, by tenant, in order.
    pub called: Vec<VecDeque<Called>>,
}

impl Bus {
    pub(super) fn new(scenario: &Scenario, clients: usize) -> Self {
        let parties = clients + 2;
        Self {
            agenda: Agenda::default(),
            random: Random::of(scenario.seed, 1),
            median: scenario.bus as f64,
            deviation: scenario.jitter.max(1.0).ln() / P99,
            parties,
            links: vec![0; parties * parties],
            messages: 0,
            called: vec![VecDeque::new(); clients],
        }
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.agenda.next_at()
    }

    /// The next event that is due.
    pub(super) fn due(&mut self, now: Nanos) -> Option<Event> {
        self.next_at().filter(|at| *at <= now)?;
        self.agenda.pop().map(|(_, event)| event)
    }

    /// Sends a message.
    pub(super) fn send(&mut self, now: Nanos, from: Party, to: Party, message: Message) {
        let index = |party| match party {
            Party::Leader => 0,
            Party::Worker => 1,
            Party::Client(index) => index + 2,
        };
        let way = self.median * (self.deviation * self.random.normal()).exp();
        let link = &mut self.links[index(from) * self.parties + index(to)];
        // One connection after the other carries it: what was sent first arrives first.
        *link = (now + way as Nanos).max(*link);
        self.messages += 1;
        self.agenda.enter(*link, Event::Message { to, message });
    }

    /// Something that happens later.
    pub(super) fn later(&mut self, at: Nanos, event: Event) {
        self.agenda.enter(at, event);
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }
}
