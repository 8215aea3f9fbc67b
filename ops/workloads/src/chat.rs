//! The tenant `chat`: greedy decoding with a small GPT-style model.
//!
//! A request is one token: one pass through all layers. Only the logits and the chosen token are
//! copied back. The token stays on the device for the next request. When the context is full, a new
//! conversation begins.

mod device;
mod model;
mod reference;

use crate::compare::read_into;
use crate::gpu::Launches;
use crate::{Gpu, SplitMix64, Tolerance, Verification, Workload, WorkloadError};
use device::OnDevice;
use model::{CONTEXT, Model, VOCABULARY};
use reference::Reference;

const NAME: &str = "chat";

/// Logits are around 1. Four layers of sums in another order, and another exp, stay far below this
/// bound; a wrong weight, position or token does not.
const TOLERANCE: Tolerance = Tolerance {
    absolute: 1e-3,
    relative: 1e-3,
};

/// Bytes of a logits vector and the token after it.
const ANSWER: usize = (VOCABULARY + 1) * 4;

/// Greedy decoding, one token per request.
pub struct Chat {
    model: Model,
    random: SplitMix64,
    seed: u64,
    reference: Reference,
    device: Option<OnDevice>,
    /// Position of the next token; 0 begins a conversation.
    position: usize,
    /// The token at `position`, which the next request continues.
    token: u32,
    answer: Vec<u8>,
    logits: Vec<f32>,
}

impl Chat {
    /// A model with the weights of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x0000_c4a7);
        Self {
            model: Model::new(&mut random),
            random,
            seed,
            reference: Reference::new(),
            device: None,
            position: 0,
            token: 0,
            answer: vec![0; ANSWER],
            logits: Vec::new(),
        }
    }

    fn decode<G: Gpu>(&mut self, gpu: &mut G) -> Result<u64, WorkloadError<G::Error>> {
        if self.position == CONTEXT {
            self.position = 0;
        }
        let device = self
            .device
            .as_ref()
            .ok_or(WorkloadError::NotPrepared(NAME))?;
        let failed = WorkloadError::of(NAME);
        if self.position == 0 {
            self.token = self.random.below(VOCABULARY as u32);
            gpu.copy_in(device.token(), &self.token.to_le_bytes())
                .map_err(failed)?;
        }
        let mut launches = Launches::on(gpu);
        device
            .decode(&mut launches, &self.model, self.position)
            .map_err(failed)?;
        let count = launches.count;
        gpu.copy_out(device.answer, &mut self.answer)
            .map_err(failed)?;
        Ok(count)
    }

    /// The first difference between the answer and the reference.
    ///
    /// The chosen token must be the largest of the device's own logits, and within the tolerance of
    /// the reference's largest. Two nearly equal logits may come out in either order.
    fn difference(&self, expected: &[f32], token: u32) -> Option<String> {
        let what = format!("logits at position {}", self.position);
        if let Some(difference) = TOLERANCE.difference(&what, &self.logits, expected) {
            return Some(difference);
        }
        let (own, own_best) = largest(&self.logits);
        if token as usize != own {
            return Some(format!(
                "token {token} chosen, but logit {own} is the largest: {own_best}"
            ));
        }
        let (best, highest) = largest(expected);
        let margin = TOLERANCE.absolute + TOLERANCE.relative * highest.abs();
        let chosen = expected[own];
        (chosen < highest - margin).then(|| {
            format!("token {token} chosen at {chosen}, the reference has {best}: {highest}")
        })
    }
}

/// Index and value of the largest value, the first of equal ones.
fn largest(values: &[f32]) -> (usize, f32) {
    values
        .iter()
        .copied()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), |best, next| {
            if next.1 > best.1 { next } else { best }
        })
}

