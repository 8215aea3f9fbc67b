//! The mover: a thread that moves sessions' memory, one session after another, and drops closed sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bus_schemas::{Code, Failure, SessionId};
use device::SwapUse;

use crate::gate::Gate;
use crate::keep::{Keep, Kept};
use crate::movable::Movable;
use crate::progress::{Part, Progress};
use crate::space::SwapSpace;

/// Time without moves after which free pages of the swap space go back to the host.
const QUIET: Duration = Duration::from_secs(2);
/// Interval at which a waiter checks that the thread still runs.
const LOOK: Duration = Duration::from_millis(50);

/// A session to be moved.
#[derive(Debug)]
pub(crate) struct Move<M> {
    pub(crate) session: SessionId,
    pub(crate) what: M,
    /// True for a move to the swap space, false for one back.
    pub(crate) out: bool,
    pub(crate) kept: Kept,
    pub(crate) gate: Arc<Gate>,
}

/// A move that has ended.
#[derive(Debug)]
pub(crate) struct Ended<M> {
    pub(crate) of: Move<M>,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// The failure, if the session is where it was.
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug)]
enum Job<M> {
    Move(Move<M>),
    /// A closed session with its stored bytes, which take a while to give back.
    Drop(M, Kept),
}

#[derive(Debug)]
struct Desk<M> {
    jobs: VecDeque<Job<M>>,
    /// The gate of the move in progress.
    current: Option<Arc<Gate>>,
    /// True while a closed session is being dropped.
    dropping: bool,
    ended: Vec<Ended<M>>,
    over: bool,
}

impl<M> Desk<M> {
    /// True while something is left of a closed session.
    fn is_leaving(&self) -> bool {
        let waits = self.jobs.iter().any(|job| matches!(job, Job::Drop(..)));
        let moves = self.current.as_ref().is_some_and(|gate| gate.is_closed());
        waits || moves || self.dropping
    }
}

#[derive(Debug)]
struct Shared<M> {
    desk: Mutex<Desk<M>>,
    changed: Condvar,
    space: Arc<SwapSpace>,
    progress: Progress,
}

