//! The bus as its users feel it: subjects and subscriptions over links that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::faults::Mishap;
use crate::words;
use sim_time::Random;
use sim_time::{MICRO, MILLI, Nanos};

/// A process of the cluster. A restarted one keeps its number and gets a new life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub usize);

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Its subject.
    pub subject: Rc<str>,
    /// Where an answer is awaited, if it is a request.
    pub reply: Option<Rc<str>>,
    /// The encoded message.
    pub bytes: Rc<[u8]>,
    /// Who published it.
    pub from: NodeId,
}

/// How badly all links behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Weather {
    /// Messages lost, per thousand.
    pub loss: u64,
    /// Messages delivered twice, per thousand.
    pub duplicates: u64,
    /// Messages held back by up to `late` and so overtaken, per thousand.
    pub reordered: u64,
    /// Longest extra delay of a reordered or duplicated message.
    #[serde(with = "words::time")]
    pub late: Nanos,
    /// Longest ordinary delay; the shortest is 20 µs.
    #[serde(with = "words::time")]
    pub delay: Nanos,
}

impl Weather {
    /// Nothing is lost, doubled or overtaken.
    pub(crate) const FAIR: Self = Self {
        loss: 0,
        duplicates: 0,
        reordered: 0,
        late: 0,
        delay: 150 * MICRO,
    };

    /// Some mixture of troubles.
    #[must_use]
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut part = |permille: u64, most: u64| {
            if random.chance(permille) {
                random.between(1, most)
            } else {
                0
            }
        };
        Self {
            loss: part(600, 250),
            duplicates: part(500, 200),
            reordered: part(500, 300),
            late: MILLI + part(800, 40) * MILLI,
            delay: 100 * MICRO + part(300, 5) * MILLI,
        }
    }
}

/// Connections, subscriptions and the state of every link.
#[derive(Debug)]
pub(crate) struct Network {
    /// How all links behave now.
    pub weather: Weather,
    broker_up: bool,
    blocked: BTreeSet<(NodeId, NodeId)>,
    cut: BTreeSet<NodeId>,
    // A connection's number grows when it is lost: what was in flight on the old one is lost too.
    connections: BTreeMap<NodeId, u32>,
    subscriptions: BTreeMap<NodeId, BTreeSet<String>>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    seed: u64,
    keys: BTreeMap<NodeId, u64>,
}

/// One direction between two nodes. It has chance of its own, so that what happens on one does not
/// depend on how much is said on another.
#[derive(Debug)]
struct Link {
    last: Nanos,
    random: Random,
}

/// One delivery that will be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// When.
    pub at: Nanos,
    /// To whom.
    pub to: NodeId,
    /// Over which of its connections.
    pub connection: u32,
}

/// Where one message goes, and what became of it on the way.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// By chance.
    pub mishaps: Vec<(NodeId, Mishap)>,
}

