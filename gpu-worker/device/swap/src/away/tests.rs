//! Moves of sessions that consist only of bytes; a test can hold up one of them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;
use crate::config::SwapConfig;
use crate::keep::Keep;

/// Bytes of a piece.
const PIECE: usize = 4096;

/// A session of some pieces, by address; `None` for a piece that is out.
#[derive(Debug)]
struct Fake {
    pieces: Vec<Option<Vec<u8>>>,
    /// The piece that cannot come in, if set.
    full: Arc<std::sync::Mutex<Option<u64>>>,
    fault: Option<Failure>,
    /// Reports the piece that a move has reached, and waits until it may go on.
    held_up: Option<(Sender<usize>, Receiver<()>)>,
    /// Signals that it is dropped.
    gone: Sender<()>,
}

impl Movable for Fake {
    fn window(&self) -> Window {
        Window {
            base: 0,
            size: 1 << 21,
        }
    }

    fn allocated(&self) -> u64 {
        (self.pieces.len() * PIECE) as u64
    }

    fn fault(&self) -> Option<Failure> {
        self.fault.clone()
    }

    fn stop(&mut self, why: Failure) {
        self.fault.get_or_insert(why);
    }

    fn printed(&mut self) -> Vec<u8> {
        b"said".to_vec()
    }

    fn bytes(&self) -> u64 {
        (self.pieces.iter().flatten().count() * PIECE) as u64
    }

    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure> {
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            let Some(bytes) = piece else { continue };
            if let Some((says, may)) = &self.held_up {
                says.send(at).expect("the test listens");
                may.recv().expect("the test answers");
            }
            keep.piece(at as u64, bytes)?;
            *piece = None;
        }
        Ok(())
    }

    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        if *self.full.lock().expect("no panic") == Some(address) {
            return Err(Failure::new(Code::OutOfMemory, "the device is full"));
        }
        self.pieces[address as usize] = Some(bytes.to_vec());
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.gone.send(());
    }
}

struct Stage {
    away: Away<Fake>,
    full: Arc<std::sync::Mutex<Option<u64>>>,
    gone: Receiver<()>,
    drops: Sender<()>,
}

const ONE: SessionId = SessionId(1);
const TWO: SessionId = SessionId(2);

impl Stage {
    fn new(room: usize) -> Self {
        let config = SwapConfig {
            memory: (room * PIECE) as u64,
            file: None,
        };
        let (drops, gone) = channel();
        let mut away = Away::new(SwapSpace::new(&config).expect("the host has it"));
        away.ready().expect("a swap space");
        let full = Arc::default();
        Self {
            away,
            full,
            gone,
            drops,
        }
    }

    fn fake(&self, pieces: usize) -> Fake {
        let piece = |at: usize| Some(vec![at as u8 + 1; PIECE]);
        Fake {
            pieces: (0..pieces).map(piece).collect(),
            full: Arc::clone(&self.full),
            fault: None,
            held_up: None,
            gone: self.drops.clone(),
        }
    }

    fn out(&mut self, session: SessionId, what: Fake) {
        assert!(self.away.swap_out(session, what, 77).is_none());
    }

    /// Returns the next move that ends.
    fn ended(&mut self) -> Returned<Fake> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(ended) = self.away.ended(&mut Vec::new()).pop() {
                return ended;
            }
            assert!(
                Instant::now() < until && self.away.is_moving(),
                "no move ends"
            );
            std::thread::yield_now();
        }
    }

    fn held(&self) -> u64 {
        self.away.used().expect("a swap space").memory.0 / PIECE as u64
    }
}

fn slice(session: SessionId, position: u64) -> Slice {
    Slice {
        position,
        session,
        priority: 0,
        first: position * 10,
        spans: Vec::new(),
        transfers: Vec::new(),
        fail_at: None,
        launch_bytes: Vec::new(),
    }
}

