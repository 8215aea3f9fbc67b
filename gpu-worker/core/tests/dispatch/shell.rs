//! A shell for the dispatch: sessions with modules and transfers that become ready on command.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, CostRun, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, SessionId};
use gpu_worker_core::Dispatch;
use gpu_worker_core::dispatch::{
    Action, ClaimAnswer, Event, ImageState, LaunchNeeds, Limits, ModuleBytes, SessionReader,
    Submission, TransferState,
};
use gpu_worker_core::sequencer::StartAction;

pub(crate) const MIB: u64 = 1 << 20;

/// A function of every module with blocks of a MiB each; blocks of the other functions take nothing.
pub(crate) const WIDE: u32 = 3;
/// Number of functions of a module.
const FUNCTIONS: u32 = 4;

pub(crate) type Todo = Action<Vec<Op>>;

/// The shell's state of a session.
#[derive(Debug, Default, Clone)]
pub(crate) struct Have {
    pub(crate) transfers: BTreeMap<u64, TransferState>,
    pub(crate) images: BTreeMap<ModuleHash, ImageState<ModuleHash>>,
    pub(crate) told: BTreeSet<ModuleHash>,
    /// Number of images of this tenant that sessions may be charged for beside those they have.
    pub(crate) spare_images: Option<usize>,
    /// Number of launches that were looked at.
    pub(crate) looked: Cell<u32>,
    next: OpNumber,
}

impl SessionReader for &Have {
    type Ops = Vec<Op>;
    type Module = ModuleHash;

    fn ops(&self, ops: &Vec<Op>) -> impl Iterator<Item = Op> {
        ops.iter().copied()
    }

    fn transfer(&self, transfer: u64) -> TransferState {
        let transfer = self.transfers.get(&transfer);
        transfer.copied().unwrap_or(TransferState::Gone)
    }

    fn fingerprint(&self, transfer: u64) -> Option<u64> {
        self.transfers.get(&transfer).map(|_| transfer)
    }

    fn image(&self, hash: ModuleHash) -> ImageState<ModuleHash> {
        let image = self.images.get(&hash).cloned();
        image.unwrap_or(ImageState::Unknown)
    }

    fn has_image(&self, hash: ModuleHash) -> bool {
        self.told.contains(&hash)
    }

    fn denied(&self, _: ModuleHash, others: &[ModuleHash]) -> Option<Failure> {
        let most = self.spare_images?;
        (self.told.len() + others.len() >= most).then(|| failure(Code::ModuleShare))
    }

    fn module_bytes(&self, _: &ModuleHash) -> ModuleBytes {
        ModuleBytes::default()
    }

    fn kernel(&self, module: &ModuleHash, launch: &Launch) -> Option<LaunchNeeds> {
        self.looked.set(self.looked.get() + 1);
        (launch.function < FUNCTIONS).then(|| LaunchNeeds {
            key: key(*module, launch),
            block: if launch.function == WIDE { MIB } else { 0 },
        })
    }
}

fn key(module: ModuleHash, launch: &Launch) -> KernelKey {
    KernelKey(u64::from(module.0[0]) << 32 | u64::from(launch.function))
}

pub(crate) fn failure(code: Code) -> Failure {
    Failure::new(code, "for a test")
}

pub(crate) fn image(name: u8) -> ModuleHash {
    ModuleHash([name; 32])
}

pub(crate) fn load(slot: u32, name: u8) -> Op {
    let hash = image(name);
    Op::LoadModule { slot, hash }
}

pub(crate) fn staged(transfer: u64, bytes: u64) -> Op {
    Op::CopyIn {
        address: 0,
        bytes,
        transfer,
    }
}

/// A launch of one block.
pub(crate) fn launch(module: u32, function: u32) -> Op {
    Op::Launch(Launch {
        module,
        function,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    })
}

/// Cost that ops without launches declare.
pub(crate) fn declared(ops: &[Op]) -> u64 {
    let sums = ops
        .iter()
        .map(|op| CostRun::of(op, KernelKey(0)).declared());
    sums.fold(0, u64::wrapping_add)
}

pub(crate) fn slice(session: u64, first: OpNumber, ops: &[Op]) -> StartAction {
    StartAction {
        position: first,
        session: SessionId(session),
        priority: 1,
        first,
        last: first + ops.len() as u64 - 1,
        declared: None,
        cost: 1_000,
        epoch: 1,
    }
}