impl<G: Gpu> Workload<G> for Chat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&mut self, gpu: &mut G) -> Result<(), WorkloadError<G::Error>> {
        *self = Self::new(self.seed);
        let failed = WorkloadError::of(NAME);
        self.device = Some(OnDevice::new(gpu, &self.model).map_err(failed)?);
        Ok(())
    }

    fn run(&mut self, gpu: &mut G) -> Result<u64, WorkloadError<G::Error>> {
        self.decode(gpu)
    }

    fn verify(&mut self) -> Verification {
        let (logits, token) = self.answer.split_at(ANSWER - 4);
        read_into(logits, &mut self.logits);
        let token = u32::from_le_bytes(token.as_chunks::<4>().0[0]);
        let expected = self
            .reference
            .decode(&self.model, self.token, self.position);
        let difference = self.difference(&expected, token);
        // The device continues from its own token, so the reference does too.
        self.token = token.min(VOCABULARY as u32 - 1);
        self.position += 1;
        Verification::from_difference(difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::to_bytes;

    /// The state after a request that the reference itself answered.
    fn answered(seed: u64) -> (Chat, Vec<f32>) {
        let mut chat = Chat::new(seed);
        chat.token = 5;
        let expected = chat.reference.decode(&chat.model, chat.token, 0);
        let mut answer = to_bytes(&expected);
        answer.extend((largest(&expected).0 as u32).to_le_bytes());
        chat.answer = answer;
        (chat, expected)
    }

    fn verification(chat: &mut Chat) -> Verification {
        Workload::<crate::gpu::tests::NoGpu>::verify(chat)
    }

    #[test]
    fn the_right_answer_is_verified() {
        let (mut chat, _) = answered(3);
        assert_eq!(
            verification(&mut chat),
            Verification {
                verified: true,
                detail: None
            }
        );
        assert_eq!(chat.position, 1);
    }

    #[test]
    fn a_wrong_logit_is_found() {
        let (mut chat, expected) = answered(3);
        let wrong = (largest(&expected).0 + 1) % VOCABULARY;
        let value = expected[wrong] - 0.01;
        chat.answer[4 * wrong..4 * wrong + 4].copy_from_slice(&value.to_le_bytes());
        assert!(!verification(&mut chat).verified);
    }

    #[test]
    fn a_wrong_token_is_found() {
        let (mut chat, expected) = answered(3);
        let token = (largest(&expected).0 as u32 + 1) % VOCABULARY as u32;
        chat.answer[4 * VOCABULARY..].copy_from_slice(&token.to_le_bytes());
        assert!(!verification(&mut chat).verified);
    }

    #[test]
    fn either_of_two_nearly_equal_logits_may_win() {
        let (mut chat, mut expected) = answered(3);
        let (best, highest) = largest(&expected);
        let rival = (best + 1) % VOCABULARY;
        expected[rival] = highest - 1e-4;
        chat.logits = expected.clone();
        chat.logits[rival] = highest + 1e-4;
        assert_eq!(chat.difference(&expected, rival as u32), None);
        // This does not hold if the reference's values are far apart.
        expected[rival] = highest - 1e-2;
        chat.logits = expected.clone();
        assert!(chat.difference(&expected, rival as u32).is_some());
    }

    #[test]
    fn a_context_and_a_seed_change_what_is_said() {
        let decode = |seed: u64, tokens: &[u32]| {
            let chat = Chat::new(seed);
            let mut reference = Reference::new();
            let steps = tokens.iter().enumerate();
            steps.fold(Vec::new(), |_, (at, &token)| {
                reference.decode(&chat.model, token, at)
            })
        };
        let far = |a: &[f32], b: &[f32]| TOLERANCE.difference("x", a, b).is_some();
        assert!(!far(&decode(1, &[3, 4, 5]), &decode(1, &[3, 4, 5])));
        assert!(far(&decode(1, &[3, 4, 5]), &decode(1, &[9, 4, 5])));
        assert!(far(&decode(1, &[3, 4, 5]), &decode(1, &[4, 3, 5])));
        assert!(far(&decode(1, &[3, 4, 5]), &decode(2, &[3, 4, 5])));
        assert!(far(&decode(1, &[5]), &decode(1, &[3, 4, 5])));
    }
}