fn whole(fake: &Fake) -> bool {
    let right = |(at, piece): (usize, &Option<Vec<u8>>)| *piece == Some(vec![at as u8 + 1; PIECE]);
    fake.pieces.iter().enumerate().all(right)
}

#[test]
fn a_session_goes_and_comes_and_its_slices_wait() {
    let mut stage = Stage::new(8);
    let fake = stage.fake(5);
    stage.out(ONE, fake);
    assert_eq!(
        (stage.away.moving(), stage.away.has(ONE)),
        (5 * PIECE as u64, true)
    );
    let out = stage.ended();
    assert!(out.session.is_none() && out.moved.out && out.moved.failure.is_none());
    assert_eq!((out.moved.bytes, out.moved.resident), (5 * PIECE as u64, 0));
    assert_eq!((stage.held(), stage.away.moving()), (5, 0));
    assert!(stage.away.submit(slice(ONE, 3)).is_none());
    assert!(stage.away.submit(slice(TWO, 4)).is_some(), "it is not away");
    stage.away.swap_in(ONE, 5 * PIECE as u64 - 1);
    let mut refused = Vec::new();
    assert!(stage.away.ended(&mut refused).is_empty() && !stage.away.is_moving());
    assert!(
        !refused[0].out && refused[0].failure.is_some(),
        "no room for it"
    );
    stage.away.swap_in(ONE, 5 * PIECE as u64);
    stage.away.swap_in(ONE, u64::MAX);
    stage.away.swap_in(TWO, u64::MAX);
    let back = stage.ended();
    assert!(!back.moved.out && back.moved.failure.is_none());
    assert!(whole(&back.session.expect("it is back")));
    assert_eq!(back.slices.len(), 1);
    assert_eq!(
        (stage.held(), stage.away.has(ONE), stage.away.is_busy()),
        (0, false, false)
    );
    assert_eq!(stage.away.used().expect("a swap space").moving, (0, 0));
}

#[test]
fn what_does_not_fit_stays_whole_where_it_was() {
    let mut stage = Stage::new(4);
    let first = stage.fake(3);
    stage.out(ONE, first);
    stage.ended();
    let second = stage.fake(2);
    stage.out(TWO, second);
    let refused = stage.ended();
    assert!(
        refused
            .moved
            .failure
            .expect("no room")
            .detail
            .contains("no room for 8192")
    );
    assert!(refused.moved.out && whole(&refused.session.expect("where it was")));
    assert_eq!(stage.held(), 3);
    // The room goes while the session is on its way.
    stage.away.close(ONE);
    let (says, at) = channel();
    let (goes, may) = channel();
    let mut third = stage.fake(3);
    third.held_up = Some((says, may));
    stage.out(TWO, third);
    assert_eq!(at.recv(), Ok(0));
    let space = space_of(&stage);
    let taken = space.put(&[0; 2 * PIECE]).expect("room for four");
    for _ in 0..3 {
        goes.send(()).expect("it listens");
    }
    let refused = stage.ended();
    assert!(refused.moved.failure.is_some() && refused.moved.bytes == 0);
    assert!(whole(&refused.session.expect("brought back")));
    drop(taken);
    assert_eq!(stage.held(), 0);
}

fn space_of(stage: &Stage) -> Arc<SwapSpace> {
    stage.away.mover.as_ref().expect("a swap space").space()
}

#[test]
fn what_cannot_come_in_stays_out_whole() {
    let mut stage = Stage::new(4);
    let fake = stage.fake(4);
    stage.out(ONE, fake);
    stage.ended();
    *stage.full.lock().expect("no panic") = Some(2);
    stage.away.swap_in(ONE, u64::MAX);
    let failed = stage.ended();
    assert!(failed.session.is_none() && failed.moved.failure.is_some());
    assert_eq!(stage.held(), 4, "what came went again");
    *stage.full.lock().expect("no panic") = None;
    stage.away.swap_in(ONE, u64::MAX);
    assert!(whole(&stage.ended().session.expect("it is back")));
    assert_eq!(stage.held(), 0);
}

