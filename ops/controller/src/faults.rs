//! The newest failures of sessions, as the record tells of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::KernelFault;
use scheduler_leader_core::replay::ReplayedFault;
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum number of failures kept.
const KEPT: usize = 1_024;

/// A session that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FaultModel {
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

impl From<&ReplayedFault> for FaultModel {
    fn from(fault: &ReplayedFault) -> Self {
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
pub(crate) struct Faults(Arc<Mutex<Kept>>);

/// The kept failures in the order of their arrival, each with a number for delivery.
#[derive(Debug, Default)]
struct Kept {
    rows: VecDeque<(u64, Arc<FaultModel>)>,
    next: u64,
}

impl Faults {
    /// Takes in a failure. A session fails once: what is known of one stays.
    pub(crate) fn push(&self, fault: FaultModel) {
        let mut kept = self.kept();
        if kept
            .rows
            .iter()
            .any(|(_, row)| row.session == fault.session)
        {
            return;
        }
        if kept.rows.len() >= KEPT {
            kept.drop_one();
        }
        let number = kept.next;
        kept.next += 1;
        kept.rows.push_back((number, Arc::new(fault)));
    }

    /// The kept failures from a number on, and the number after them.
    pub(crate) fn from(&self, number: u64) -> (Vec<Arc<FaultModel>>, u64) {
        let kept = self.kept();
        let newer = kept.rows.iter().skip_while(|(at, _)| *at < number);
        (newer.map(|(_, row)| Arc::clone(row)).collect(), kept.next)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops the oldest failure of the tenant with the most: a tenant displaces only its own.
    fn drop_one(&mut self) {
        let mut counts = BTreeMap::<&str, usize>::new();
        for (_, row) in &self.rows {
            *counts.entry(&row.tenant).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let of = most.map(|(tenant, _)| tenant.to_owned());
        let oldest = self
            .rows
            .iter()
            .position(|(_, row)| Some(&row.tenant) == of.as_ref());
        self.rows.remove(oldest.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Code, SessionId};

    use super::*;

    const TEXT: &str = "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], \
                        thread [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation";

    fn fault(session: u64, tenant: &str, words: &str) -> FaultModel {
        FaultModel::from(&ReplayedFault {
            epoch: 1,
            input: 7,
            at: Some(5_000_000),
            gpu: 2,
            session: SessionId(session),
            tenant: tenant.parse().expect("a name"),
            op: 9,
            code: Code::IllegalAddress,
            words: words.into(),
        })
    }

    #[test]
    fn a_kernels_fault_is_told_by_its_parts() {
        let told = fault(1, "chat", TEXT);
        let kernel = told.kernel.as_ref().expect("a kernel's fault");
        assert_eq!(
            (kernel.file.as_deref(), kernel.line),
            (Some("src/saxpy.cu"), Some(12))
        );
        assert_eq!((kernel.block, kernel.thread), ([1, 0, 0], [5, 0, 0]));
        assert_eq!(kernel.address.as_deref(), Some("0x7f0000001000"));
        assert_eq!((told.at_ms, told.text.as_str()), (Some(5), TEXT));
        let older = fault(1, "chat", "");
        assert_eq!(
            (older.kernel, older.text.as_str()),
            (None, Code::IllegalAddress.meaning())
        );
    }

    #[test]
    fn a_session_is_told_once_and_a_tenant_displaces_its_own() {
        let faults = Faults::default();
        faults.push(fault(1, "chat", TEXT));
        faults.push(fault(1, "chat", TEXT));
        assert_eq!(faults.from(0).0.len(), 1);
        for session in 2..3_000 {
            faults.push(fault(session, "train", ""));
        }
        let (rows, next) = faults.from(0);
        assert_eq!(rows.len(), KEPT);
        assert_eq!(rows[0].tenant, "chat");
        faults.push(fault(3_000, "chat", ""));
        let (news, after) = faults.from(next);
        assert_eq!((news.len(), after), (1, next + 1));
        assert_eq!(news[0].tenant, "chat");
    }
}
