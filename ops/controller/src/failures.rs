//! The newest failures of sessions, as the record tells of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::{Epoch, InputNumber, KernelFault};
use scheduler_leader_core::replay::ReplayedFailure;
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum number of failures kept.
const KEPT: usize = 1_024;

/// A session that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FailureModel {
    /// The session, 16 hexadecimal digits.
    pub(crate) session: String,
    /// Its tenant.
    pub(crate) tenant: String,
    /// Its device.
    gpu: u32,
    /// The op that failed; null if none did.
    op: Option<u64>,
    /// Time at which the leader heard of it, milliseconds since 1970; null if not recorded.
    at_ms: Option<u64>,
    /// The stable code; docs/reference/errors.md lists them.
    #[schema(example = "E-KERNEL-ADDRESS")]
    code: String,
    /// The failure in words.
    text: String,
    /// The kernel's fault, if it was one and the device tells of it.
    kernel: Option<KernelFaultModel>,
}

/// A kernel's fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct KernelFaultModel {
    /// The kind in words.
    #[schema(example = "illegal address")]
    kind: String,
    /// The kernel.
    name: String,
    /// File of the source; null if the module was compiled without lines.
    file: Option<String>,
    /// Line of the source, from 1.
    line: Option<u32>,
    /// Line of the instruction in the module's PTX.
    ptx_line: u32,
    /// Index of the block in the grid.
    block: [u32; 3],
    /// Index of the thread in the block.
    thread: [u32; 3],
    /// The access, if it was one of memory.
    #[schema(example = "read of 4 bytes")]
    access: Option<String>,
    /// The accessed address, hexadecimal.
    #[schema(example = "0x7f0000001000")]
    address: Option<String>,
    /// An explanation: for an illegal address, the allocation that it missed. It may be empty.
    detail: String,
}

impl From<&KernelFault> for KernelFaultModel {
    fn from(fault: &KernelFault) -> Self {
        let source = fault.source();
        Self {
            kind: fault.kind().text().into(),
            name: fault.kernel().into(),
            file: source.map(|source| source.file().into()),
            line: source.map(bus_schemas::SourceLine::line),
            ptx_line: fault.ptx_line(),
            block: fault.block(),
            thread: fault.thread(),
            access: fault.access().map(|access| access.to_string()),
            address: fault.address().map(|address| format!("{address:#x}")),
            detail: fault.detail().into(),
        }
    }
}

impl From<&ReplayedFailure> for FailureModel {
    fn from(fault: &ReplayedFailure) -> Self {
        let kernel = fault.words.parse::<KernelFault>().ok();
        Self {
            session: fault.session.to_string(),
            tenant: fault.tenant.to_string(),
            gpu: fault.gpu,
            op: (fault.op > 0).then_some(fault.op),
            at_ms: fault.at.map(|at| at / 1_000_000),
            code: fault.code.name().into(),
            text: match fault.words.is_empty() {
                true => fault.code.meaning().into(),
                false => fault.words.clone(),
            },
            kernel: kernel.as_ref().map(KernelFaultModel::from),
        }
    }
}

/// The kept failures, shared by all watchers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    /// While the record is read from its beginning: the failures in it.
    read: Option<Kept>,
}

/// The place of a failure in the record.
type Place = (Epoch, InputNumber);

/// Failures in the order of their places, each with a number for delivery.
#[derive(Debug, Default)]
struct Kept {
    rows: VecDeque<(u64, Place, Arc<FailureModel>)>,
    next: u64,
    /// The latest place of a failure that was dropped.
    dropped: Option<Place>,
}

impl Failures {
    /// Notes that the record is read from its beginning, which tells everything again.
    pub(crate) fn begins(&self) {
        self.state().read = Some(Kept::default());
    }

    /// Takes in a failure.
    pub(crate) fn push(&self, failure: &ReplayedFailure) {
        let mut state = self.state();
        let State { kept, read } = &mut *state;
        let place = (failure.epoch, failure.input);
        let failure = Arc::new(FailureModel::from(failure));
        read.as_mut().unwrap_or(kept).push(place, failure);
    }

    /// Notes that the record is read up to now. `is_other` if it is not the one that was read
    /// before: its failures replace the kept ones.
    pub(crate) fn whole(&self, is_other: bool) {
        let mut state = self.state();
        let Some(read) = state.read.take() else {
            return;
        };
        if is_other {
            let is_in = |row: &FailureModel| read.rows.iter().any(|(.., it)| **it == *row);
            state.kept.rows.retain(|(.., row)| is_in(row));
            state.kept.dropped = None;
        }
        for (_, place, failure) in read.rows {
            state.kept.push(place, failure);
        }
    }

