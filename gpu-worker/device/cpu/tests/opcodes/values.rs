//! Values of operands: the edges of their kind, then a fixed random sequence.

/// Lanes of a vector test by default.
pub(crate) const LANES: usize = 1024;

/// Classes of operand values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// An integer of that many bits; the higher bits of its register are random.
    Integer(u32),
    /// A float: exponent and mantissa bits.
    Float(u32, u32),
    /// A pair of 16 bits of these.
    Pair(u32, u32),
    /// An amount: mostly below 70.
    Amount,
    /// A position in a word of 32 bits.
    Position,
    /// A predicate.
    Pred,
}

/// The kind of an operand: its register's width and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    bits: u32,
    class: Class,
}

impl Kind {
    /// The kind for the name of a type. `amount` is for shifts and positions. `position` is less
    /// than 32. Types of 8 bits are in registers of 32.
    pub(crate) fn of(name: &str) -> Self {
        let (bits, class) = match name {
            "pred" => (1, Class::Pred),
            "amount" => (32, Class::Amount),
            "position" => (32, Class::Position),
            "f16" => (16, Class::Float(5, 10)),
            "bf16" => (16, Class::Float(8, 7)),
            "f16x2" => (32, Class::Pair(5, 10)),
            "bf16x2" => (32, Class::Pair(8, 7)),
            "u16x2" | "s16x2" => (32, Class::Pair(0, 16)),
            "f32" | "tf32" => (32, Class::Float(8, 23)),
            "f64" => (64, Class::Float(11, 52)),
            "u8" | "s8" | "b8" => (32, Class::Integer(8)),
            "u16" | "s16" | "b16" => (16, Class::Integer(16)),
            "u32" | "s32" | "b32" => (32, Class::Integer(32)),
            "u64" | "s64" | "b64" => (64, Class::Integer(64)),
            _ => panic!("no kind of operand is called {name}"),
        };
        Self { bits, class }
    }

    pub(crate) fn cut(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits))
    }

    pub(crate) fn declare(self, name: &str) -> String {
        match self.class {
            Class::Pred => format!(".reg .pred %{name}; .reg .b32 %w{name};\n"),
            _ => format!(".reg .b{} %{name};\n", self.bits),
        }
    }

    pub(crate) fn load(self, name: &str, offset: usize) -> String {
        match self.class {
            Class::Pred => format!(
                "ld.global.b32 %w{name}, [%p + {offset}]; and.b32 %w{name}, %w{name}, 1;\n\
                 setp.ne.u32 %{name}, %w{name}, 0;\n"
            ),
            _ => format!("ld.global.b{} %{name}, [%p + {offset}];\n", self.bits),
        }
    }

    pub(crate) fn save(self, name: &str, offset: usize) -> String {
        match self.class {
            Class::Pred => format!(
                "selp.u32 %w{name}, 1, 0, %{name}; st.global.u32 [%p + {offset}], %w{name};\n"
            ),
            _ => format!("st.global.b{} [%p + {offset}], %{name};\n", self.bits),
        }
    }

    fn edges(self) -> Vec<u64> {
        match self.class {
            Class::Integer(bits) => integer_edges(bits),
            Class::Float(exponent, mantissa) => float_edges(exponent, mantissa),
            Class::Pair(0, _) => integer_edges(16),
            Class::Pair(exponent, mantissa) => float_edges(exponent, mantissa),
            Class::Amount => vec![
                0,
                1,
                7,
                8,
                15,
                16,
                31,
                32,
                33,
                63,
                64,
                65,
                255,
                256,
                1 << 31,
            ],
            Class::Position => (0..32).collect(),
            Class::Pred => vec![0, 1],
        }
    }

    fn random(self, state: &mut u64) -> u64 {
        let bits = next(state);
        match self.class {
            Class::Float(exponent, mantissa) => float(exponent, mantissa, state),
            Class::Position => bits >> 8 & 31,
            Class::Amount if bits & 7 != 0 => (bits >> 8) % 70,
            Class::Amount => bits >> 32,
            // Small magnitudes too, so that products and quotients vary.
            Class::Integer(width) if bits & 3 == 0 => {
                let value = next(state) >> (64 - (bits >> 8) % u64::from(width) - 1);
                if bits & 4 != 0 {
                    value.wrapping_neg()
                } else {
                    value
                }
            }
            _ => next(state),
        }
    }

    fn draw(self, state: &mut u64) -> u64 {
        if let Class::Pair(exponent, mantissa) = self.class {
            let half = Self {
                bits: 16,
                class: match exponent {
                    0 => Class::Integer(16),
                    _ => Class::Float(exponent, mantissa),
                },
            };
            return half.cut(half.draw(state)) << 16 | half.cut(half.draw(state));
        }
        if next(state) & 3 != 0 {
            return self.random(state);
        }
        let edges = self.edges();
        edges[(next(state) % edges.len() as u64) as usize]
    }
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

