//! Float arithmetic by a soft-float library: exact results for any rounding.

pub(crate) use rustc_apfloat::Round;
use rustc_apfloat::ieee::{
    BFloat, Double, Float8E4M3FN, Float8E5M2, Half, IeeeFloat, Quad, Semantics, Single,
};
use rustc_apfloat::{Float, FloatConvert};

/// The float that tensor cores read from an f32.
pub(crate) struct Tf32S;

impl Semantics for Tf32S {
    const BITS: usize = 19;
    const EXP_BITS: usize = 8;
}

/// A format by the name of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    E4m3,
    E5m2,
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
}

/// Runs code with `$F` the soft float of a format.
macro_rules! with {
    ($format:expr, $F:ident => $code:expr) => {
        with!(@ $format, $F, $code, E4m3 Float8E4M3FN, E5m2 Float8E5M2, F16 Half, Bf16 BFloat,
            Tf32 IeeeFloat<Tf32S>, F32 Single, F64 Double)
    };
    (@ $format:expr, $F:ident, $code:expr, $($name:ident $float:ty),*) => {
        match $format {
            $(Format::$name => {
                type $F = $float;
                $code
            })*
        }
    };
}

/// The roundings of arithmetic by their modifiers.
pub(crate) const ROUNDS: [(&str, Round); 4] = [
    (".rn", Round::NearestTiesToEven),
    (".rz", Round::TowardZero),
    (".rm", Round::TowardNegative),
    (".rp", Round::TowardPositive),
];

/// The rounding of most instructions.
pub(crate) const NEAREST: Round = Round::NearestTiesToEven;

/// Operations that are rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Rcp,
    Sqrt,
}

fn bits<F: Float>(value: F) -> u64 {
    value.to_bits() as u64
}

impl Format {
    pub(crate) fn of(ty: &str) -> Self {
        match ty.trim_end_matches("x2") {
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => panic!("{ty} is not a float"),
        }
    }

    /// Bits, and those of the mantissa.
    pub(crate) fn shape(self) -> (u32, u32) {
        match self {
            Self::E4m3 => (8, 3),
            Self::E5m2 => (8, 2),
            Self::F16 => (16, 10),
            Self::Bf16 => (16, 7),
            Self::Tf32 => (19, 10),
            Self::F32 => (32, 23),
            Self::F64 => (64, 52),
        }
    }

    fn sign(self) -> u64 {
        1 << (self.shape().0 - 1)
    }

    pub(crate) fn is_nan(self, value: u64) -> bool {
        with!(self, F => F::from_bits(value.into()).is_nan())
    }

    pub(crate) fn is_subnormal(self, value: u64) -> bool {
        with!(self, F => F::from_bits(value.into()).is_denormal())
    }

    pub(crate) fn is_negative(self, value: u64) -> bool {
        value & self.sign() != 0
    }

    /// Replaces subnormal numbers by zeros of their sign.
    pub(crate) fn flush(self, value: u64) -> u64 {
        if self.is_subnormal(value) {
            value & self.sign()
        } else {
            value
        }
    }

    /// The NaN of an operation: f64 keeps the first source's payload, the others have one NaN.
    pub(crate) fn nan(self, sources: &[u64]) -> u64 {
        if self != Self::F64 {
            return self.sign() - 1;
        }
        let first = sources.iter().find(|bits| self.is_nan(**bits));
        first.map_or(0xfff8_0000_0000_0000, |bits| bits | 1 << 51)
    }

    pub(crate) fn one(self) -> u64 {
        with!(self, F => bits(F::from_u128(1).value))
    }

