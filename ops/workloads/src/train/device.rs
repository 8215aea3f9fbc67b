//! The training step on a device: its memory layout, and the launches of one step.

use super::shape::{
    BATCHES, Batch, DECAY, HIDDEN, INPUTS, OUTPUTS, RATE, SAMPLES, STATE, WEIGHTS1, WEIGHTS2,
};
use crate::compare::to_bytes;
use crate::gpu::Launches;
use crate::{FunctionId, Gpu, Params, kernels};

/// Addresses of all buffers on the device.
pub(super) struct OnDevice {
    functions: Functions,
    /// Samples and targets of each batch.
    batches: Vec<(u64, u64)>,
    initial: u64,
    /// First layer, second layer, loss.
    pub(super) state: u64,
    hidden: u64,
    /// Prediction, then error.
    error: u64,
    squares: u64,
    /// One sum per block.
    sums: u64,
    hidden_gradient: u64,
    gradient1: u64,
    gradient2: u64,
}

struct Functions {
    matmul: FunctionId,
    matmul_at: FunctionId,
    matmul_bt: FunctionId,
    sum: FunctionId,
    activate: FunctionId,
    activate_gradient: FunctionId,
    error: FunctionId,
    update: FunctionId,
    assign: FunctionId,
}

impl Functions {
    fn load<G: Gpu>(gpu: &mut G) -> Result<Self, G::Error> {
        let module = gpu.load(kernels::TRAIN.bytes())?;
        Ok(Self {
            matmul: gpu.function(module, "train_matmul")?,
            matmul_at: gpu.function(module, "train_matmul_at")?,
            matmul_bt: gpu.function(module, "train_matmul_bt")?,
            sum: gpu.function(module, "train_sum")?,
            activate: gpu.function(module, "train_activate")?,
            activate_gradient: gpu.function(module, "train_activate_gradient")?,
            error: gpu.function(module, "train_error")?,
            update: gpu.function(module, "train_update")?,
            assign: gpu.function(module, "train_assign")?,
        })
    }
}

impl OnDevice {
    pub(super) fn new<G: Gpu>(
        gpu: &mut G,
        batches: &[Batch],
        initial: &[f32],
    ) -> Result<Self, G::Error> {
        let functions = Functions::load(gpu)?;
        let mut filled = |values: &[f32]| {
            let address = gpu.alloc(4 * values.len() as u64)?;
            gpu.copy_in(address, &to_bytes(values))?;
            Ok(address)
        };
        let batches = batches
            .iter()
            .map(|batch| Ok((filled(&batch.samples)?, filled(&batch.targets)?)))
            .collect::<Result<_, G::Error>>()?;
        let initial = filled(initial)?;
        let mut matrix = |count: usize| gpu.alloc(4 * count as u64);
        Ok(Self {
            functions,
            batches,
            initial,
            state: matrix(STATE)?,
            hidden: matrix(SAMPLES * HIDDEN)?,
            error: matrix(SAMPLES * OUTPUTS)?,
            squares: matrix(SAMPLES * OUTPUTS)?,
            sums: matrix(SUM_BLOCKS)?,
            hidden_gradient: matrix(SAMPLES * HIDDEN)?,
            gradient1: matrix(WEIGHTS1)?,
            gradient2: matrix(WEIGHTS2)?,
        })
    }

    /// Launches step `step` of an epoch: forward, loss, backward, update.
    pub(super) fn step<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        step: usize,
    ) -> Result<(), G::Error> {
        let batch = self.batches[step % BATCHES];
        if step == 0 {
            let params = Params::new().address(self.state).address(self.initial);
            to.elementwise(self.functions.assign, STATE, &params.count(STATE))?;
        }
        self.forward(to, batch)?;
        self.backward(to, batch)?;
        self.update(to)
    }

    /// Addresses of the first layer's weights, the second layer's weights, and the loss.
    fn parts(&self) -> [u64; 3] {
        let weights2 = self.state + 4 * WEIGHTS1 as u64;
        [self.state, weights2, weights2 + 4 * WEIGHTS2 as u64]
    }

    /// Launches prediction, error and loss.
    fn forward<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        (samples, targets): (u64, u64),
    ) -> Result<(), G::Error> {
        let (f, [weights1, weights2, loss]) = (&self.functions, self.parts());
        let hidden = [samples, weights1, self.hidden];
        multiply(to, f.matmul, hidden, [SAMPLES, HIDDEN, INPUTS])?;
        let params = Params::new().address(self.hidden).count(SAMPLES * HIDDEN);
        to.elementwise(f.activate, SAMPLES * HIDDEN, &params)?;
        let prediction = [self.hidden, weights2, self.error];
        multiply(to, f.matmul, prediction, [SAMPLES, OUTPUTS, HIDDEN])?;
        let params = Params::new().address(self.error).address(targets);
        let params = params.address(self.error).address(self.squares);
        let outputs = SAMPLES * OUTPUTS;
        to.elementwise(f.error, outputs, &params.count(outputs))?;
        let params = Params::new().address(self.squares).address(self.sums);
        to.launch(
            f.sum,
            (SUM_BLOCKS as u32, 1),
            (256, 1),
            &params.count(outputs),
        )?;
        let params = Params::new().address(self.sums).address(loss);
        to.launch(f.sum, (1, 1), (32, 1), &params.count(SUM_BLOCKS))
    }

    /// Launches the gradients of both layers.
    fn backward<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        (samples, _): (u64, u64),
    ) -> Result<(), G::Error> {
        let (f, [_, weights2, _]) = (&self.functions, self.parts());
        let gradient2 = [self.hidden, self.error, self.gradient2];
        multiply(to, f.matmul_at, gradient2, [HIDDEN, OUTPUTS, SAMPLES])?;
        let hidden = [self.error, weights2, self.hidden_gradient];
        multiply(to, f.matmul_bt, hidden, [SAMPLES, HIDDEN, OUTPUTS])?;
        let params = Params::new().address(self.hidden_gradient);
        let params = params.address(self.hidden).count(SAMPLES * HIDDEN);
        to.elementwise(f.activate_gradient, SAMPLES * HIDDEN, &params)?;
        let gradient1 = [samples, self.hidden_gradient, self.gradient1];
        multiply(to, f.matmul_at, gradient1, [INPUTS, HIDDEN, SAMPLES])
    }

    /// Launches the update of both layers' weights against their gradients.
    fn update<G: Gpu>(&self, to: &mut Launches<'_, G>) -> Result<(), G::Error> {
        let [weights1, weights2, _] = self.parts();
        let updates = [
            (weights1, self.gradient1, WEIGHTS1),
            (weights2, self.gradient2, WEIGHTS2),
        ];
        for (weights, gradient, count) in updates {
            let params = Params::new().address(weights).address(gradient);
            let params = params.f32(RATE).f32(DECAY).count(count);
            to.elementwise(self.functions.update, count, &params)?;
        }
        Ok(())
    }
}

/// Blocks of the first reduction; the second one adds their sums in one warp.
const SUM_BLOCKS: usize = 32;

/// Launches a matmul of a and b into c, of size m x n with inner dimension k.
fn multiply<G: Gpu>(
    to: &mut Launches<'_, G>,
    function: FunctionId,
    [a, b, c]: [u64; 3],
    [m, n, k]: [usize; 3],
) -> Result<(), G::Error> {
    let params = Params::new().address(a).address(b).address(c);
    let params = params.count(m).count(n).count(k);
    let blocks = ((n / 64) as u32, (m / 64) as u32);
    to.launch(function, blocks, (16, 16), &params)
}
