//! The bus as its users see it: subjects and subscriptions over links that fail.

mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub use ways::{Jitter, Lossy, Mishap, Ways};

use bus_schemas::Tenant;
use bus_schemas::subject::Subjects;

use crate::{MICRO, Nanos, Random};

/// A process of the cluster. A restarted one keeps its number and gets a new life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A message on its way.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Its subject.
    pub subject: Rc<str>,
    /// Subject for the answer, if it is a request.
    pub reply: Option<Rc<str>>,
    /// The encoded message.
    pub bytes: Rc<[u8]>,
    /// The publisher.
    pub from: NodeId,
}

/// The subjects that a login may use, as prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSubjects {
    says: String,
    hears: String,
}

impl AllowedSubjects {
    /// The subjects of a tenant's login.
    #[must_use]
    pub fn of(subjects: &Subjects, tenant: &Tenant) -> Self {
        let prefix = |all: String| all.trim_end_matches('>').to_owned();
        Self {
            says: prefix(subjects.tenant_outbound(tenant)),
            hears: prefix(subjects.tenant_inbound(tenant)),
        }
    }
}

/// Connections, subscriptions and the state of every link.
#[derive(Debug)]
pub struct Network {
    /// Current behaviour of messages on the links.
    pub ways: Ways,
    broker_up: bool,
    blocked: BTreeSet<(NodeId, NodeId)>,
    cut: BTreeSet<NodeId>,
    // A connection's number, which grows when the connection is lost: its messages in flight are lost too.
    connections: BTreeMap<NodeId, u32>,
    subscriptions: BTreeMap<NodeId, BTreeSet<String>>,
    // Logins of nodes with limited permissions.
    logins: BTreeMap<NodeId, AllowedSubjects>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    seed: u64,
    keys: BTreeMap<NodeId, u64>,
    // Receivers of a subject; cleared when a node subscribes or dies.
    receivers: BTreeMap<Rc<str>, Rc<[NodeId]>>,
    /// Number of messages sent over links.
    pub sent: u64,
}

/// One direction between two nodes. It has a random source of its own, so that its events do not depend on
/// the traffic of other links.
#[derive(Debug)]
struct Link {
    last: Nanos,
    random: Random,
}

/// A planned delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Time of the delivery.
    pub at: Nanos,
    /// The receiver.
    pub to: NodeId,
    /// Number of the receiver's connection.
    pub connection: u32,
}

/// Deliveries of one message, and its mishaps on the way.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// Mishaps by chance.
    pub mishaps: Vec<(NodeId, Mishap)>,
}

