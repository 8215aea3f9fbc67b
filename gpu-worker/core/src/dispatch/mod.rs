//! The way of a started slice from [`sequencer::Action::Start`] until the device has it. `README.md` beside
//! this file describes its purpose and its design.
//!
//! [`sequencer::Action::Start`]: crate::sequencer::Action::Start

mod api;
mod away;
mod claims;
mod scan;
mod slots;

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Failure, ModuleHash, OpNumber, SessionId};

pub use api::{
    Action, Event, ImageState, LaunchNeeds, Limits, ModuleBytes, SessionReader, StagedCopy,
    Submission, TransferState,
};
pub use claims::{Claim, ClaimAnswer, Claims};

use crate::sequencer::StartAction;
use crate::weights::{LEAST, Touch};
use away::AwaySessions;
use scan::{Scanned, scan};
use slots::Slots;

/// Progress of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not scanned yet, or something that it uses is missing.
    Unscanned,
    /// It needs memory, and the pager was not asked.
    Needs,
    /// The pager was asked, and answers once memory is free: a later event may bring that.
    Asked,
    /// The pager made no decision; it is asked again after [`Event::Returned`], which may be a later event.
    Deferred,
    /// The device can have it.
    Ready,
}

/// A started slice that the device does not have.
#[derive(Debug)]
struct Slice<S, M> {
    start: StartAction,
    ops: S,
    progress: Progress,
    /// Result of the scan, from [`Progress::Needs`] on.
    scanned: Scanned<M>,
    /// Bytes that its launches may take, from the pager's answer on.
    launch_bytes: Vec<(OpNumber, u64)>,
}

/// State of a session, kept until the session is gone.
#[derive(Debug)]
struct Session<M> {
    slots: Slots<M>,
    /// The failure of its slices, if it is being closed.
    stopped: Option<Failure>,
}

impl<M> Default for Session<M> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            stopped: None,
        }
    }
}

/// Started slices on their way to the device. `S` is the shell's form of a slice's ops, `M` its form of a
/// module.
#[derive(Debug)]
pub struct Dispatch<S, M> {
    limits: Limits,
    /// Slices in the order of their starts.
    slices: VecDeque<Slice<S, M>>,
    sessions: BTreeMap<SessionId, Session<M>>,
    away: AwaySessions,
    /// The slice that the pager was asked about and has not answered.
    asked: Option<(SessionId, OpNumber)>,
    /// Position of the walk through the slices that the last event began.
    at: usize,
    /// Sessions with a slice that this walk has passed because it is not ready.
    held_back: Vec<SessionId>,
}

