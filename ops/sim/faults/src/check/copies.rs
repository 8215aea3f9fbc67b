//! Offered copies: a worker answers a tenant from chunks that the tenant has sent to that worker.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::limits::{CONTENT_BYTES, PIECE_BYTES};
use bus_schemas::{ContentHash, CopyOffer, DataChunk, Incarnation, SessionId, Tenant, WorkerAck};

use super::{CheckResult, Violation};

/// A transfer of an offered copy.
#[derive(Debug)]
struct Offered {
    worker: Incarnation,
    tenant: Tenant,
    hashes: Vec<ContentHash>,
    total: u64,
    /// The bytes that its worker has received, at their places, until all chunks are known to be sent.
    bytes: Vec<u8>,
    /// Chunks that its worker said it had at first, and last: a bit for each.
    held: Option<(u64, u64)>,
    /// True if it was offered again after an answer without a chunk, which decides nothing.
    again: bool,
    /// True if its worker had received bytes of it before it answered.
    began: bool,
}

impl Offered {
    /// Bytes of these chunks.
    fn bytes_of(&self, bits: u64) -> u64 {
        let chunk = CONTENT_BYTES as u64;
        let starts = (0..self.total).step_by(CONTENT_BYTES).enumerate();
        let its = starts.filter(|(index, _)| bits >> index & 1 == 1);
        its.map(|(_, start)| (self.total - start).min(chunk)).sum()
    }

    /// Returns the least and the most bytes that its worker may have taken without the client. A worker counts
    /// them before it answers.
    fn unsent_bytes(&self) -> (u64, u64) {
        match self.held {
            Some((first, _)) if !self.again && !self.began => {
                let bytes = self.bytes_of(first);
                (bytes, bytes)
            }
            _ => (0, self.total),
        }
    }
}

/// The offers of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    transfers: BTreeMap<(SessionId, u64), Offered>,
    /// Chunks that a tenant has sent to a worker.
    sent: BTreeSet<(Incarnation, Tenant, ContentHash)>,
    /// Number of transfers with an answer.
    pub answered: u64,
    /// Number of chunks that were not sent for them.
    pub unsent: u64,
}

impl Copies {
    /// Returns, by tenant, the least and the most bytes that a worker may have taken for offers without the
    /// clients.
    pub(crate) fn unsent_bytes(&self, worker: Incarnation) -> BTreeMap<Tenant, (u64, u64)> {
        let mut sums = BTreeMap::<_, (u64, u64)>::new();
        for offered in self.transfers.values().filter(|it| it.worker == worker) {
            let (least, most) = offered.unsent_bytes();
            let sum = sums.entry(offered.tenant.clone()).or_default();
            *sum = (sum.0 + least, sum.1 + most);
        }
        sums
    }

    /// Notes an offer that a worker receives.
    pub(crate) fn offered(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        offer: &CopyOffer<'_>,
    ) {
        let Some(hashes) = offer.chunks() else {
            return;
        };
        let hashes: Vec<_> = hashes.collect();
        let chunks = PIECE_BYTES / CONTENT_BYTES;
        for (index, hashes) in (0..).zip(hashes.chunks(chunks)) {
            let number = offer.transfer.saturating_add(index);
            let start = index * PIECE_BYTES as u64;
            let bytes = (offer.total - start).min(PIECE_BYTES as u64);
            let offered = self.transfers.entry((session, number));
            let offered = offered.or_insert_with(|| Offered {
                worker,
                tenant: tenant.clone(),
                hashes: hashes.to_vec(),
                total: bytes,
                bytes: vec![0; bytes as usize],
                held: None,
                again: false,
                began: false,
            });
            offered.again |= offered.held.is_some_and(|(first, _)| first == 0);
        }
    }

    /// Notes bytes that a worker receives.
    pub(crate) fn received(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        data: &DataChunk<'_>,
    ) {
        let Some(offered) = self.transfers.get_mut(&(session, data.transfer)) else {
            return;
        };
        let start = data.offset as usize;
        let end = start.saturating_add(data.bytes.len());
        let Some(place) = offered.bytes.get_mut(start..end) else {
            return;
        };
        place.copy_from_slice(data.bytes);
        offered.began |= offered.held.is_none();
        let chunks = offered.bytes.chunks(CONTENT_BYTES);
        let met = chunks
            .zip(&offered.hashes)
            .enumerate()
            .filter(|(index, _)| {
                let from = index * CONTENT_BYTES;
                from < end && start < from + CONTENT_BYTES
            });
        let chunk = |hash: &ContentHash| (worker, tenant.clone(), *hash);
        for (_, (bytes, hash)) in met {
            if !self.sent.contains(&chunk(hash)) && ContentHash::of([bytes]) == *hash {
                self.sent.insert(chunk(hash));
            }
        }
        let mut hashes = offered.hashes.iter();
        if hashes.all(|hash| self.sent.contains(&chunk(hash))) {
            offered.bytes = Vec::new();
        }
    }

    /// Checks the answers in a worker's acknowledgement.
    pub(crate) fn acknowledged(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        ack: &WorkerAck<'_>,
    ) -> CheckResult {
        for row in ack.held.iter() {
            let wrong = |what: String| {
                let transfer = row.transfer;
                let what = format!("{worker}: transfer {transfer} of {session}: {what}");
                Err(Violation::new("copies", what))
            };
            let Some(offered) = self.transfers.get_mut(&(session, row.transfer)) else {
                return wrong("answered and never offered".into());
            };
            for index in (0..64).filter(|index| row.chunks >> index & 1 == 1) {
                let Some(hash) = offered.hashes.get(index) else {
                    return wrong(format!("it has no chunk {index}"));
                };
                if !self.sent.contains(&(worker, tenant.clone(), *hash)) {
                    return wrong(format!("{tenant} has not sent chunk {index}"));
                }
            }
            let (first, last) = offered.held.unwrap_or((row.chunks, row.chunks));
            if last & !row.chunks != 0 {
                return wrong("the worker had more of it before".into());
            }
            if offered.held.replace((first, row.chunks)).is_none() {
                self.answered += 1;
                self.unsent += u64::from(row.chunks.count_ones());
            }
        }
        Ok(())
    }
}
