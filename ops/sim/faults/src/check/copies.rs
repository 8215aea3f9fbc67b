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
    /// The bytes that its worker has received, at their places.
    bytes: Vec<u8>,
    /// Chunks that its worker said it had, once it has answered: a bit for each.
    held: Option<u64>,
    /// True if it was offered since the last answer.
    asked: bool,
    /// Bytes that its worker had before the client sent any.
    unsent: u64,
    /// True if its worker has received some.
    began: bool,
}

impl Offered {
    /// Bytes of these chunks.
    fn bytes_of(&self, bits: u64) -> u64 {
        let chunks = (0..).zip(self.bytes.chunks(CONTENT_BYTES));
        let its = chunks.filter(|(index, _)| bits >> index & 1 == 1);
        its.map(|(_, chunk)| chunk.len() as u64).sum()
    }

    /// Returns the least and the most bytes that its worker may have taken without the client. A worker counts
    /// them before it answers.
    fn unsent_bytes(&self) -> (u64, u64) {
        let most = match self.held {
            Some(held) if !self.asked => self.bytes_of(held),
            _ => self.bytes.len() as u64,
        };
        (self.unsent, most)
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
    /// Returns the least and the most bytes that a worker may have taken for a tenant's offers without its
    /// clients.
    pub(crate) fn unsent_bytes(&self, worker: Incarnation, tenant: &Tenant) -> (u64, u64) {
        let transfers = self.transfers.values();
        let own = transfers.filter(|it| it.worker == worker && it.tenant == *tenant);
        let own = own.map(Offered::unsent_bytes);
        own.fold((0, 0), |(least, most), of| (least + of.0, most + of.1))
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
        for (number, hashes) in (offer.transfer..).zip(hashes.chunks(chunks)) {
            let start = (number - offer.transfer) * PIECE_BYTES as u64;
            let bytes = (offer.total - start).min(PIECE_BYTES as u64);
            let offered = self.transfers.entry((session, number));
            let offered = offered.or_insert_with(|| Offered {
                worker,
                tenant: tenant.clone(),
                hashes: hashes.to_vec(),
                bytes: vec![0; bytes as usize],
                held: None,
                asked: true,
                unsent: 0,
                began: false,
            });
            offered.asked = true;
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
        let (start, end) = (
            data.offset as usize,
            data.offset as usize + data.bytes.len(),
        );
        let Some(place) = offered.bytes.get_mut(start..end) else {
            return;
        };
        place.copy_from_slice(data.bytes);
        offered.began = true;
        let chunks = offered.bytes.chunks(CONTENT_BYTES);
        let met = chunks
            .zip(&offered.hashes)
            .enumerate()
            .filter(|(index, _)| {
                let from = index * CONTENT_BYTES;
                from < end && start < from + CONTENT_BYTES
            });
        for (_, (bytes, hash)) in met {
            if ContentHash::of([bytes]) == *hash {
                self.sent.insert((worker, tenant.clone(), *hash));
            }
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
            offered.asked = false;
            match offered.held.replace(row.chunks) {
                Some(before) if before & !row.chunks != 0 => {
                    return wrong("the worker had more of it before".into());
                }
                Some(_) => {}
                None => {
                    self.answered += 1;
                    self.unsent += u64::from(row.chunks.count_ones());
                    let had = if offered.began { 0 } else { row.chunks };
                    offered.unsent = offered.bytes_of(had);
                }
            }
        }
        Ok(())
    }
}
