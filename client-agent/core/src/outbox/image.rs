//! The worker's answers about module images.

use bus_schemas::WorkerAck;

use super::Outbox;
use crate::event::Action;

impl Outbox {
    /// Handles the worker's verdicts on images; returns true if any is new.
    pub(super) fn on_images(&mut self, ack: &WorkerAck<'_>, actions: &mut Vec<Action>) -> bool {
        let ready = ack.prepared.iter().map(|row| (row.0, None));
        let refused = ack.refused.iter();
        let refused = refused.map(|it| (it.transfer, Some(it.failure.clone())));
        let before = actions.len();
        for (transfer, refused) in ready.chain(refused) {
            if self.transfers.judge(transfer) {
                actions.push(Action::Image { transfer, refused });
            }
        }
        actions.len() > before
    }

    /// Asks for the verdict on each image that the worker has whole.
    pub(super) fn ask_for_images(&self, actions: &mut Vec<Action>) {
        let questions = self.transfers.image_questions();
        actions.extend(questions.map(|chunk| Action::PublishChunk {
            transfer: chunk.transfer,
            offset: chunk.offset,
            len: chunk.len,
        }));
    }
}