    /// The kept failures from a number on, and the number after them.
    pub(crate) fn from(&self, number: u64) -> (Vec<Arc<FailureModel>>, u64) {
        let state = self.state();
        let newer = state.kept.rows.iter().skip_while(|(at, ..)| *at < number);
        let newer = newer.map(|(.., row)| Arc::clone(row));
        (newer.collect(), state.kept.next)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Adds a failure. A session fails once: the seals of its worker tell it again, at later
    /// places.
    fn push(&mut self, place: Place, failure: Arc<FailureModel>) {
        let is_known = |(.., row): &(_, _, Arc<FailureModel>)| row.session == failure.session;
        if Some(place) <= self.dropped || self.rows.iter().any(is_known) {
            return;
        }
        let tenant = failure.tenant.clone();
        self.rows.push_back((self.next, place, failure));
        self.next += 1;
        if self.rows.len() > KEPT {
            self.drop_one(&tenant);
        }
    }

    /// Drops the oldest failure of the tenant with the most. Of several with as many it is the
    /// one that has just got another.
    fn drop_one(&mut self, newest: &str) {
        let mut counts = BTreeMap::<&str, usize>::new();
        for (.., row) in &self.rows {
            *counts.entry(&row.tenant).or_default() += 1;
        }
        let most = counts
            .into_iter()
            .max_by_key(|(tenant, count)| (*count, *tenant == newest));
        let of = most.map(|(tenant, _)| tenant.to_owned());
        let mut rows = self.rows.iter();
        let oldest = rows.position(|(.., row)| Some(&row.tenant) == of.as_ref());
        if let Some((_, place, _)) = self.rows.remove(oldest.unwrap_or(0)) {
            self.dropped = self.dropped.max(Some(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Code, SessionId};

    use super::*;

    const TEXT: &str = "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], \
                        thread [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation";

    fn replayed(session: u64, tenant: &str, words: &str) -> ReplayedFailure {
        ReplayedFailure {
            epoch: 1,
            input: session,
            at: Some(5_000_000),
            gpu: 2,
            session: SessionId(session),
            tenant: tenant.parse().expect("a name"),
            op: 9,
            code: Code::IllegalAddress,
            words: words.into(),
        }
    }

    /// The sessions of the kept failures from a number on.
    fn sessions(failures: &Failures, number: u64) -> Vec<u64> {
        let (rows, _) = failures.from(number);
        let id = |row: &Arc<FailureModel>| u64::from_str_radix(&row.session, 16).expect("an id");
        rows.iter().map(id).collect()
    }

    fn pushed(failures: &Failures, sessions: std::ops::Range<u64>, tenant: &str) {
        sessions.for_each(|session| failures.push(&replayed(session, tenant, "")));
    }

    #[test]
    fn a_kernels_fault_is_told_by_its_parts() {
        let told = FailureModel::from(&replayed(1, "chat", TEXT));
        let kernel = told.kernel.as_ref().expect("a kernel's fault");
        let source = (kernel.file.as_deref(), kernel.line);
        assert_eq!(source, (Some("src/saxpy.cu"), Some(12)));
        assert_eq!((kernel.block, kernel.thread), ([1, 0, 0], [5, 0, 0]));
        assert_eq!(kernel.address.as_deref(), Some("0x7f0000001000"));
        assert_eq!((told.at_ms, told.text.as_str()), (Some(5), TEXT));
        let older = FailureModel::from(&replayed(1, "chat", ""));
        let meaning = Code::IllegalAddress.meaning();
        assert_eq!((older.kernel, older.text.as_str()), (None, meaning));
    }

    #[test]
    fn a_session_is_told_once_and_a_tenant_displaces_its_own() {
        let failures = Failures::default();
        failures.push(&replayed(1, "chat", TEXT));
        // A seal of its worker tells it again.
        let again = ReplayedFailure {
            input: 9,
            ..replayed(1, "chat", TEXT)
        };
        failures.push(&again);
        assert_eq!(sessions(&failures, 0), [1]);
        pushed(&failures, 10..3_000, "train");
        let (rows, next) = failures.from(0);
        assert_eq!((rows.len(), rows[0].tenant.as_str()), (KEPT, "chat"));
        pushed(&failures, 3_000..3_001, "chat");
        assert_eq!(sessions(&failures, next), [3_000]);
    }

    #[test]
    fn of_tenants_with_as_many_the_one_that_gets_more_loses_its_oldest() {
        let failures = Failures::default();
        let half = KEPT as u64 / 2;
        pushed(&failures, 0..half, "aaa");
        pushed(&failures, half..2 * half, "zzz");
        pushed(&failures, 2 * half..2 * half + 1, "aaa");
        assert_eq!(sessions(&failures, 0)[..2], [1, 2]);
    }

    #[test]
    fn a_record_that_is_read_again_tells_what_is_new_and_no_more() {
        let failures = Failures::default();
        let many = 3 * KEPT as u64;
        failures.begins();
        pushed(&failures, 0..many, "chat");
        assert!(sessions(&failures, 0).is_empty(), "it is not read yet");
        failures.whole(false);
        let (kept, next) = failures.from(0);
        assert_eq!(kept.len(), KEPT);
        failures.begins();
        pushed(&failures, 0..many + 2, "chat");
        failures.whole(false);
        assert_eq!(sessions(&failures, next), [many, many + 1]);
    }

    #[test]
    fn the_failures_of_another_record_replace_the_kept_ones() {
        let failures = Failures::default();
        pushed(&failures, 5..9, "chat");
        let (_, next) = failures.from(0);
        failures.begins();
        pushed(&failures, 1..7, "chat");
        failures.whole(true);
        // Those of both are not told again.
        assert_eq!(sessions(&failures, 0), [5, 6, 1, 2, 3, 4]);
        assert_eq!(sessions(&failures, next), [1, 2, 3, 4]);
    }

    #[test]
    fn a_failure_that_only_another_reading_shows_is_told_then() {
        let failures = Failures::default();
        pushed(&failures, 5..9, "chat");
        let (_, next) = failures.from(0);
        failures.begins();
        // A block of a deposed leader that was stored late.
        pushed(&failures, 4..9, "chat");
        failures.whole(false);
        assert_eq!(sessions(&failures, next), [4]);
    }
}