/// The dispatch and the sessions it reads.
pub(crate) struct Shell {
    pub(crate) dispatch: Dispatch<Vec<Op>, ModuleHash>,
    pub(crate) sessions: BTreeMap<SessionId, Have>,
}

impl Shell {
    /// Creates a shell with these sessions.
    pub(crate) fn new(sessions: impl IntoIterator<Item = u64>) -> Self {
        let limits = Limits {
            blocks: 8,
            small_launch: 256 << 10,
            launch_bytes: 4 * MIB,
        };
        let have = |session| (SessionId(session), Have::default());
        Self {
            dispatch: Dispatch::new(limits),
            sessions: sessions.into_iter().map(have).collect(),
        }
    }

    pub(crate) fn session(&mut self, session: u64) -> &mut Have {
        self.sessions.get_mut(&SessionId(session)).unwrap()
    }

    /// Adds an image that the session's tenant sent, and that the session's client got word of.
    pub(crate) fn image(&mut self, session: u64, name: u8, state: ImageState<ModuleHash>) {
        let have = self.session(session);
        have.images.insert(image(name), state);
        have.told.insert(image(name));
    }

    pub(crate) fn ready(&mut self, session: u64, name: u8) {
        self.image(session, name, ImageState::Ready(image(name)));
    }

    pub(crate) fn tell(&mut self, event: Event<Vec<Op>>) -> Vec<Todo> {
        self.dispatch.handle(event);
        let mut all = Vec::new();
        while let Some(action) = self.dispatch.next_action(|id| self.sessions.get(&id)) {
            if let Action::Submit(submission) = &action {
                self.carry_out(submission);
            }
            all.push(action);
        }
        all
    }

    /// Carries out a submission as a shell does: uses up transfers, and charges for images.
    fn carry_out(&mut self, submission: &Submission<Vec<Op>>) {
        let session = self.sessions.get_mut(&submission.start.session).unwrap();
        for copy in &submission.copies {
            session.transfers.remove(&copy.transfer);
        }
        session.told.extend(&submission.loaded);
    }

    /// Starts the next slice of a session.
    pub(crate) fn start(&mut self, session: u64, ops: &[Op]) -> Vec<Todo> {
        let next = self.sessions.get_mut(&SessionId(session));
        let mut next = next.map(|have| &mut have.next);
        let first = next.as_ref().map_or(1, |next| **next + 1);
        if let Some(next) = &mut next {
            **next += ops.len() as u64;
        }
        self.tell(Event::Started(slice(session, first, ops), ops.to_vec()))
    }

    pub(crate) fn changed(&mut self) -> Vec<Todo> {
        self.tell(Event::Changed)
    }

    pub(crate) fn stop(&mut self, session: u64) -> Vec<Todo> {
        let (session, why) = (SessionId(session), failure(Code::SessionGone));
        self.tell(Event::Stopped { session, why })
    }

    pub(crate) fn admit(&mut self, session: u64, first: OpNumber) -> Vec<Todo> {
        self.tell(Event::Admitted(ClaimAnswer {
            session: SessionId(session),
            first,
            refused: None,
            launch_bytes: Vec::new(),
            later: false,
        }))
    }
}

/// An action, with its session and its first op.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Asks(u64, OpNumber),
    Submits(u64, OpNumber),
    SwapsOut(u64),
    Wants(u64),
}

pub(crate) fn did(actions: &[Todo]) -> Vec<Did> {
    let did = actions.iter().map(|action| match action {
        Action::Ask(question) => Did::Asks(question.session.0, question.first),
        Action::Submit(it) => Did::Submits(it.start.session.0, it.start.first),
        Action::SwapOut { session } => Did::SwapsOut(session.0),
        Action::Want { session, .. } => Did::Wants(session.0),
    });
    did.collect()
}

/// The only action, which must submit a slice.
pub(crate) fn submitted(actions: Vec<Todo>) -> Submission<Vec<Op>> {
    match <[_; 1]>::try_from(actions) {
        Ok([Action::Submit(submission)]) => submission,
        other => panic!("not one submission: {other:?}"),
    }
}

/// The op at which a submission fails, and the code.
pub(crate) fn fails(submission: &Submission<Vec<Op>>) -> Option<(OpNumber, Code)> {
    let fail_at = submission.fail_at.as_ref();
    fail_at.map(|(op, failure)| (*op, failure.code))
}
