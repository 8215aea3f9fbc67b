//! The choice of the next server to try if there are several, and the time that it has to greet.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::ServerAddr;

/// Maximum pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);
/// Time that each server has to greet when it is tried for the first time.
const GREETING: Duration = Duration::from_secs(1);
/// Number of doublings of that time.
const DOUBLINGS: usize = 3;

/// Returns the pause before an attempt to connect.
pub(crate) fn pause(attempt: usize) -> Duration {
    match attempt {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(2_u64.saturating_pow(more.min(16) as u32)).min(PAUSE),
    }
}

/// Returns the time that a server has to greet, after this many rounds over all servers in which none
/// did. A server that hangs costs a second at first, and a starved machine gets in in the end.
fn greeting(rounds: usize) -> Duration {
    GREETING * (1_u32 << rounds.min(DOUBLINGS))
}

/// An attempt to connect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The server.
    pub(crate) addr: ServerAddr,
    /// Pause before the attempt.
    pub(crate) pause: Duration,
    /// Time that the server has to greet.
    pub(crate) greeting: Duration,
}

/// Goes through the servers in order, so that a client that leaves a server that hangs or is cut
/// off gets to another one.
#[derive(Debug, Default)]
pub(crate) struct Rotation(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<ServerAddr>,
    /// Number of servers tried since the last successful connection.
    tried: usize,
}

impl Rotation {
    /// Returns the next server to try.
    pub(crate) fn next(&self, pool: &[ServerAddr]) -> Option<Attempt> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The first server is random, so that not all clients connect to the same one.
        let drawn = || RandomState::new().hash_one(pool.len());
        let addr = state.choose(pool, drawn)?;
        Some(Attempt {
            addr,
            pause: state.pause(pool.len()),
            greeting: greeting(state.rounds(pool.len())),
        })
    }

    /// Notes a successful connection.
    pub(crate) fn connected(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.tried = 0;
    }
}

impl State {
    fn choose(&mut self, pool: &[ServerAddr], drawn: impl FnOnce() -> u64) -> Option<ServerAddr> {
        let servers = pool.len();
        if servers == 0 {
            return None;
        }
        let last = self.last.as_ref();
        let last = last.and_then(|last| pool.iter().position(|server| server == last));
        let next = match last {
            Some(last) => last + 1,
            None => drawn() as usize,
        };
        let next = pool[next % servers].clone();
        self.last = Some(next.clone());
        self.tried += 1;
        Some(next)
    }

    /// Number of vain rounds over all servers before this attempt.
    fn rounds(&self, servers: usize) -> usize {
        self.tried.saturating_sub(1) / servers
    }

    /// Each server is first tried without a pause, then with growing pauses.
    fn pause(&self, servers: usize) -> Duration {
        match self.rounds(servers) {
            0 => Duration::ZERO,
            rounds => pause(rounds + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ports: &[u16]) -> Vec<ServerAddr> {
        let server = |port: &u16| format!("nats://127.0.0.1:{port}").parse();
        ports.iter().map(server).collect::<Result<_, _>>().unwrap()
    }

    fn tried(state: &mut State, pool: &[ServerAddr], times: usize) -> Vec<u16> {
        let try_one = |_| state.choose(pool, || 1).unwrap().port();
        (0..times).map(try_one).collect()
    }

    #[test]
    fn every_server_has_its_turn() {
        let mut state = State::default();
        assert_eq!(tried(&mut state, &pool(&[1, 2, 3]), 4), [2, 3, 1, 2]);
        // More servers have become known, and one is gone.
        assert_eq!(tried(&mut state, &pool(&[1, 2, 4, 5]), 4), [4, 5, 1, 2]);
        assert_eq!(tried(&mut state, &pool(&[7]), 2), [7, 7]);
        assert_eq!(state.choose(&[], || 0), None);
    }

    #[test]
    fn each_vain_round_doubles_the_time_to_greet() {
        let (rotation, pool) = (Rotation::default(), pool(&[1, 2]));
        let seconds = || rotation.next(&pool).unwrap().greeting.as_secs();
        let first: Vec<_> = (0..11).map(|_| seconds()).collect();
        assert_eq!(first, [1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 8]);
        rotation.connected();
        assert_eq!(seconds(), 1, "a connection ends that");
        assert_eq!(greeting(usize::MAX), Duration::from_secs(8));
    }

    #[test]
    fn pauses_begin_when_all_were_tried() {
        let (mut state, pool) = (State::default(), pool(&[1, 2, 3]));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            state.choose(&pool, || 0);
            pauses.push(state.pause(3).as_millis());
        }
        assert_eq!(pauses, [0, 0, 0, 4, 4, 4, 8, 8, 8]);
    }
}