fn integer_edges(bits: u32) -> Vec<u64> {
    let top = 1_u64 << (bits - 1);
    let all = u64::MAX >> (64 - bits);
    let mut edges = vec![
        0,
        1,
        2,
        3,
        all,
        all - 1,
        all - 2,
        top,
        top - 1,
        top + 1,
        0x55,
        0x80,
        0x7f,
    ];
    edges.extend([
        all / 3,
        all / 3 * 2,
        all & 0xff00,
        1 << (bits / 2),
        (1 << (bits / 2)) - 1,
    ]);
    if bits > 24 {
        edges.extend([0xff_ffff, 0x80_0000, 0x7f_ffff, 0x100_0000]);
    }
    edges
}

fn float_edges(exponent: u32, mantissa: u32) -> Vec<u64> {
    let one = ((1 << (exponent - 1)) - 1) << mantissa;
    let infinity = ((1 << exponent) - 1) << mantissa;
    let ulp = 1_u64;
    let step = 1 << mantissa;
    let half = step >> 1;
    let integers = |n: u64| one + n * step;
    let mut edges = vec![
        0,
        1,
        2,
        half,
        step - 1,
        step,
        step + 1,
        one - ulp,
        one,
        one + ulp,
    ];
    // 0.5, 1.5, 2, 2.5, 3; the largest; infinity; NaNs, one signalling.
    edges.extend([
        one - step,
        one + half,
        one + step,
        one + step + half / 2,
        one + step + half,
    ]);
    edges.extend([
        infinity - 1,
        infinity,
        infinity + 1,
        infinity + half,
        infinity + half + 5,
    ]);
    // Powers of two at the limits of integers and smaller formats.
    for power in [4, 7, 8, 15, 16, 31, 32, 63, 64] {
        if integers(power) < infinity {
            edges.extend([integers(power) - 1, integers(power), integers(power) + half]);
        }
    }
    for power in [9, 14, 24, 126, 133] {
        if one > power * step {
            edges.extend([one - power * step, one - power * step + half]);
        }
    }
    let sign = 1 << (exponent + mantissa);
    let negative: Vec<u64> = edges.iter().map(|bits| bits | sign).collect();
    edges.extend(negative);
    edges
}

/// A float: often of moderate size, often with a mantissa of long runs.
fn float(exponent: u32, mantissa: u32, state: &mut u64) -> u64 {
    let bits = next(state);
    let fraction = (1_u64 << mantissa) - 1;
    let low = next(state) & fraction;
    let low = match bits & 7 {
        0 => low & (low << (bits >> 8 & 15)),
        1 => (low | low.wrapping_neg()) & fraction,
        2 => low >> ((bits >> 8) % u64::from(mantissa)),
        3 => !(low >> ((bits >> 8) % u64::from(mantissa))) & fraction,
        _ => low,
    };
    let most = (1_u64 << exponent) - 1;
    let bias = most >> 1;
    let high = match bits >> 16 & 3 {
        0 => next(state) & most,
        1 => bias - 2 + (bits >> 20 & 3),
        _ => (bias + (bits >> 20 & 31)).saturating_sub(16).min(most),
    };
    (bits >> 63) << (exponent + mantissa) | high << mantissa | low
}

/// Values for every lane: the edges of one source crossed with those of the others, then random
/// ones, some of them close to each other.
pub(crate) fn inputs(sources: &[Kind], lanes: usize) -> Vec<[u64; 4]> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    if let [only] = sources
        && only.bits == 16
        && lanes == 1 << 16
    {
        return (0..1 << 16).map(|value| [value, 0, 0, 0]).collect();
    }
    let edges: Vec<_> = sources.iter().map(|kind| kind.edges()).collect();
    let combinations: usize = edges.iter().map(Vec::len).product();
    let chosen = combinations.min(lanes * 5 / 8);
    (0..lanes)
        .map(|lane| {
            let mut values = [0; 4];
            if lane < chosen {
                // A stride coprime to all sizes in use visits the cross product evenly.
                let mut at = if chosen == combinations {
                    lane
                } else {
                    lane * 7919 % combinations
                };
                for (value, edges) in values.iter_mut().zip(&edges) {
                    *value = edges[at % edges.len()];
                    at /= edges.len();
                }
                // The bits above a narrow integer, and the other half of a pair, are random.
                for (value, kind) in values.iter_mut().zip(sources) {
                    match kind.class {
                        Class::Pair(..) => *value |= kind.draw(&mut state) << 16,
                        Class::Integer(8) => *value |= next(&mut state) << 8,
                        _ => {}
                    }
                }
                return values;
            }
            for (at, kind) in sources.iter().enumerate() {
                let related = at > 0 && kind == &sources[at - 1] && kind.class != Class::Position;
                values[at] = match next(&mut state) % 12 {
                    0 if related => values[at - 1],
                    1 if related => values[at - 1] ^ 1 << (kind.bits - 1),
                    2 if related => values[at - 1].wrapping_add(next(&mut state) % 5),
                    _ => kind.draw(&mut state),
                };
            }
            values
        })
        .collect()
}

/// One word per lane. Its lowest bit selects the lane in the partial mask, and all of it is the
/// previous content of results.
pub(crate) fn random(lanes: usize) -> Vec<u64> {
    let mut state = 0x1234_5678_9abc_def1;
    (0..lanes).map(|_| next(&mut state)).collect()
}
