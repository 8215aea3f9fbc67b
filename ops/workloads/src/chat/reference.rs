//! The decoder in plain loops over f32: the reference for the device.

use super::model::{
    CONTEXT, HEAD, HEADS, HIDDEN, LAYERS, Layer, Linear, Model, Norm, VOCABULARY, WIDTH,
};
use crate::compare::dot;

/// State of a conversation in the reference.
pub(super) struct Reference {
    /// Per layer, CONTEXT x WIDTH.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Reference {
    pub(super) fn new() -> Self {
        let cache = || vec![vec![0.0; CONTEXT * WIDTH]; LAYERS];
        Self {
            keys: cache(),
            values: cache(),
        }
    }

    /// The logits after `token` at `position`. Positions must come in order; 0 begins a new
    /// conversation.
    pub(super) fn decode(&mut self, model: &Model, token: u32, position: usize) -> Vec<f32> {
        let token = model.part(model.tokens + token as usize * WIDTH, WIDTH);
        let place = model.part(model.positions + position * WIDTH, WIDTH);
        let mut stream: Vec<f32> = token.iter().zip(place).map(|(a, b)| a + b).collect();
        for (at, layer) in model.layers.iter().enumerate() {
            self.attend(model, layer, at, position, &mut stream);
            perceive(model, layer, &mut stream);
        }
        let mut logits = vec![0.0; VOCABULARY];
        linear(
            model,
            &model.head,
            &normalise(model, &model.norm, &stream),
            &mut logits,
        );
        logits
    }

    fn attend(
        &mut self,
        model: &Model,
        layer: &Layer,
        at: usize,
        position: usize,
        stream: &mut [f32],
    ) {
        let mut qkv = [0.0; 3 * WIDTH];
        linear(
            model,
            &layer.qkv,
            &normalise(model, &layer.norm1, stream),
            &mut qkv,
        );
        let (keys, values) = (&mut self.keys[at], &mut self.values[at]);
        let row = position * WIDTH..(position + 1) * WIDTH;
        keys[row.clone()].copy_from_slice(&qkv[WIDTH..2 * WIDTH]);
        values[row].copy_from_slice(&qkv[2 * WIDTH..]);

        let mut mixed = [0.0; WIDTH];
        for head in 0..HEADS {
            let columns = head * HEAD..(head + 1) * HEAD;
            let query = &qkv[columns.clone()];
            let mut scores: Vec<f32> = keys
                .chunks_exact(WIDTH)
                .take(position + 1)
                .map(|key| dot(query, &key[columns.clone()]) / (HEAD as f32).sqrt())
                .collect();
            let highest = scores.iter().copied().fold(f32::MIN, f32::max);
            for score in &mut scores {
                *score = (*score - highest).exp();
            }
            let sum: f32 = scores.iter().sum();
            for (score, value) in scores.iter().zip(values.chunks_exact(WIDTH)) {
                for (out, v) in mixed[columns.clone()]
                    .iter_mut()
                    .zip(&value[columns.clone()])
                {
                    *out += score / sum * v;
                }
            }
        }
        add_linear(model, &layer.project, &mixed, stream);
    }
}

/// Applies the perceptron of a layer.
fn perceive(model: &Model, layer: &Layer, stream: &mut [f32]) {
    let mut hidden = [0.0; HIDDEN];
    linear(
        model,
        &layer.up,
        &normalise(model, &layer.norm2, stream),
        &mut hidden,
    );
    for x in &mut hidden {
        let inner = 0.797_884_6 * (*x + 0.044_715 * *x * *x * *x);
        *x = 0.5 * *x * (1.0 + inner.tanh());
    }
    add_linear(model, &layer.down, &hidden, stream);
}

fn normalise(model: &Model, norm: &Norm, stream: &[f32]) -> [f32; WIDTH] {
    let count = WIDTH as f32;
    let mean = stream.iter().sum::<f32>() / count;
    let variance = stream.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
    let inverse = 1.0 / (variance + 1e-5).sqrt();
    let (gain, bias) = (model.part(norm.gain, WIDTH), model.part(norm.bias, WIDTH));
    std::array::from_fn(|i| (stream[i] - mean) * inverse * gain[i] + bias[i])
}

fn linear(model: &Model, linear: &Linear, x: &[f32], y: &mut [f32]) {
    let weights = model.part(linear.weights, linear.rows * linear.columns);
    let bias = model.part(linear.bias, linear.rows);
    for ((y, row), bias) in y
        .iter_mut()
        .zip(weights.chunks_exact(linear.columns))
        .zip(bias)
    {
        *y = dot(row, x) + bias;
    }
}

fn add_linear(model: &Model, part: &Linear, x: &[f32], stream: &mut [f32]) {
    let mut projected = [0.0; WIDTH];
    linear(model, part, x, &mut projected);
    for (to, from) in stream.iter_mut().zip(projected) {
        *to += from;
    }
}