impl<S, M: Clone> Dispatch<S, M> {
    /// Creates a dispatch without slices for a device with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            slices: VecDeque::new(),
            sessions: BTreeMap::new(),
            away: AwaySessions::default(),
            asked: None,
            at: 0,
            held_back: Vec::new(),
        }
    }

    /// Handles an event. [`Dispatch::next_action`] returns the actions that follow.
    pub fn handle(&mut self, event: Event<S>) {
        match event {
            Event::Started(start, ops) => self.on_started(start, ops),
            Event::Changed => {}
            Event::Admitted(answer) => self.on_admitted(answer),
            Event::Stopped { session, why } => self.on_stopped(session, why),
            Event::Gone { session } => {
                self.forget_question(session);
                self.slices.retain(|slice| slice.start.session != session);
                self.sessions.remove(&session);
                self.away.remove(session);
            }
            Event::Leave { session, running } => self.on_leave(session, running),
            Event::Completed { session } => self.away.completed(session),
            Event::Returned { session } => {
                self.away.remove(session);
                self.look_again(session, Progress::Deferred);
            }
        }
        self.at = 0;
        self.held_back.clear();
    }

    /// Returns the next action; `None` until the next event. The worker carries it out before the next call,
    /// because it may change the result of `look`. `look` returns a session as the worker has it. A session
    /// that the worker does not know is gone, and its slices with it.
    pub fn next_action<V>(&mut self, look: impl Fn(SessionId) -> Option<V>) -> Option<Action<S>>
    where
        V: SessionReader<Ops = S, Module = M>,
    {
        if let Some(session) = self.away.take_left() {
            return Some(Action::SwapOut { session });
        }
        while let Some(slice) = self.slices.get_mut(self.at) {
            let session = slice.start.session;
            if self.held_back.contains(&session) {
                self.at += 1;
                continue;
            }
            let Some(view) = look(session) else {
                self.slices.remove(self.at);
                continue;
            };
            let known = self.sessions.get(&session);
            // A slice that fails at its first op does so wherever its session's memory is.
            let stopped = known.is_some_and(|known| known.stopped.is_some());
            if self.away.contains(session) && !stopped {
                let priority = slice.start.priority;
                self.held_back.push(session);
                self.at += 1;
                if self.away.want(session) {
                    return Some(Action::Want { session, priority });
                }
                continue;
            }
            slice.scan(&view, known.map(|known| &known.slots), &self.limits);
            match slice.progress {
                Progress::Ready => {
                    let slice = self.slices.remove(self.at)?;
                    self.away.submitted(session);
                    return Some(Action::Submit(self.submit(slice, &view)));
                }
                Progress::Needs if self.asked.is_none() => {
                    let claim = slice.ask();
                    self.asked = Some((session, claim.first));
                    self.held_back.push(session);
                    self.at += 1;
                    return Some(Action::Ask(claim));
                }
                Progress::Unscanned | Progress::Needs | Progress::Asked | Progress::Deferred => {
                    self.held_back.push(session);
                    self.at += 1;
                }
            }
        }
        None
    }

    /// True if a slot of the session holds the image, as of the slices submitted so far.
    #[must_use]
    pub fn has_loaded(&self, session: SessionId, hash: ModuleHash) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.slots.have(hash))
    }

    /// True if the dispatch needs [`Event::Completed`], because sessions are away.
    #[must_use]
    pub fn has_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// Number of slices that the device does not have yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.slices.len()
    }

    /// Number of sessions with state beside their slices.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn on_started(&mut self, start: StartAction, ops: S) {
        let mut slice = Slice {
            start,
            ops,
            progress: Progress::Unscanned,
            scanned: Scanned::default(),
            launch_bytes: Vec::new(),
        };
        let session = self.sessions.get(&start.session);
        if let Some(why) = session.and_then(|session| session.stopped.as_ref()) {
            slice.stop(why);
        }
        self.slices.push_back(slice);
    }

    /// Handles the pager's decision. An answer that no slice waits for changes nothing.
    fn on_admitted(&mut self, answer: ClaimAnswer) {
        let of = (answer.session, answer.first);
        if self.asked.take_if(|asked| *asked == of).is_none() {
            return;
        }
        let mut slices = self.slices.iter_mut();
        let asked = slices.find(|slice| (slice.start.session, slice.start.first) == of);
        if let Some(slice) = asked {
            if answer.later {
                slice.progress = Progress::Deferred;
                return;
            }
            slice.progress = Progress::Ready;
            slice.launch_bytes = answer.launch_bytes;
            let fails = slice.scanned.fail_at.take().into_iter();
            let fails = fails.chain(answer.refused);
            slice.scanned.fail_at = fails.min_by_key(|(op, _)| *op);
        }
    }

    /// Handles the close of a session: its work under way ends, and slices that wait for memory or a module
    /// wait no longer.
    fn on_stopped(&mut self, session: SessionId, why: Failure) {
        self.forget_question(session);
        let slices = self.slices.iter_mut();
        for slice in slices.filter(|slice| slice.start.session == session) {
            slice.stop(&why);
        }
        self.sessions.entry(session).or_default().stopped = Some(why);
    }

    /// Handles a session that leaves the device: its needs are scanned anew after the return.
    fn on_leave(&mut self, session: SessionId, running: usize) {
        self.forget_question(session);
        self.look_again(session, Progress::Asked);
        self.look_again(session, Progress::Deferred);
        let own = |slice: &&Slice<S, M>| slice.start.session == session;
        let here = self.slices.iter().filter(own).count();
        self.away.leave(session, running.saturating_sub(here));
    }

    /// Resets a session's slice with this progress, so that it is scanned and the pager asked anew.
    fn look_again(&mut self, session: SessionId, progress: Progress) {
        let mut slices = self.slices.iter_mut();
        let own = slices.find(|it| it.start.session == session && it.progress == progress);
        if let Some(slice) = own {
            slice.progress = Progress::Unscanned;
            slice.scanned = Scanned::default();
        }
    }

    /// Forgets the open question if it is of this session; the worker has withdrawn it.
    fn forget_question(&mut self, session: SessionId) {
        self.asked.take_if(|(asked, _)| *asked == session);
    }

    /// Builds the submission of a slice, and updates the session's slots to the state behind it.
    fn submit<V>(&mut self, slice: Slice<S, M>, view: &V) -> Submission<S>
    where
        V: SessionReader<Ops = S, Module = M>,
    {
        let (start, scanned) = (slice.start, slice.scanned);
        let (mut loaded, mut left) = (Vec::new(), Vec::new());
        for (slot, to) in scanned.changed {
            let kept = self.sessions.entry(start.session).or_default();
            loaded.extend(to.as_ref().map(|to| to.hash));
            left.extend(kept.slots.set(slot, to));
        }
        let end = scanned.fail_at.as_ref();
        let end = end.map_or(OpNumber::MAX, |(op, _)| *op);
        Submission {
            start,
            ops: slice.ops,
            touched: touched(scanned.touched, &scanned.copies, end, view),
            fail_at: scanned.fail_at,
            launch_bytes: slice.launch_bytes,
            copies: scanned.copies,
            declared: scanned.sum,
            loaded,
            left,
        }
    }
}

