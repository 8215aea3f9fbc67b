//! The decoder's shape and weights.

use crate::SplitMix64;

/// Transformer layers.
pub(super) const LAYERS: usize = 4;
/// Numbers in the residual stream.
pub(super) const WIDTH: usize = 128;
/// Attention heads; each is a warp wide.
pub(super) const HEADS: usize = WIDTH / HEAD;
/// Numbers in a head.
pub(super) const HEAD: usize = 32;
/// Numbers in the hidden layer of a perceptron.
pub(super) const HIDDEN: usize = 4 * WIDTH;
/// Number of tokens in the vocabulary.
pub(super) const VOCABULARY: usize = 256;
/// Number of tokens in a conversation.
pub(super) const CONTEXT: usize = 128;

/// A matrix and its bias, as offsets into the weights.
pub(super) struct Linear {
    pub(super) weights: usize,
    pub(super) bias: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// A normalisation, as offsets into the weights.
pub(super) struct Norm {
    pub(super) gain: usize,
    pub(super) bias: usize,
}

/// One transformer layer.
pub(super) struct Layer {
    pub(super) norm1: Norm,
    /// Stream to query, key and value.
    pub(super) qkv: Linear,
    /// Mixed values back to the stream.
    pub(super) project: Linear,
    pub(super) norm2: Norm,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// The model: all weights in one vector, and the offset of each part. The length of every part is a
/// multiple of 128 numbers, so that all parts are aligned for vector loads.
pub(super) struct Model {
    pub(super) weights: Vec<f32>,
    pub(super) tokens: usize,
    pub(super) positions: usize,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    pub(super) head: Linear,
}

impl Model {
    /// Weights scaled so that every layer's output is about as large as its input.
    pub(super) fn new(random: &mut SplitMix64) -> Self {
        let mut weights = Weights {
            all: Vec::new(),
            random,
        };
        Self {
            tokens: weights.numbers(VOCABULARY * WIDTH, 1.0),
            positions: weights.numbers(CONTEXT * WIDTH, 0.5),
            layers: (0..LAYERS).map(|_| weights.layer()).collect(),
            norm: weights.norm(),
            head: weights.linear(VOCABULARY, WIDTH),
            weights: weights.all,
        }
    }

    /// `count` weights from `offset` on.
    pub(super) fn part(&self, offset: usize, count: usize) -> &[f32] {
        &self.weights[offset..offset + count]
    }
}

/// Weights as they are being drawn.
struct Weights<'a> {
    all: Vec<f32>,
    random: &'a mut SplitMix64,
}

impl Weights<'_> {
    fn numbers(&mut self, count: usize, limit: f32) -> usize {
        let offset = self.all.len();
        self.all.extend(self.random.vector(count, limit));
        offset
    }

    fn linear(&mut self, rows: usize, columns: usize) -> Linear {
        // Uniform in this range has variance 1 / columns.
        let limit = (3.0 / columns as f32).sqrt();
        Linear {
            weights: self.numbers(rows * columns, limit),
            bias: self.numbers(rows, 0.1),
            rows,
            columns,
        }
    }

    fn norm(&mut self) -> Norm {
        let gain = self.numbers(WIDTH, 0.2);
        for value in &mut self.all[gain..] {
            *value += 1.0;
        }
        Norm {
            gain,
            bias: self.numbers(WIDTH, 0.1),
        }
    }

    fn layer(&mut self) -> Layer {
        Layer {
            norm1: self.norm(),
            qkv: self.linear(3 * WIDTH, WIDTH),
            project: self.linear(WIDTH, WIDTH),
            norm2: self.norm(),
            up: self.linear(HIDDEN, WIDTH),
            down: self.linear(WIDTH, HIDDEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_do_not_overlap() {
        let model = Model::new(&mut SplitMix64::new(1));
        let mut parts = vec![
            (model.tokens, VOCABULARY * WIDTH),
            (model.positions, CONTEXT * WIDTH),
        ];
        let mut linear = |linear: &Linear| {
            parts.push((linear.weights, linear.rows * linear.columns));
            parts.push((linear.bias, linear.rows));
        };
        for layer in &model.layers {
            for part in [&layer.qkv, &layer.project, &layer.up, &layer.down] {
                linear(part);
            }
        }
        linear(&model.head);
        let norms = model
            .layers
            .iter()
            .flat_map(|layer| [&layer.norm1, &layer.norm2]);
        for norm in norms.chain([&model.norm]) {
            parts.extend([(norm.gain, WIDTH), (norm.bias, WIDTH)]);
        }
        parts.sort_unstable();
        let end = parts.iter().fold(0, |end, &(offset, count)| {
            assert_eq!(offset, end);
            assert_eq!(offset % 4, 0);
            offset + count
        });
        assert_eq!(end, model.weights.len());
    }

    #[test]
    fn the_shape_is_the_promised_one() {
        const { assert!(LAYERS >= 4 && WIDTH == 128 && HEADS == 4) };
    }
}
