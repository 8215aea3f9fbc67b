//! Large copies that clients offer by the hashes of their chunks before they send the bytes, and the answers.

use std::ops::Range;

use bus_schemas::limits::{CONTENT_BYTES, PIECE_BYTES};
use bus_schemas::{Code, Failure, HeldChunks};

use super::session::{Phase, Session};
use super::staging::Offered;
use super::{Action, OfferEvent, Sequencer};
use crate::Nanos;

/// Number of chunks of a transfer, except a copy's last transfer.
const CHUNKS: usize = PIECE_BYTES / CONTENT_BYTES;

impl OfferEvent<'_> {
    /// Returns its transfers: number, bytes, and range of the copy's chunks.
    fn transfers(&self) -> impl Iterator<Item = (u64, u64, Range<usize>)> + use<> {
        let (first, total, chunks) = (self.transfer, self.total, self.held.len());
        let starts = (0..total).step_by(PIECE_BYTES);
        (0..).zip(starts).map(move |(index, start)| {
            let bytes = (total - start).min(PIECE_BYTES as u64);
            let from = index * CHUNKS;
            let own = from..chunks.min(from + CHUNKS);
            (first.saturating_add(index as u64), bytes, own)
        })
    }
}

impl Sequencer {
    /// Handles the question of a client: the chunks of a copy that it need not send.
    pub(super) fn on_offer(
        &mut self,
        now: Nanos,
        offer: &OfferEvent<'_>,
        actions: &mut Vec<Action>,
    ) {
        let session = offer.session;
        let room = self.sessions.get(session);
        let mut room = room.map_or(0, |entry| self.staging_room(entry));
        let open = |entry: &&mut Session| entry.phase == Phase::Open;
        let Some(entry) = self.own(offer.tenant, session).filter(open) else {
            return self.reject_gone(now, offer.tenant, session, actions);
        };
        if entry.failure.is_some() {
            return self.want_ack(now, session);
        }
        if offer.total > entry.window.size {
            let why = format!("a copy of {} bytes fits into no window", offer.total);
            let failure = Failure::new(Code::OutOfMemory, why);
            return self.fail(now, session, 0, failure, actions);
        }
        let reserved = entry.transfers.reserved;
        let (mut malformed, mut took) = (None, false);
        for (transfer, total, chunks) in offer.transfers() {
            let held = bits(offer.held.get(chunks.clone()).unwrap_or_default());
            let before = entry.transfers.reserved;
            let offered = entry.transfers.offer((transfer, total), held, room);
            room = room.saturating_sub(entry.transfers.reserved - before);
            let here = match offered {
                Ok(Offered::New { taken, whole }) => {
                    took = true;
                    actions.push(Action::Offered {
                        session,
                        transfer,
                        total,
                        chunks,
                        taken,
                        whole,
                    });
                    taken
                }
                Ok(Offered::Known { here }) => here,
                Ok(Offered::Later) => break,
                Err(why) => {
                    malformed = Some(why);
                    break;
                }
            };
            entry.say_held(HeldChunks {
                transfer,
                chunks: here,
            });
        }
        let after = entry.transfers.reserved;
        self.staged.change(offer.tenant, reserved, after);
        self.took = took;
        self.acks.urge();
        self.want_ack(now, session);
        if let Some(why) = malformed {
            let failure = Failure::new(Code::Malformed, why);
            self.reject(now, offer.tenant, session, failure, actions);
        }
    }
}

/// Returns a bit for each chunk, the lowest for the first.
fn bits(held: &[bool]) -> u64 {
    let set = held.iter().enumerate().filter(|(_, held)| **held);
    set.fold(0, |bits, (index, _)| bits | 1 << index)
}

#[cfg(test)]
mod tests {
    use bus_schemas::SessionId;

    use super::*;

    #[test]
    fn a_copy_is_divided_as_clients_divide_it() {
        let tenant = "a".parse().unwrap();
        let offer = |total: u64| {
            let held = vec![true; total.div_ceil(CONTENT_BYTES as u64) as usize];
            let event = OfferEvent {
                tenant: &tenant,
                session: SessionId(1),
                transfer: 7,
                total,
                held: &held,
            };
            event.transfers().collect::<Vec<_>>()
        };
        let (piece, chunk) = (PIECE_BYTES as u64, CONTENT_BYTES as u64);
        assert_eq!(offer(9), [(7, 9, 0..1)]);
        assert_eq!(offer(piece), [(7, piece, 0..2)]);
        assert_eq!(
            offer(piece + chunk + 1),
            [(7, piece, 0..2), (8, chunk + 1, 2..4)]
        );
        assert_eq!(offer(piece + 5), [(7, piece, 0..2), (8, 5, 2..3)]);
        assert_eq!(bits(&[true, false, true]), 0b101);
    }
}