impl<S, M: Clone> Slice<S, M> {
    /// Scans the slice, unless that was done or something that it uses is missing.
    fn scan<V>(&mut self, view: &V, slots: Option<&Slots<M>>, limits: &Limits)
    where
        V: SessionReader<Ops = S, Module = M>,
    {
        if self.progress != Progress::Unscanned {
            return;
        }
        let Ok(scanned) = scan((&self.start, &self.ops), view, slots, limits) else {
            return;
        };
        self.progress = match scanned.needs.is_empty() {
            true => Progress::Ready,
            false => Progress::Needs,
        };
        self.scanned = scanned;
    }

    fn ask(&mut self) -> Claim {
        self.progress = Progress::Asked;
        Claim {
            session: self.start.session,
            first: self.start.first,
            needs: std::mem::take(&mut self.scanned.needs),
        }
    }

    /// Makes it fail at its first op and wait for nothing.
    fn stop(&mut self, why: &Failure) {
        self.progress = Progress::Ready;
        self.launch_bytes = Vec::new();
        self.scanned = Scanned {
            fail_at: Some((self.start.first, why.clone())),
            ..Scanned::default()
        };
    }
}

/// Changes of large allocations by the ops before `end`, in op order.
fn touched<V: SessionReader>(
    mut touched: Vec<(OpNumber, Touch)>,
    copies: &[StagedCopy],
    end: OpNumber,
    view: &V,
) -> Vec<(OpNumber, Touch)> {
    let large = copies.iter().filter(|copy| copy.bytes >= LEAST);
    touched.extend(large.take_while(|copy| copy.op < end).filter_map(|copy| {
        let copied = Touch::Copied {
            address: copy.address,
            bytes: copy.bytes,
            fingerprint: view.fingerprint(copy.transfer)?,
        };
        Some((copy.op, copied))
    }));
    touched.sort_by_key(|(op, _)| *op);
    touched.truncate(touched.partition_point(|(op, _)| *op < end));
    touched
}