impl Network {
    /// Makes a bus without connections.
    #[must_use]
    pub fn new(seed: u64, ways: Ways) -> Self {
        Self {
            ways,
            broker_up: true,
            blocked: BTreeSet::new(),
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            logins: BTreeMap::new(),
            links: BTreeMap::new(),
            seed,
            keys: BTreeMap::new(),
            receivers: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Gives a node the key of its links' random sources.
    pub(crate) fn know(&mut self, node: NodeId, key: u64) {
        self.keys.insert(node, key);
    }

    /// True if a node's connection is up.
    #[must_use]
    pub(crate) fn connected(&self, node: NodeId) -> bool {
        self.broker_up && !self.cut.contains(&node)
    }

    /// True if the broker is up.
    #[must_use]
    pub(crate) fn broker_up(&self) -> bool {
        self.broker_up
    }

    /// True if messages go from one node to another.
    #[must_use]
    pub(crate) fn open(&self, from: NodeId, to: NodeId) -> bool {
        self.connected(from) && self.connected(to) && !self.blocked.contains(&(from, to))
    }

    /// Number of a node's current connection.
    #[must_use]
    pub(crate) fn connection(&self, node: NodeId) -> u32 {
        self.connections.get(&node).copied().unwrap_or(0)
    }

    /// Notes that a node has connected with a login.
    pub(crate) fn log_in(&mut self, node: NodeId, login: AllowedSubjects) {
        self.logins.insert(node, login);
    }

    /// True if a node's login lets it publish on a subject.
    #[must_use]
    pub(crate) fn may_say(&self, node: NodeId, subject: &str) -> bool {
        let login = self.logins.get(&node);
        login.is_none_or(|login| subject.starts_with(&login.says))
    }

    /// Subscribes a node to a subject pattern (`*` one token, `>` the rest), if its login allows it.
    pub(crate) fn subscribe(&mut self, node: NodeId, pattern: String) {
        let login = self.logins.get(&node);
        if login.is_some_and(|login| !pattern.starts_with(&login.hears)) {
            return;
        }
        self.receivers.clear();
        self.subscriptions.entry(node).or_default().insert(pattern);
    }

    /// Ends a node's subscription to a pattern.
    pub(crate) fn unsubscribe(&mut self, node: NodeId, pattern: &str) {
        self.receivers.clear();
        if let Some(patterns) = self.subscriptions.get_mut(&node) {
            patterns.remove(pattern);
        }
    }

    /// Removes a dead node from the bus.
    pub(crate) fn drop_node(&mut self, node: NodeId) {
        self.receivers.clear();
        self.subscriptions.remove(&node);
        self.logins.remove(&node);
        self.cut.remove(&node);
        *self.connections.entry(node).or_default() += 1;
    }

    /// Blocks one direction of a link.
    pub fn block(&mut self, from: NodeId, to: NodeId) {
        self.blocked.insert((from, to));
    }

    /// Unblocks one direction of a link.
    pub fn unblock(&mut self, from: NodeId, to: NodeId) {
        self.blocked.remove(&(from, to));
    }

    /// Cuts a node's connection; messages in flight to it are lost.
    pub(crate) fn cut(&mut self, node: NodeId) {
        self.cut.insert(node);
        *self.connections.entry(node).or_default() += 1;
    }

    /// Restores a node's connection.
    pub(crate) fn restore(&mut self, node: NodeId) {
        self.cut.remove(&node);
    }

    /// Takes the broker down; all messages in flight are lost.
    pub(crate) fn broker_down(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.broker_up = false;
        for node in nodes {
            *self.connections.entry(node).or_default() += 1;
        }
    }

    /// Brings the broker back.
    pub(crate) fn broker_back(&mut self) {
        self.broker_up = true;
    }

    /// Loss of messages on the links, per thousand.
    pub(crate) fn loss(&self) -> u64 {
        match &self.ways {
            Ways::Lossy(lossy) => lossy.loss,
            Ways::Jittered(_) => 0,
        }
    }

    fn receivers(&mut self, subject: &Rc<str>) -> Rc<[NodeId]> {
        if let Some(known) = self.receivers.get(subject) {
            return known.clone();
        }
        let hears = |patterns: &BTreeSet<String>| patterns.iter().any(|it| matches(it, subject));
        let subscriptions = self.subscriptions.iter();
        let receivers: Rc<[NodeId]> = subscriptions
            .filter(|(_, patterns)| hears(patterns))
            .map(|(node, _)| *node)
            .collect();
        self.receivers.insert(subject.clone(), receivers.clone());
        receivers
    }

    /// The deliveries of a message that is published now.
    pub(crate) fn route(&mut self, now: Nanos, from: NodeId, subject: &Rc<str>) -> Route {
        let mut route = Route::default();
        if !self.may_say(from, subject) {
            return route;
        }
        for to in self.receivers(subject).iter() {
            if self.open(from, *to) {
                self.link(now, from, *to, &mut route);
            }
        }
        route
    }

    fn link(&mut self, now: Nanos, from: NodeId, to: NodeId, route: &mut Route) {
        let connection = self.connection(to);
        let key = |node| self.keys.get(&node).copied().unwrap_or_default();
        let purpose = key(from) << 32 | key(to);
        let link = self.links.entry((from, to)).or_insert_with(|| Link {
            last: 0,
            random: Random::of(self.seed, purpose),
        });
        let lossy = match &mut self.ways {
            Ways::Lossy(lossy) => *lossy,
            Ways::Jittered(jitter) => {
                // A node's message to itself goes over no link.
                let way = if from == to { 0 } else { jitter.draw() };
                self.sent += u64::from(from != to);
                link.last = (now + way).max(link.last);
                let at = link.last;
                return route.deliveries.push(Delivery { at, to, connection });
            }
        };
        self.sent += 1;
        let Link { last, random } = link;
        if random.chance(lossy.loss) {
            route.mishaps.push((to, Mishap::Lost));
            return;
        }
        let arrival = now + random.between(20 * MICRO, lossy.delay.max(20 * MICRO));
        let at = if random.chance(lossy.reordered) {
            route.mishaps.push((to, Mishap::Late));
            arrival + random.between(0, lossy.late)
        } else {
            *last = arrival.max(*last);
            *last
        };
        let deliveries = &mut route.deliveries;
        deliveries.push(Delivery { at, to, connection });
        if random.chance(lossy.duplicates) {
            route.mishaps.push((to, Mishap::Doubled));
            let at = arrival + random.between(0, lossy.late);
            deliveries.push(Delivery { at, to, connection });
        }
    }
}

/// True if a subject matches a pattern.
fn matches(pattern: &str, subject: &str) -> bool {
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
    use bus_schemas::subject::ToLeader;

    use super::*;
    use crate::MILLI;

    fn pair(lossy: Lossy) -> Network {
        let mut network = Network::new(3, Ways::Lossy(lossy));
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
    fn fair_links_keep_order_and_lose_nothing() {
        let mut network = pair(Lossy::FAIR);
        let mut last = 0;
        for now in 0..500 {
            let deliveries = network.route(now, NodeId(0), &Rc::from("a.b.c")).deliveries;
            assert_eq!(deliveries.len(), 1);
            assert!(deliveries[0].at >= last);
            last = deliveries[0].at;
        }
    }

    #[test]
    fn a_tenant_says_and_hears_what_is_its_own_and_nothing_else() {
        let (subjects, tenant) = (
            Subjects::new(&"lab".parse().unwrap()),
            "one".parse().unwrap(),
        );
        let mut network = Network::new(3, Ways::Lossy(Lossy::FAIR));
        network.log_in(NodeId(1), AllowedSubjects::of(&subjects, &tenant));
        network.subscribe(NodeId(1), subjects.all());
        network.subscribe(NodeId(1), subjects.tenant_inbound(&tenant));
        network.subscribe(NodeId(2), subjects.all());
        let mut heard = |from, subject: String| {
            let route = network.route(0, NodeId(from), &subject.into());
            let to = route.deliveries.iter().map(|delivery| delivery.to.0);
            to.collect::<Vec<_>>()
        };
        let other = "other".parse().unwrap();
        let open = |tenant| subjects.to_leader(tenant, ToLeader::Open);
        assert_eq!(heard(1, open(&tenant)), [2]);
        assert_eq!(heard(1, open(&other)), []);
        assert_eq!(heard(1, subjects.leader_beat()), []);
        assert_eq!(heard(0, subjects.term(&tenant)), [1, 2]);
        assert_eq!(heard(0, subjects.term(&other)), [2]);
        assert_eq!(heard(0, open(&tenant)), [2]);
    }

    #[test]
    fn bad_links_lose_double_and_reorder() {
        let mut network = pair(Lossy {
            loss: 200,
            duplicates: 200,
            reordered: 200,
            late: MILLI,
            delay: 100 * MICRO,
        });
        let (mut lost, mut doubled, mut overtaken, mut last) = (0, 0, 0, 0);
        for step in 0..500 {
            let route = network.route(step * MICRO, NodeId(0), &Rc::from("a.b.c"));
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
        let mut network = pair(Lossy::FAIR);
        network.block(NodeId(0), NodeId(1));
        assert!(
            network
                .route(0, NodeId(0), &Rc::from("a.b.c"))
                .deliveries
                .is_empty()
        );
        assert!(network.open(NodeId(1), NodeId(0)));
        network.unblock(NodeId(0), NodeId(1));
        network.cut(NodeId(1));
        assert!(
            network
                .route(0, NodeId(0), &Rc::from("a.b.c"))
                .deliveries
                .is_empty()
        );
        assert!(!network.open(NodeId(1), NodeId(0)));
        network.restore(NodeId(1));
        assert_eq!(
            network
                .route(0, NodeId(0), &Rc::from("a.b.c"))
                .deliveries
                .len(),
            1
        );
    }
}
