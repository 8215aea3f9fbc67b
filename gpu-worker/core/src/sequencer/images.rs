//! Complete module images of one session, and the news of them for the next acknowledgements.

use std::collections::VecDeque;

use bus_schemas::{Failure, ModuleHash, Prepared, RefusedImage};

/// Maximum number of images that a client waits for. A client with more asks again.
const WAITING: usize = 1_024;

/// Readiness of an image on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageReadiness<'a> {
    /// The tenant did not send it to this worker.
    Unknown,
    /// The worker has it, and the device prepares it.
    Preparing,
    /// The device can run it.
    Ready,
    /// The device cannot run it.
    Refused(&'a Failure),
}

/// The images of one session, by transfer.
#[derive(Debug, Default)]
pub(super) struct Images {
    waiting: VecDeque<(u64, ModuleHash)>,
    prepared: Vec<Prepared>,
    refused: Vec<RefusedImage>,
}

impl Images {
    /// Adds an image that the tenant sent and the worker has, or that its client asks about.
    pub(super) fn add(&mut self, transfer: u64, hash: ModuleHash, state: ImageReadiness<'_>) {
        match state {
            ImageReadiness::Ready => self.say(transfer, None),
            ImageReadiness::Refused(failure) => self.say(transfer, Some(failure)),
            // The image was not sent, or does not match its hash. The client learns nothing of other tenants'
            // images.
            ImageReadiness::Unknown => {}
            ImageReadiness::Preparing => {
                if self.waiting.iter().any(|(waiting, _)| *waiting == transfer) {
                    return;
                }
                if self.waiting.len() == WAITING {
                    self.waiting.pop_front();
                }
                self.waiting.push_back((transfer, hash));
            }
        }
    }

    /// Takes the device's answer. Returns true if the client must learn of it.
    pub(super) fn settle(&mut self, hash: ModuleHash, refused: Option<&Failure>) -> bool {
        let mut found = false;
        while let Some(at) = self.waiting.iter().position(|(_, of)| *of == hash) {
            if let Some((transfer, _)) = self.waiting.remove(at) {
                self.say(transfer, refused);
                found = true;
            }
        }
        found
    }

    fn say(&mut self, transfer: u64, refused: Option<&Failure>) {
        let row = Prepared(transfer);
        match refused {
            None if !self.prepared.contains(&row) => self.prepared.push(row),
            Some(failure) if self.refused.iter().all(|it| it.transfer != transfer) => {
                let failure = failure.clone();
                self.refused.push(RefusedImage { transfer, failure });
            }
            _ => {}
        }
    }

    /// Takes the images for the next acknowledgement.
    pub(super) fn take(&mut self) -> (Vec<Prepared>, Vec<RefusedImage>) {
        let prepared = std::mem::take(&mut self.prepared);
        (prepared, std::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Code;

    use super::*;

    #[test]
    fn each_is_told_once_when_the_device_has_answered() {
        let mut images = Images::default();
        let [good, bad] = [b"good", b"bad!"].map(|image| ModuleHash::of(image));
        let failure = Failure::new(Code::BadModule, "3:1: nonsense");
        images.add(1, good, ImageReadiness::Preparing);
        images.add(2, bad, ImageReadiness::Preparing);
        images.add(2, bad, ImageReadiness::Preparing);
        images.add(3, bad, ImageReadiness::Unknown);
        assert_eq!(images.take(), (Vec::new(), Vec::new()));
        assert!(images.settle(good, None) && images.settle(bad, Some(&failure)));
        assert!(!images.settle(bad, Some(&failure)), "once");
        let refused = RefusedImage {
            transfer: 2,
            failure: failure.clone(),
        };
        assert_eq!(images.take(), (vec![Prepared(1)], vec![refused.clone()]));
        assert_eq!(images.take(), (Vec::new(), Vec::new()));
        // The client asks again, because the answer was lost.
        images.add(1, good, ImageReadiness::Ready);
        images.add(1, good, ImageReadiness::Ready);
        images.add(2, bad, ImageReadiness::Refused(&failure));
        assert_eq!(images.take(), (vec![Prepared(1)], vec![refused]));
    }

    #[test]
    fn what_is_waited_for_is_bounded() {
        let mut images = Images::default();
        let hash = ModuleHash::of(b"image");
        for transfer in 1..=WAITING as u64 + 9 {
            images.add(transfer, hash, ImageReadiness::Preparing);
        }
        images.settle(hash, None);
        assert_eq!(images.take().0.len(), WAITING);
    }
}
