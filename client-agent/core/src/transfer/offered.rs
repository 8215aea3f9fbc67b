//! Copies that are offered by the hashes of their chunks before their bytes are taken.
//!
//! All transfers of a copy get their numbers with the question. Transfers that the worker holds
//! whole are never taken from the program. Of the others, all bytes are taken, and the chunks that
//! the worker holds are not sent.

use bus_schemas::limits::{CONTENT_BYTES, PIECE_BYTES};
use bus_schemas::{ContentHash, CopyOffer, HeldChunks, Parcel, WIRE_VERSION, encode};
use bytes::Bytes;

use super::content::{Content, Question};
use super::{Transfer, Transfers};

/// The offset of each transfer of a copy, in bytes.
fn pieces(total: u64) -> impl Iterator<Item = u64> {
    (0..total).step_by(PIECE_BYTES)
}

impl Transfers {
    /// Asks about a copy of `total` bytes; returns the number of its first transfer.
    pub(crate) fn offer(&mut self, total: u64, hashes: &[ContentHash]) -> u64 {
        let first = self.next();
        for start in pieces(total) {
            let bytes = (total - start).min(PIECE_BYTES as u64);
            self.queue.push_back(Transfer::offered(bytes));
        }
        let hashes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        let message = CopyOffer {
            v: WIRE_VERSION,
            transfer: first,
            total,
            hashes: &hashes,
        };
        self.questions.push(Question {
            first,
            count: self.next() - first,
            message: encode(&message).into(),
            published: false,
        });
        self.new = true;
        first
    }

    /// True if a transfer's bytes must be taken; `None` until the worker has said so.
    pub(crate) fn wants_bytes(&self, transfer: u64) -> Option<bool> {
        match self.get(transfer).map(|it| (it.is_whole(), it.content)) {
            Some((false, Some(Content::Asked))) => None,
            Some((false, Some(Content::Wanted(_)))) => Some(true),
            _ => Some(false),
        }
    }

    /// Takes the bytes of a transfer that wants them.
    pub(crate) fn supply(&mut self, number: u64, parcel: Parcel) {
        let Some(index) = number.checked_sub(self.first) else {
            return;
        };
        let Some(transfer) = self.queue.get_mut(index as usize) else {
            return;
        };
        let Some(Content::Wanted(held)) = transfer.content else {
            return;
        };
        transfer.content = Some(Content::Taken(held));
        transfer.messages = super::messages(parcel, number, None);
        self.unreceived += transfer.total - transfer.received;
        self.new = true;
    }

    /// Notes which chunks of an offered transfer the worker holds; returns true if that is new.
    pub(super) fn answer(&mut self, answer: HeldChunks) -> bool {
        let Some(index) = answer.transfer.checked_sub(self.first) else {
            return false;
        };
        let transfer = self.queue.get_mut(index as usize);
        let Some(transfer) = transfer.filter(|it| it.content == Some(Content::Asked)) else {
            return false;
        };
        let chunks = transfer.total.div_ceil(CONTENT_BYTES as u64);
        if answer.chunks.trailing_ones() as u64 >= chunks {
            transfer.received = transfer.total;
        }
        transfer.content = Some(Content::Wanted(answer.chunks));
        true
    }

    /// Forgets the questions that are answered.
    pub(super) fn forget_answered(&mut self) {
        let mut questions = std::mem::take(&mut self.questions);
        questions.retain(|question| {
            let mut numbers = question.first..question.first + question.count;
            numbers.any(|number| self.wants_bytes(number).is_none())
        });
        self.questions = questions;
    }

    /// The questions that were not published yet; with `again`, all unanswered ones.
    pub(crate) fn questions(&mut self, again: bool) -> Vec<Bytes> {
        let questions = self.questions.iter_mut();
        let due = questions.filter(|question| again || !question.published);
        let publish = |question: &mut Question| {
            question.published = true;
            question.message.clone()
        };
        due.map(publish).collect()
    }
}

impl Transfer {
    fn offered(total: u64) -> Self {
        Self {
            messages: Vec::new(),
            total,
            module: None,
            received: 0,
            sent: 0,
            offer: super::Offer::Over,
            content: Some(Content::Asked),
        }
    }

    /// True if its bytes were not taken, so that there is nothing to send.
    pub(super) fn lacks_bytes(&self) -> bool {
        matches!(self.content, Some(Content::Asked | Content::Wanted(_)))
    }

    /// Skips the chunks that the worker holds, from the sent position on.
    pub(super) fn skip_held(&mut self) {
        let Some(Content::Taken(held)) = self.content else {
            return;
        };
        let chunk = CONTENT_BYTES as u64;
        while self.sent < self.total && held >> (self.sent / chunk) & 1 == 1 {
            self.sent = ((self.sent / chunk + 1) * chunk).min(self.total);
        }
    }

    /// Bytes from the sent position up to the next chunk that the worker holds, or to the end.
    pub(super) fn wanted(&self) -> u64 {
        let (chunk, mut end) = (CONTENT_BYTES as u64, self.total);
        if let Some(Content::Taken(held)) = self.content {
            let later = (self.sent / chunk + 1)..self.total.div_ceil(chunk);
            let next = later.clone().find(|index| held >> index & 1 == 1);
            end = next.map_or(end, |index| index * chunk);
        }
        end - self.sent
    }
}
