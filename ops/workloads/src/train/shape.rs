//! The sizes of the perceptron and of its training data.

/// Samples in a batch.
pub(super) const SAMPLES: usize = 256;
/// Numbers in a sample.
pub(super) const INPUTS: usize = 256;
/// Hidden units.
pub(super) const HIDDEN: usize = 128;
/// Numbers in a prediction.
pub(super) const OUTPUTS: usize = 128;
/// Number of batches, which are used in turn.
pub(super) const BATCHES: usize = 4;
/// Learning rate, per sample and gradient.
pub(super) const RATE: f32 = 1.0 / SAMPLES as f32 / 4.0;
/// Weight decay, towards zero.
pub(super) const DECAY: f32 = 1e-3;

pub(super) const WEIGHTS1: usize = INPUTS * HIDDEN;
pub(super) const WEIGHTS2: usize = HIDDEN * OUTPUTS;
/// Both layers' weights, and the loss after them.
pub(super) const STATE: usize = WEIGHTS1 + WEIGHTS2 + 1;

/// The training data of one step, row-major.
pub(super) struct Batch {
    /// SAMPLES x INPUTS.
    pub(super) samples: Vec<f32>,
    /// SAMPLES x OUTPUTS.
    pub(super) targets: Vec<f32>,
}
