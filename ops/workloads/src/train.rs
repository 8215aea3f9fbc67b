//! The tenant `train`: a two-layer perceptron, trained step by step.
//!
//! A request is one step on one batch: five large matmuls (plain, and with either side transposed),
//! reductions and updates. All weights and the loss are copied back and compared. After [`EPOCH`]
//! steps the weights are reset. The reference is therefore computed once per step of an epoch, and
//! rounding errors do not accumulate.

mod device;
mod shape;

use crate::compare::{matmul, read_into, transpose};
use crate::gpu::Launches;
use crate::{Gpu, SplitMix64, Tolerance, Verification, Workload, WorkloadError};
use device::OnDevice;
use shape::{
    BATCHES, Batch, DECAY, HIDDEN, INPUTS, OUTPUTS, RATE, SAMPLES, STATE, WEIGHTS1, WEIGHTS2,
};

const NAME: &str = "train";

/// Number of steps until the weights are reset.
const EPOCH: usize = 8;

/// Weights are around 0.1; the loss is a sum over 32,768 squares.
const TOLERANCE: Tolerance = Tolerance {
    absolute: 1e-5,
    relative: 2e-4,
};

/// Training, one step per request.
pub struct Train {
    batches: Vec<Batch>,
    /// The state at the start of an epoch.
    initial: Vec<f32>,
    /// The state after each step of an epoch, as far as computed.
    expected: Vec<Vec<f32>>,
    step: usize,
    device: Option<OnDevice>,
    answer: Vec<u8>,
    state: Vec<f32>,
}

impl Train {
    /// Samples, targets and initial weights of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x0007_2a19);
        let layer = |random: &mut SplitMix64, rows: usize, columns: usize| {
            random.vector(rows * columns, (3.0 / rows as f32).sqrt())
        };
        // The function to learn: a linear map.
        let teacher = layer(&mut random, INPUTS, OUTPUTS);
        let batch = |random: &mut SplitMix64| {
            let samples = random.vector(SAMPLES * INPUTS, 1.0);
            let targets = matmul(&samples, &teacher, SAMPLES, OUTPUTS, INPUTS);
            Batch { samples, targets }
        };
        let batches = (0..BATCHES).map(|_| batch(&mut random)).collect();
        let mut initial = layer(&mut random, INPUTS, HIDDEN);
        initial.extend(layer(&mut random, HIDDEN, OUTPUTS));
        initial.push(0.0);
        Self {
            batches,
            initial,
            expected: Vec::new(),
            step: 0,
            device: None,
            answer: vec![0; 4 * STATE],
            state: Vec::new(),
        }
    }

    /// The state after one step on `batch` from `state`, in plain loops.
    fn reference(batch: &Batch, state: &[f32]) -> Vec<f32> {
        let (weights1, rest) = state.split_at(WEIGHTS1);
        let weights2 = &rest[..WEIGHTS2];
        let mut hidden = matmul(&batch.samples, weights1, SAMPLES, HIDDEN, INPUTS);
        for x in &mut hidden {
            *x /= 1.0 + x.abs();
        }
        let mut error = matmul(&hidden, weights2, SAMPLES, OUTPUTS, HIDDEN);
        for (e, target) in error.iter_mut().zip(&batch.targets) {
            *e -= target;
        }
        let loss: f64 = error.iter().map(|&e| f64::from(e) * f64::from(e)).sum();

        let across = transpose(&hidden, SAMPLES, HIDDEN);
        let gradient2 = matmul(&across, &error, HIDDEN, OUTPUTS, SAMPLES);
        let back = transpose(weights2, HIDDEN, OUTPUTS);
        let mut hidden_gradient = matmul(&error, &back, SAMPLES, HIDDEN, OUTPUTS);
        for (gradient, activation) in hidden_gradient.iter_mut().zip(&hidden) {
            *gradient *= (1.0 - activation.abs()) * (1.0 - activation.abs());
        }
        let across = transpose(&batch.samples, SAMPLES, INPUTS);
        let gradient1 = matmul(&across, &hidden_gradient, INPUTS, HIDDEN, SAMPLES);

        let gradients = gradient1.iter().chain(&gradient2);
        let updated = state
            .iter()
            .zip(gradients)
            .map(|(w, g)| w - RATE * (g + DECAY * w));
        updated.chain([loss as f32]).collect()
    }

    /// The state after step `step` of an epoch.
    fn expected(&mut self, step: usize) -> &[f32] {
        while self.expected.len() <= step {
            let at = self.expected.len();
            let before = self.expected.last().unwrap_or(&self.initial);
            let after = Self::reference(&self.batches[at % BATCHES], before);
            self.expected.push(after);
        }
        &self.expected[step]
    }
}

