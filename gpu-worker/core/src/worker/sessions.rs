//! The sessions of a worker: their transfers, started slices and results.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{ModuleHash, OpNumber, SessionId, Tenant};

use super::results::Results;
use crate::Nanos;
use crate::dispatch::TransferState;
use crate::sequencer::StartAction;

/// The state of a staged transfer. Its bytes are in the [`super::Buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    /// Bytes are still arriving, this many in all.
    Coming(u64),
    /// All bytes are here, and are checked against the hash of this module.
    Image(ModuleHash),
    /// All bytes are here, this many, and are checked against the hashes of their chunks.
    Chunks(u64),
    /// Ready for the device, with this many bytes.
    Whole(u64),
}

/// A slice that the device has not completed yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedSlice {
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    pub(super) priority: u8,
    /// Declarations of its ops, once the device has it.
    pub(super) declared: u64,
    /// Time since which the device has it, if it has launches.
    pub(super) launches: Option<Nanos>,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) tenant: Tenant,
    pub(super) transfers: BTreeMap<u64, Transfer>,
    /// The slices that have started and not completed.
    pub(super) started: VecDeque<StartedSlice>,
    pub(super) results: Results,
}

impl Session {
    fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            transfers: BTreeMap::new(),
            started: VecDeque::new(),
            results: Results::default(),
        }
    }

    /// Returns the state of a transfer, for the dispatch.
    pub(super) fn transfer(&self, transfer: u64) -> TransferState {
        match self.transfers.get(&transfer) {
            Some(Transfer::Whole(bytes)) => TransferState::Whole(*bytes),
            Some(_) => TransferState::Coming,
            None => TransferState::Gone,
        }
    }

    /// True if an image that the session sent is complete and being checked.
    pub(super) fn is_checking(&self, hash: ModuleHash) -> bool {
        let mut transfers = self.transfers.values();
        transfers.any(|it| *it == Transfer::Image(hash))
    }

    /// Notes a started slice.
    pub(super) fn start(&mut self, start: &StartAction) {
        self.started.push_back(StartedSlice {
            first: start.first,
            last: start.last,
            priority: start.priority,
            declared: 0,
            launches: None,
        });
    }

    /// Notes that the device has the started slice from op `first` on, with its declarations, and the time if
    /// it has launches.
    pub(super) fn submitted(&mut self, first: OpNumber, declared: u64, launches: Option<Nanos>) {
        let mut started = self.started.iter_mut();
        if let Some(slice) = started.find(|slice| slice.first == first) {
            (slice.declared, slice.launches) = (declared, launches);
        }
    }
}

/// The sessions of a worker, from the first message or the open grant until they are forgotten.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<SessionId, Session>);

impl Sessions {
    pub(super) fn get(&self, session: SessionId) -> Option<&Session> {
        self.0.get(&session)
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.0.get_mut(&session)
    }

    /// Returns a session; creates it if missing. A client may send as soon as the open grant is accepted. On
    /// a busy device that is long before the grant is carried out.
    pub(super) fn hold(&mut self, session: SessionId, tenant: &Tenant) -> &mut Session {
        let new = || Session::new(tenant.clone());
        self.0.entry(session).or_insert_with(new)
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.0.values().map(|session| &session.tenant)
    }

    /// Number of slices of a session that have started and not completed.
    pub(super) fn running(&self, session: SessionId) -> usize {
        self.get(session).map_or(0, |session| session.started.len())
    }

    /// Returns the sessions with running launches, each with their start time. If slices do not overlap, that
    /// is one session: of the most urgent slices, the first that the device got, from when the device was
    /// free.
    pub(super) fn with_launches(
        &self,
        overlaps: bool,
        free_since: Nanos,
    ) -> BTreeMap<SessionId, Nanos> {
        let begun = self.0.iter().filter_map(|(id, session)| {
            let slice = session.started.front()?;
            Some((slice.launches?, slice.priority, *id))
        });
        if overlaps {
            return begun.map(|(since, _, session)| (session, since)).collect();
        }
        let first = begun.min_by_key(|(since, priority, session)| (*priority, *since, *session));
        first
            .map(|(since, _, session)| (session, since.max(free_since)))
            .into_iter()
            .collect()
    }
}