impl<M> Shared<M> {
    fn desk(&self) -> MutexGuard<'_, Desk<M>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, and gives free pages back if nothing does for a while.
    fn wait<'d>(&'d self, desk: MutexGuard<'d, Desk<M>>) -> MutexGuard<'d, Desk<M>> {
        if !self.space.has_slack() {
            let waited = self.changed.wait(desk);
            return waited.unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.changed.wait_timeout(desk, QUIET);
        let (desk, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if !waited.timed_out() {
            return desk;
        }
        drop(desk);
        self.space.trim(|| self.desk().jobs.is_empty());
        self.desk()
    }
}

/// The thread and its jobs. It starts with the first move, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Mover<M: Movable> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Movable> Mover<M> {
    pub(crate) fn new(space: SwapSpace) -> Self {
        let desk = Desk {
            jobs: VecDeque::new(),
            current: None,
            dropping: false,
            ended: Vec::new(),
            over: false,
        };
        Self {
            shared: Arc::new(Shared {
                desk: Mutex::new(desk),
                changed: Condvar::new(),
                space: Arc::new(space),
                progress: Progress::default(),
            }),
            thread: None,
        }
    }

    /// Starts the thread, unless it runs.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = Builder::new().name("warploom-mover".into());
            let started = thread.spawn(move || work(&shared));
            self.thread = Some(started.map_err(|error| {
                let detail = format!("the host gives no thread that moves memory: {error}");
                Failure::new(Code::OutOfMemory, detail)
            })?);
        }
        Ok(())
    }

    /// Queues a move of a session behind earlier ones.
    pub(crate) fn begin(&self, of: Move<M>) {
        self.shared.desk().jobs.push_back(Job::Move(of));
        self.shared.changed.notify_all();
    }

    /// Drops a closed session that is not moving.
    pub(crate) fn drop_session(&self, what: M, kept: Kept) {
        // It goes before the moves, because they may need the memory that it frees.
        self.shared.desk().jobs.push_front(Job::Drop(what, kept));
        self.shared.changed.notify_all();
    }

    /// Handles the close of a moving session. A move in progress ends early, and its session is dropped. The
    /// call waits for that, because the session's memory on the device belongs to others afterwards. If the
    /// move has not begun, or has ended, returns the session to drop.
    pub(crate) fn close(&self, gate: &Arc<Gate>) -> Option<(M, Kept)> {
        gate.close();
        let mut desk = self.shared.desk();
        let is_it = |of: &Move<M>| Arc::ptr_eq(&of.gate, gate);
        let waits = |job: &Job<M>| matches!(job, Job::Move(of) if is_it(of));
        if let Some(at) = desk.jobs.iter().position(waits) {
            return match desk.jobs.remove(at)? {
                Job::Move(of) => Some((of.what, of.kept)),
                Job::Drop(what, kept) => Some((what, kept)),
            };
        }
        if let Some(at) = desk.ended.iter().position(|ended| is_it(&ended.of)) {
            let of = desk.ended.remove(at).of;
            return Some((of.what, of.kept));
        }
        drop(desk);
        self.wait_for_closed();
        None
    }

    /// Waits until all closed sessions are gone.
    pub(crate) fn wait_for_closed(&self) {
        let mut desk = self.shared.desk();
        let runs = |thread: &JoinHandle<()>| !thread.is_finished();
        while self.thread.as_ref().is_some_and(runs) {
            if !desk.is_leaving() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(desk, LOOK);
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True while something is left of a closed session.
    pub(crate) fn is_leaving(&self) -> bool {
        let runs = |thread: &JoinHandle<()>| !thread.is_finished();
        self.thread.as_ref().is_some_and(runs) && self.shared.desk().is_leaving()
    }

    /// Takes the moves that have ended since the last call.
    pub(crate) fn ended(&self) -> Vec<Ended<M>> {
        std::mem::take(&mut self.shared.desk().ended)
    }

    /// The space into which it moves bytes.
    #[cfg(test)]
    pub(crate) fn space(&self) -> Arc<SwapSpace> {
        Arc::clone(&self.shared.space)
    }

    pub(crate) fn used(&self) -> SwapUse {
        SwapUse {
            moving: self.shared.progress.read(),
            ..self.shared.space.used()
        }
    }
}

impl<M: Movable> Drop for Mover<M> {
    fn drop(&mut self) {
        let mut desk = self.shared.desk();
        desk.over = true;
        if let Some(gate) = desk.current.clone() {
            drop(desk);
            gate.close();
        } else {
            drop(desk);
        }
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The thread's loop.
fn work<M: Movable>(shared: &Shared<M>) {
    let mut desk = shared.desk();
    while !desk.over {
        match desk.jobs.pop_front() {
            None => desk = shared.wait(desk),
            Some(Job::Drop(what, kept)) => {
                desk.dropping = true;
                drop(desk);
                drop((what, kept));
                desk = shared.desk();
                desk.dropping = false;
                shared.changed.notify_all();
            }
            Some(Job::Move(of)) => {
                desk.current = Some(Arc::clone(&of.gate));
                drop(desk);
                let ended = carry(shared, of);
                desk = shared.desk();
                desk.current = None;
                // A move can be reported only once it is on the desk, so this is decided with the desk
                // locked.
                match ended.of.gate.is_closed() {
                    true => desk
                        .jobs
                        .push_front(Job::Drop(ended.of.what, ended.of.kept)),
                    false => desk.ended.push(ended),
                }
            }
        }
    }
}

/// Moves one session.
fn carry<M: Movable>(shared: &Shared<M>, mut of: Move<M>) -> Ended<M> {
    let began = Instant::now();
    let moved = match of.out {
        true => out(shared, &mut of),
        false => back(shared, &mut of),
    };
    let (bytes, failure) = match moved {
        Ok(bytes) => (bytes, None),
        Err(failure) => (0, Some(failure)),
    };
    let took = began.elapsed();
    Ended {
        of,
        bytes,
        took,
        failure,
    }
}

/// Takes a session's bytes out, all or none. Returns their number.
fn out<M: Movable>(shared: &Shared<M>, of: &mut Move<M>) -> Result<u64, Failure> {
    let bytes = of.what.bytes();
    if bytes > shared.space.left() {
        return Err(shared.space.no_room(bytes));
    }
    let part = Part::of(&shared.progress, bytes);
    let taken = of
        .what
        .take_out(&mut keep(shared, &of.gate, part, &mut of.kept));
    let moved = stored(&of.kept);
    match taken {
        Ok(()) => Ok(moved),
        Err(failure) => match bring(shared, of) {
            Ok(_) => Err(failure),
            // If that fails too, the session is out, with a part still on the device, until it is brought in.
            Err(_) => Ok(moved),
        },
    }
}

/// Brings a session's bytes back, all or none. Returns their number.
fn back<M: Movable>(shared: &Shared<M>, of: &mut Move<M>) -> Result<u64, Failure> {
    let failure = match bring(shared, of) {
        Ok(bytes) => return Ok(bytes),
        Err(failure) => failure,
    };
    if !of.gate.is_closed() {
        // The room of pieces that came is still there. Pieces that cannot leave stay on the device until the
        // next try.
        let mut again = Kept::new();
        let part = Part::of(&shared.progress, of.what.bytes());
        drop(
            of.what
                .take_out(&mut keep(shared, &of.gate, part, &mut again)),
        );
        // For a piece that came in part, the stored bytes are right.
        again.append(&mut of.kept);
        of.kept = again;
    }
    Err(failure)
}

/// Brings pieces in, until all are there or one fails.
fn bring<M: Movable>(shared: &Shared<M>, of: &mut Move<M>) -> Result<u64, Failure> {
    let mut part = Part::of(&shared.progress, stored(&of.kept));
    let (mut bytes, mut piece) = (0, Vec::new());
    while let Some((address, stored)) = of.kept.pop_front() {
        let what = &mut of.what;
        let came = of.gate.through(|| ()).and_then(|()| {
            stored.read(&mut piece, |at, bytes| {
                what.bring_in(address + at as u64, bytes)
            })
        });
        if let Err(failure) = came {
            of.kept.push_front((address, stored));
            return Err(failure);
        }
        bytes += stored.len() as u64;
        part.count(stored.len() as u64);
    }
    Ok(bytes)
}

fn stored(kept: &Kept) -> u64 {
    kept.iter().map(|(_, stored)| stored.len() as u64).sum()
}

fn keep<'m, M>(
    shared: &'m Shared<M>,
    gate: &'m Gate,
    part: Part<'m>,
    kept: &'m mut Kept,
) -> Keep<'m> {
    let space = &shared.space;
    Keep {
        space,
        gate,
        part,
        kept,
    }
}