    /// The bits of an operation's result; NaN is [`Format::nan`].
    pub(crate) fn calculate(self, exact: Exact, [a, b, c]: [u64; 3], round: Round) -> u64 {
        let result = with!(self, F => {
            let [x, y, z] = [a, b, c].map(|value| F::from_bits(value.into()));
            match exact {
                Exact::Add => bits(x.add_r(y, round).value),
                Exact::Sub => bits(x.sub_r(y, round).value),
                Exact::Mul => bits(x.mul_r(y, round).value),
                Exact::Div => bits(x.div_r(y, round).value),
                Exact::Fma => bits(x.mul_add_r(y, z, round).value),
                Exact::Rcp => bits(F::from_u128(1).value.div_r(x, round).value),
                Exact::Sqrt => self.root(a, round),
            }
        });
        let sources = match exact {
            Exact::Rcp | Exact::Sqrt => &[a, b, c][..1],
            Exact::Fma => &[a, b, c],
            _ => &[a, b, c][..2],
        };
        if self.is_nan(result) {
            self.nan(sources)
        } else {
            result
        }
    }

    /// The root of an f32 or f64: the machine's, corrected by the exact sign of its error.
    fn root(self, a: u64, round: Round) -> u64 {
        let double = self.convert(Self::F64, a, Round::NearestTiesToEven);
        let x = f64::from_bits(double);
        if !(x > 0.0 && x.is_finite()) {
            return self.back(x.sqrt().to_bits(), round);
        }
        // An even power of two keeps squares away from the ends of the range.
        let scale = if x < 1e-200 { 200.0 } else { 0.0 };
        let wide = x * f64::exp2(2.0 * scale);
        let near = wide.sqrt();
        let quad = |value: f64| -> Quad {
            Double::from_bits(value.to_bits().into())
                .convert(&mut false)
                .value
        };
        let square = quad(near).mul_r(quad(near), Round::TowardZero).value;
        let over = square.partial_cmp(&quad(wide)).expect("numbers");
        // One more bit than f64 has; odd if the root is not exact.
        let odd = match over {
            std::cmp::Ordering::Equal => quad(near),
            std::cmp::Ordering::Less => Quad::from_bits(quad(near).to_bits() + 1),
            std::cmp::Ordering::Greater => Quad::from_bits(quad(near).to_bits() - 1),
        };
        let down = odd.scalbn_r(-(scale as i32), Round::TowardZero);
        match self {
            Self::F32 => {
                let value: Single = down.convert_r(round, &mut false).value;
                bits(value)
            }
            _ => {
                let value: Double = down.convert_r(round, &mut false).value;
                bits(value)
            }
        }
    }

    fn back(self, double: u64, round: Round) -> u64 {
        Self::F64.convert(self, double, round)
    }

    /// A value in another format; a NaN stays some NaN.
    pub(crate) fn convert(self, to: Self, value: u64, round: Round) -> u64 {
        with!(self, F => with!(to, G => {
            let wide: Quad = F::from_bits(value.into()).convert(&mut false).value;
            let narrow: G = wide.convert_r(round, &mut false).value;
            bits(narrow)
        }))
    }

    /// An integer as a float.
    pub(crate) fn integer(self, value: i128, round: Round) -> u64 {
        with!(self, F => bits(F::from_i128_r(value, round).value))
    }

    /// A whole number near a float, saturated; none for NaN.
    pub(crate) fn whole(self, value: u64, round: Round) -> Option<i128> {
        if self.is_nan(value) {
            return None;
        }
        with!(self, F => Some(F::from_bits(value.into()).to_i128_r(128, round, &mut false).value))
    }

    /// As `whole`, still a float.
    pub(crate) fn integral(self, value: u64, round: Round) -> u64 {
        with!(self, F => bits(F::from_bits(value.into()).round_to_integral(round).value))
    }

    /// The greatest finite number.
    pub(crate) fn greatest(self) -> u64 {
        with!(self, F => bits(F::largest()))
    }

    /// True if another format can represent every value of this one.
    pub(crate) fn fits(self, other: Self) -> bool {
        self == other || other == Self::F64 || other == Self::F32 && self != Self::F64
    }

    /// A float as an f64, exactly.
    pub(crate) fn wide(self, value: u64) -> f64 {
        f64::from_bits(self.convert(Self::F64, value, Round::NearestTiesToEven))
    }
}
