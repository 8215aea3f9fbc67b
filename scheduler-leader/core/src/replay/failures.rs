//! The sessions that failed, as the record tells of them.

use bus_schemas::{
    Code, Epoch, Failure, GpuId, Incarnation, InputNumber, OpNumber, SessionFault, SessionId,
    Tenant,
};

use crate::input::Input;
use crate::leader::InputTimes;
use crate::scheduler::Scheduler;
use crate::time::Nanos;

/// A session's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedFailure {
    /// The epoch of the leader that heard of it.
    pub epoch: Epoch,
    /// The input of that epoch.
    pub input: InputNumber,
    /// Time of the input, nanoseconds of the leader's clock; `None` if the record has no times.
    pub at: Option<Nanos>,
    /// The session's device.
    pub gpu: GpuId,
    /// The session.
    pub session: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// The op that failed; 0 if none did.
    pub op: OpNumber,
    /// The stable code.
    pub code: Code,
    /// The failure in words, by [`Failure::brief`]; empty in older records.
    pub words: String,
}

/// Adds the failures of an input that the order has just applied.
pub(super) fn collect(
    failures: &mut Vec<ReplayedFailure>,
    epoch: Epoch,
    (input, times): (&Input, Option<&InputTimes>),
    scheduler: &Scheduler,
) {
    let fault = |session, op, code, words: String| {
        let view = scheduler.session(session)?;
        Some(ReplayedFailure {
            epoch,
            input: scheduler.input(),
            at: times.map(|times| times.at),
            gpu: scheduler.worker(view.incarnation)?.gpu,
            session,
            tenant: view.tenant,
            op,
            code,
            words,
        })
    };
    match input {
        Input::Fault { session, op, code } => {
            let words = times.map(InputTimes::words).unwrap_or_default();
            failures.extend(fault(*session, *op, *code, words.to_owned()));
        }
        Input::WorkerSealed {
            incarnation,
            answer,
        } => {
            let there = answer.faults.iter();
            let there = there.filter(|it| is_on(it, *incarnation, scheduler));
            failures.extend(there.filter_map(|it| {
                let failure: &Failure = &it.failure;
                fault(it.session, it.op, failure.code, failure.brief())
            }));
        }
        _ => {}
    }
}

/// Returns true if the worker that tells of a fault has its session.
fn is_on(fault: &SessionFault, incarnation: Incarnation, scheduler: &Scheduler) -> bool {
    let session = scheduler.session(fault.session);
    session.is_some_and(|session| session.incarnation == incarnation)
}