impl Network {
    /// A bus without connections in fair weather.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            weather: Weather::FAIR,
            broker_up: true,
            blocked: BTreeSet::new(),
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            links: BTreeMap::new(),
            seed,
            keys: BTreeMap::new(),
        }
    }

    /// Gives a node the number by which the chance of its links is drawn.
    pub(crate) fn know(&mut self, node: NodeId, key: u64) {
        self.keys.insert(node, key);
    }

    /// Whether a node's connection is there.
    #[must_use]
    pub(crate) fn connected(&self, node: NodeId) -> bool {
        self.broker_up && !self.cut.contains(&node)
    }

    /// Whether the broker is there.
    #[must_use]
    pub(crate) fn broker_up(&self) -> bool {
        self.broker_up
    }

    /// Whether messages go from one node to another.
    #[must_use]
    pub(crate) fn open(&self, from: NodeId, to: NodeId) -> bool {
        self.connected(from) && self.connected(to) && !self.blocked.contains(&(from, to))
    }

    /// The number of a node's connection now.
    #[must_use]
    pub(crate) fn connection(&self, node: NodeId) -> u32 {
        self.connections.get(&node).copied().unwrap_or(0)
    }

    /// Subscribes a node to a subject pattern (`*` one token, `>` the rest).
    pub(crate) fn subscribe(&mut self, node: NodeId, pattern: String) {
        self.subscriptions.entry(node).or_default().insert(pattern);
    }

    /// Ends all a node has on the bus: it died.
    pub(crate) fn drop_node(&mut self, node: NodeId) {
        self.subscriptions.remove(&node);
        self.cut.remove(&node);
        *self.connections.entry(node).or_default() += 1;
    }

    /// Stops one direction of a link.
    pub(crate) fn block(&mut self, from: NodeId, to: NodeId) {
        self.blocked.insert((from, to));
    }

    /// Lets one direction of a link go again.
    pub(crate) fn unblock(&mut self, from: NodeId, to: NodeId) {
        self.blocked.remove(&(from, to));
    }

    /// Cuts a node's connection; what was in flight to it is lost.
    pub(crate) fn cut(&mut self, node: NodeId) {
        self.cut.insert(node);
        *self.connections.entry(node).or_default() += 1;
    }

    /// Restores a node's connection.
    pub(crate) fn restore(&mut self, node: NodeId) {
        self.cut.remove(&node);
    }

    /// The broker goes: everything in flight is lost.
    pub(crate) fn broker_down(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.broker_up = false;
        for node in nodes {
            *self.connections.entry(node).or_default() += 1;
        }
    }

    /// The broker is back.
    pub(crate) fn broker_back(&mut self) {
        self.broker_up = true;
    }

    /// The deliveries of a message published now.
    pub(crate) fn route(&mut self, now: Nanos, from: NodeId, subject: &str) -> Route {
        let receivers: Vec<NodeId> = self
            .subscriptions
            .iter()
            .filter(|(_, patterns)| patterns.iter().any(|pattern| matches(pattern, subject)))
            .map(|(node, _)| *node)
            .collect();
        let mut route = Route::default();
        for to in receivers {
            self.link(now, from, to, &mut route);
        }
        route
    }

    fn link(&mut self, now: Nanos, from: NodeId, to: NodeId, route: &mut Route) {
        if !self.open(from, to) {
            return;
        }
        let weather = self.weather;
        let connection = self.connection(to);
        let key = |node| self.keys.get(&node).copied().unwrap_or_default();
        let purpose = key(from) << 32 | key(to);
        let Link { last, random } = self.links.entry((from, to)).or_insert_with(|| Link {
            last: 0,
            random: Random::of(self.seed, purpose),
        });
        if random.chance(weather.loss) {
            route.mishaps.push((to, Mishap::Lost));
            return;
        }
        let arrival = now + random.between(20 * MICRO, weather.delay.max(20 * MICRO));
        let at = if random.chance(weather.reordered) {
            route.mishaps.push((to, Mishap::Late));
            arrival + random.between(0, weather.late)
        } else {
            *last = arrival.max(*last);
            *last
        };
        let deliveries = &mut route.deliveries;
        deliveries.push(Delivery { at, to, connection });
        if random.chance(weather.duplicates) {
            route.mishaps.push((to, Mishap::Doubled));
            let at = arrival + random.between(0, weather.late);
            deliveries.push(Delivery { at, to, connection });
        }
    }
}

/// Whether a subject falls under a pattern.
#[must_use]
pub(crate) fn matches(pattern: &str, subject: &str) -> bool {
    let mut wanted = pattern.split('.');
    let mut tokens = subject.split('.');
    loop {
        match (wanted.next(), tokens.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(want), Some(have)) if want == have => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(weather: Weather) -> Network {
        let mut network = Network::new(3);
        network.weather = weather;
        network.subscribe(NodeId(1), "a.*.c".into());
        network
    }

    #[test]
    fn patterns_match_as_the_broker_matches_them() {
        assert!(matches("a.*.c", "a.b.c"));
        assert!(matches("a.>", "a.b.c"));
        assert!(!matches("a.>", "a"));
        assert!(!matches("a.*", "a.b.c"));
        assert!(!matches("a.b.c.d", "a.b.c"));
    }

    #[test]
    fn fair_weather_keeps_order_and_loses_nothing() {
        let mut network = pair(Weather::FAIR);
        let mut last = 0;
        for now in 0..500 {
            let deliveries = network.route(now, NodeId(0), "a.b.c").deliveries;
            assert_eq!(deliveries.len(), 1);
            assert!(deliveries[0].at >= last);
            last = deliveries[0].at;
        }
    }

    #[test]
    fn foul_weather_loses_doubles_and_reorders() {
        let mut network = pair(Weather {
            loss: 200,
            duplicates: 200,
            reordered: 200,
            late: MILLI,
            delay: 100 * MICRO,
        });
        let (mut lost, mut doubled, mut overtaken, mut last) = (0, 0, 0, 0);
        for step in 0..500 {
            let route = network.route(step * MICRO, NodeId(0), "a.b.c");
            let deliveries = route.deliveries;
            lost += usize::from(deliveries.is_empty());
            doubled += usize::from(deliveries.len() == 2);
            for delivery in deliveries {
                overtaken += usize::from(delivery.at < last);
                last = last.max(delivery.at);
            }
        }
        assert!(
            lost > 50 && doubled > 50 && overtaken > 50,
            "{lost} {doubled} {overtaken}"
        );
    }

    #[test]
    fn a_blocked_link_blocks_one_direction_and_a_cut_both() {
        let mut network = pair(Weather::FAIR);
        network.block(NodeId(0), NodeId(1));
        assert!(network.route(0, NodeId(0), "a.b.c").deliveries.is_empty());
        assert!(network.open(NodeId(1), NodeId(0)));
        network.unblock(NodeId(0), NodeId(1));
        network.cut(NodeId(1));
        assert!(network.route(0, NodeId(0), "a.b.c").deliveries.is_empty());
        assert!(!network.open(NodeId(1), NodeId(0)));
        network.restore(NodeId(1));
        assert_eq!(network.route(0, NodeId(0), "a.b.c").deliveries.len(), 1);
    }
}