impl<G: Gpu> Workload<G> for Train {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&mut self, gpu: &mut G) -> Result<(), WorkloadError<G::Error>> {
        self.step = 0;
        let failed = WorkloadError::of(NAME);
        self.device = Some(OnDevice::new(gpu, &self.batches, &self.initial).map_err(failed)?);
        Ok(())
    }

    fn run(&mut self, gpu: &mut G) -> Result<u64, WorkloadError<G::Error>> {
        let device = self
            .device
            .as_ref()
            .ok_or(WorkloadError::NotPrepared(NAME))?;
        let failed = WorkloadError::of(NAME);
        let mut launches = Launches::on(gpu);
        device.step(&mut launches, self.step).map_err(failed)?;
        let count = launches.count;
        gpu.copy_out(device.state, &mut self.answer)
            .map_err(failed)?;
        Ok(count)
    }

    fn verify(&mut self) -> Verification {
        let mut state = std::mem::take(&mut self.state);
        read_into(&self.answer, &mut state);
        let what = format!("weights and loss after step {}", self.step);
        let difference = TOLERANCE.difference(&what, &state, self.expected(self.step));
        self.state = state;
        self.step = (self.step + 1) % EPOCH;
        Verification::from_difference(difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::to_bytes;

    fn verification(train: &mut Train) -> Verification {
        Workload::<crate::gpu::tests::NoGpu>::verify(train)
    }

    #[test]
    fn the_reference_learns() {
        let mut train = Train::new(5);
        let losses: Vec<f32> = (0..EPOCH)
            .map(|step| train.expected(step)[STATE - 1])
            .collect();
        // Every batch is used twice in an epoch; the second time its loss is lower.
        for batch in 0..BATCHES {
            assert!(losses[batch + BATCHES] < 0.9 * losses[batch], "{losses:?}");
        }
    }

    #[test]
    fn the_gradient_is_the_loss_slope() {
        let train = Train::new(6);
        let batch = &train.batches[0];
        let loss = |state: &[f32]| f64::from(Train::reference(batch, state)[STATE - 1]);
        let after = Train::reference(batch, &train.initial);
        for at in [0, 777, WEIGHTS1 - 1, WEIGHTS1, WEIGHTS1 + 999, STATE - 2] {
            let weight = train.initial[at];
            let gradient = f64::from((weight - after[at]) / RATE - DECAY * weight);
            let (mut up, mut down) = (train.initial.clone(), train.initial.clone());
            up[at] += 0.05;
            down[at] -= 0.05;
            // The loss is the sum of squares, but the gradient is that of half the sum.
            let slope = (loss(&up) - loss(&down)) / 0.2;
            assert!(
                (slope - gradient).abs() < 0.3 + 0.03 * gradient.abs(),
                "{slope} {gradient}"
            );
        }
    }

    #[test]
    fn every_step_is_compared_in_full() {
        let mut train = Train::new(5);
        for step in 0..2 * EPOCH {
            train.answer = to_bytes(train.expected(step % EPOCH));
            assert!(verification(&mut train).verified);
        }
        // A skipped or repeated step is wrong, and so is any single changed value.
        train.answer = to_bytes(train.expected(1));
        assert!(!verification(&mut train).verified);
        for at in [0, WEIGHTS1 + 3, STATE - 1] {
            let mut state = train.expected(train.step).to_vec();
            state[at] += 1e-3 * state[at].abs().max(0.1);
            train.answer = to_bytes(&state);
            assert!(!verification(&mut train).verified);
        }
    }
}