#[test]
fn a_session_that_is_closed_is_gone_and_told_nothing_of() {
    let mut stage = Stage::new(8);
    let (says, at) = channel();
    let (goes, may) = channel();
    let mut fake = stage.fake(5);
    fake.held_up = Some((says, may));
    stage.out(ONE, fake);
    assert_eq!(at.recv(), Ok(0));
    let waits = stage.fake(3);
    stage.out(TWO, waits);
    // One session in the middle of its move, and one that waits behind it.
    stage.away.close(TWO);
    let Place::Moving(gate) = &stage.away.sessions[&ONE].place else {
        panic!("it moves");
    };
    let (gate, away) = (Arc::clone(gate), &mut stage.away);
    std::thread::scope(|scope| {
        scope.spawn(|| away.close(ONE));
        while !gate.is_closed() {
            std::thread::yield_now();
        }
        goes.send(()).expect("it listens");
    });
    assert!(!stage.away.has(ONE) && !stage.away.is_moving());
    for _ in 0..2 {
        let gone = stage.gone.recv_timeout(Duration::from_secs(60));
        gone.expect("dropped");
    }
    stage.away.wait_for_closed();
    assert!(stage.away.ended(&mut Vec::new()).is_empty());
    assert_eq!(stage.held(), 0, "it ended early, and its room is free");
    assert!(at.recv().is_err(), "it has not asked for its second piece");
    // A session that is out.
    let fake = stage.fake(5);
    stage.out(ONE, fake);
    stage.ended();
    stage.away.close(ONE);
    stage.away.wait_for_closed();
    assert_eq!(stage.held(), 0);
    // A session with a move that has ended and was not reported yet.
    let fake = stage.fake(5);
    stage.out(ONE, fake);
    let until = Instant::now() + Duration::from_secs(60);
    while stage.held() < 5 {
        assert!(Instant::now() < until, "it does not go");
        std::thread::yield_now();
    }
    stage.away.close(ONE);
    stage.away.wait_for_closed();
    assert!(stage.away.ended(&mut Vec::new()).is_empty());
    assert_eq!(stage.held(), 0);
}

#[test]
fn slices_of_a_stopped_session_complete_though_it_is_away() {
    let mut stage = Stage::new(8);
    let why = || Failure::new(Code::Device, "stopped");
    let fake = stage.fake(2);
    stage.out(ONE, fake);
    stage.ended();
    assert!(stage.away.submit(slice(ONE, 1)).is_none() && !stage.away.is_busy());
    assert!(!stage.away.stop(TWO, why()) && stage.away.stop(ONE, why()));
    assert!(stage.away.is_busy());
    assert!(stage.away.submit(slice(ONE, 2)).is_none() && stage.away.is_busy());
    let mut completed = Vec::new();
    stage.away.completed(&mut completed);
    let faults: Vec<_> = completed
        .iter()
        .map(|done| (done.position, done.fault.clone()))
        .collect();
    assert_eq!(faults, [(1, Some((10, why()))), (2, Some((20, why())))]);
    assert_eq!(completed[0].printed, b"said");
    stage.away.swap_in(ONE, u64::MAX);
    let back = stage.ended().session.expect("it is back");
    assert_eq!((&back.fault, whole(&back)), (&Some(why()), true));
    // A session that was stopped before it was closed.
    stage.out(ONE, back);
    assert!(stage.away.submit(slice(ONE, 3)).is_none() && stage.away.is_busy());
    stage.away.close(ONE);
    assert!(!stage.away.is_busy(), "its close was its answer");
}

#[test]
fn without_a_swap_space_nobody_goes() {
    let mut away: Away<Fake> = Away::new(None);
    let failure = away.ready().expect_err("no swap space");
    assert!(failure.detail.contains("no swap space"), "{failure}");
    assert_eq!(away.used(), None);
}
