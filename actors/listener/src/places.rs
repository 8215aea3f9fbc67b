//! Places for connections, bounded in total and per address. A new connection takes the place of
//! the one that has waited longest for its peer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::activity::{Activity, Answering};
use crate::origin::Origin;
use crate::timed::Timed;

/// Bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections from one address.
    pub share: usize,
    /// Maximum time of a write without progress.
    pub write: Duration,
}

/// The places of a listener.
#[derive(Debug, Clone)]
pub struct Places {
    bounds: Bounds,
    began: Instant,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    rows: HashMap<u64, Row>,
    next: u64,
}

#[derive(Debug)]
struct Row {
    origin: Origin,
    activity: Arc<Activity>,
}

impl Table {
    fn of(&self, origin: Origin) -> usize {
        let rows = self.rows.values();
        rows.filter(|row| row.origin == origin).count()
    }

    /// Returns the connection that gives way to a new one from `origin`; `None` if every candidate
    /// is being answered.
    fn yields(&self, origin: Origin, own: bool) -> Option<u64> {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for row in self.rows.values() {
            *counts.entry(row.origin).or_default() += 1;
        }
        let waiting = self
            .rows
            .iter()
            .filter(|(_, row)| (!own || row.origin == origin) && row.activity.waits());
        // Among the addresses with the most connections, the connection that has been idle longest.
        let first = waiting.max_by_key(|(number, row)| {
            let moved = row.activity.moved_ns();
            let many = counts.get(&row.origin).copied().unwrap_or(0);
            (many, u64::MAX - moved, u64::MAX - **number)
        });
        first.map(|(number, _)| *number)
    }
}

impl Places {
    /// Creates the places; all are free.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            began: Instant::now(),
            table: Arc::default(),
        }
    }

    /// Returns a place for a new connection of the address; `None` if all of its connections are
    /// being answered.
    #[must_use]
    pub fn admit(&self, peer: IpAddr) -> Option<ConnectionPlace> {
        let origin = Origin::from(peer);
        let mut table = self.table();
        let own = table.of(origin) >= self.bounds.share;
        if own || table.rows.len() >= self.bounds.connections {
            let yields = table.yields(origin, own)?;
            let row = table.rows.remove(&yields)?;
            row.activity.displaced.notify_one();
        }
        let activity = Arc::<Activity>::default();
        activity.moved(self.began.elapsed());
        let number = table.next;
        table.next += 1;
        let row = Row {
            origin,
            activity: Arc::clone(&activity),
        };
        table.rows.insert(number, row);
        Some(ConnectionPlace {
            places: self.clone(),
            number,
            activity,
        })
    }

    /// Number of connections.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.table().rows.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection, given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: Places,
    number: u64,
    activity: Arc<Activity>,
}

impl ConnectionPlace {
    /// Wraps the connection's stream: a write that makes no progress for too long ends the
    /// connection.
    #[must_use]
    pub fn timed<S>(&self, stream: S) -> Timed<S> {
        let (began, write) = (self.places.began, self.places.bounds.write);
        Timed::new(stream, Arc::clone(&self.activity), began, write)
    }

    /// Marks a request as being answered until the value is dropped. Meanwhile the connection keeps
    /// its place, as long as its peer takes the answer.
    #[must_use]
    pub fn answering(&self) -> Answering {
        Answering::of(&self.activity)
    }

    /// Completes when another connection has taken the place.
    pub async fn displaced(&self) {
        self.activity.displaced.notified().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.table().rows.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn places(connections: usize, share: usize) -> Places {
        Places::new(Bounds {
            connections,
            share,
            write: Duration::from_secs(1),
        })
    }

    fn is_displaced(place: &ConnectionPlace) -> bool {
        !place.places.table().rows.contains_key(&place.number)
    }

    fn all(places: &Places, peer: IpAddr, count: usize) -> Vec<ConnectionPlace> {
        let admitted = (0..count).map(|_| places.admit(peer));
        admitted.map(|place| place.expect("a place")).collect()
    }

    #[test]
    fn an_address_displaces_its_own_beyond_its_share_and_nothing_of_others() {
        let places = places(8, 3);
        let others = all(&places, OTHER, 3);
        let mine = all(&places, ONE, 10);
        let gone: Vec<_> = mine.iter().map(is_displaced).collect();
        assert_eq!(gone, [vec![true; 7], vec![false; 3]].concat());
        assert!(others.iter().all(|place| !is_displaced(place)));
        drop((mine, others));
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn when_all_are_taken_the_address_with_most_gives_way() {
        let places = places(4, 3);
        let many = all(&places, ONE, 3);
        let few = all(&places, OTHER, 1);
        let third = places.admit("192.0.2.3".parse().unwrap()).expect("a place");
        assert!(is_displaced(&many[0]) && !is_displaced(&many[1]));
        assert!(!is_displaced(&few[0]) && !is_displaced(&third));
    }

    #[test]
    fn what_is_answered_keeps_its_place_until_its_other_end_takes_nothing() {
        let places = places(4, 2);
        let mine = all(&places, ONE, 2);
        let answering: Vec<_> = mine.iter().map(ConnectionPlace::answering).collect();
        assert!(places.admit(ONE).is_none(), "both are being answered");
        assert!(places.admit(OTHER).is_some());
        mine[1].activity.set_blocked(true);
        let third = places.admit(ONE).expect("one takes nothing");
        assert!(is_displaced(&mine[1]) && !is_displaced(&mine[0]));
        drop(answering);
        mine[0].activity.moved(places.began.elapsed());
        let _fourth = places.admit(ONE).expect("both wait");
        assert!(is_displaced(&third), "it has moved nothing for longest");
    }

    #[tokio::test]
    async fn a_displaced_connection_is_told() {
        let places = places(1, 1);
        let first = places.admit(ONE).expect("a place");
        let _second = places.admit(ONE).expect("a place");
        first.displaced().await;
    }
}
