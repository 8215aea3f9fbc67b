//! The decoder on a device: its memory layout, and the launches of one token.

use super::model::{CONTEXT, HEADS, HIDDEN, Layer, Linear, Model, Norm, VOCABULARY, WIDTH};
use crate::compare::to_bytes;
use crate::gpu::Launches;
use crate::{FunctionId, Gpu, Params, kernels};

/// Addresses of all buffers on the device.
pub(super) struct OnDevice {
    functions: Functions,
    weights: u64,
    /// Key and value cache, one after the other, per layer.
    caches: Vec<(u64, u64)>,
    /// In order: the residual stream; the normalised stream; query, key and value; the mix of
    /// values; a projection back to the stream; the hidden layer.
    stream: u64,
    normal: u64,
    qkv: u64,
    mixed: u64,
    projected: u64,
    hidden: u64,
    /// Logits, followed by the chosen token.
    pub(super) answer: u64,
}

struct Functions {
    embed: FunctionId,
    layernorm: FunctionId,
    matvec: FunctionId,
    append: FunctionId,
    attention: FunctionId,
    gelu: FunctionId,
    residual: FunctionId,
    argmax: FunctionId,
}

impl Functions {
    fn load<G: Gpu>(gpu: &mut G) -> Result<Self, G::Error> {
        let module = gpu.load(kernels::CHAT.bytes())?;
        Ok(Self {
            embed: gpu.function(module, "chat_embed")?,
            layernorm: gpu.function(module, "chat_layernorm")?,
            matvec: gpu.function(module, "chat_matvec")?,
            append: gpu.function(module, "chat_cache_append")?,
            attention: gpu.function(module, "chat_attention")?,
            gelu: gpu.function(module, "chat_gelu")?,
            residual: gpu.function(module, "chat_residual")?,
            argmax: gpu.function(module, "chat_argmax")?,
        })
    }
}

impl OnDevice {
    pub(super) fn new<G: Gpu>(gpu: &mut G, model: &Model) -> Result<Self, G::Error> {
        let functions = Functions::load(gpu)?;
        let weights = gpu.alloc(4 * model.weights.len() as u64)?;
        gpu.copy_in(weights, &to_bytes(&model.weights))?;
        let cache = 4 * (CONTEXT * WIDTH) as u64;
        let caches = model
            .layers
            .iter()
            .map(|_| Ok((gpu.alloc(cache)?, gpu.alloc(cache)?)))
            .collect::<Result<_, G::Error>>()?;
        let mut vector = |length: usize| gpu.alloc(4 * length as u64);
        Ok(Self {
            functions,
            weights,
            caches,
            stream: vector(WIDTH)?,
            normal: vector(WIDTH)?,
            qkv: vector(3 * WIDTH)?,
            mixed: vector(WIDTH)?,
            projected: vector(WIDTH)?,
            hidden: vector(HIDDEN)?,
            answer: vector(VOCABULARY + 1)?,
        })
    }

    /// The address of the chosen token.
    pub(super) fn token(&self) -> u64 {
        self.answer + 4 * VOCABULARY as u64
    }

    /// The address of a weight, given its offset in numbers.
    fn weight(&self, offset: usize) -> u64 {
        self.weights + 4 * offset as u64
    }

    fn norm<G: Gpu>(&self, to: &mut Launches<'_, G>, norm: &Norm) -> Result<(), G::Error> {
        let params = Params::new()
            .address(self.stream)
            .address(self.weight(norm.gain))
            .address(self.weight(norm.bias))
            .address(self.normal)
            .count(WIDTH);
        to.launch(self.functions.layernorm, (1, 1), (128, 1), &params)
    }

    fn linear<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        linear: &Linear,
        x: u64,
        y: u64,
    ) -> Result<(), G::Error> {
        let params = Params::new()
            .address(self.weight(linear.weights))
            .address(self.weight(linear.bias))
            .address(x)
            .address(y)
            .count(linear.rows)
            .count(linear.columns);
        // One warp per row, so 128 threads process four rows.
        to.elementwise(self.functions.matvec, linear.rows * 32, &params)
    }

    fn add_projected<G: Gpu>(&self, to: &mut Launches<'_, G>) -> Result<(), G::Error> {
        let params = Params::new()
            .address(self.stream)
            .address(self.projected)
            .count(WIDTH);
        to.elementwise(self.functions.residual, WIDTH, &params)
    }

    fn layer<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        layer: &Layer,
        (keys, values): (u64, u64),
        position: usize,
    ) -> Result<(), G::Error> {
        self.norm(to, &layer.norm1)?;
        self.linear(to, &layer.qkv, self.normal, self.qkv)?;
        let append = Params::new()
            .address(self.qkv)
            .address(keys)
            .address(values);
        let append = append.count(position).count(WIDTH);
        to.elementwise(self.functions.append, WIDTH, &append)?;
        let attention = Params::new()
            .address(self.qkv)
            .address(keys)
            .address(values);
        let attention = attention
            .address(self.mixed)
            .count(position + 1)
            .count(WIDTH);
        to.launch(
            self.functions.attention,
            (HEADS as u32, 1),
            (128, 1),
            &attention,
        )?;
        self.linear(to, &layer.project, self.mixed, self.projected)?;
        self.add_projected(to)?;

        self.norm(to, &layer.norm2)?;
        self.linear(to, &layer.up, self.normal, self.hidden)?;
        let gelu = Params::new().address(self.hidden).count(HIDDEN);
        to.elementwise(self.functions.gelu, HIDDEN, &gelu)?;
        self.linear(to, &layer.down, self.hidden, self.projected)?;
        self.add_projected(to)
    }

    /// Launches the decoding of one token: from the token on the device to the logits and the next
    /// token.
    pub(super) fn decode<G: Gpu>(
        &self,
        to: &mut Launches<'_, G>,
        model: &Model,
        position: usize,
    ) -> Result<(), G::Error> {
        let embed = Params::new()
            .address(self.token())
            .count(position)
            .address(self.weight(model.tokens))
            .address(self.weight(model.positions))
            .address(self.stream)
            .count(WIDTH);
        to.elementwise(self.functions.embed, WIDTH, &embed)?;
        for (layer, &cache) in model.layers.iter().zip(&self.caches) {
            self.layer(to, layer, cache, position)?;
        }
        self.norm(to, &model.norm)?;
        self.linear(to, &model.head, self.normal, self.answer)?;
        let argmax = Params::new()
            .address(self.answer)
            .count(VOCABULARY)
            .address(self.token());
        to.launch(self.functions.argmax, (1, 1), (128, 1), &argmax)
    }
}
