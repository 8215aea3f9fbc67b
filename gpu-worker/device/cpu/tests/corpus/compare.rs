//! Comparison of a kernel's output with the reference.

use crate::data;
use crate::manifest::Check;

/// Maximum number of mismatches shown per check.
const SHOWN: usize = 8;

/// An element: its bits, and its value if it is a number that may be inexact.
#[derive(Clone, Copy, Debug)]
struct Element {
    bits: u64,
    value: Option<f64>,
}

impl Element {
    fn read(dtype: &str, bytes: &[u8]) -> Self {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        let value = match dtype {
            "float64" => Some(f64::from_bits(bits)),
            "float32" => Some(f64::from(f32::from_bits(bits as u32))),
            "bfloat16" => Some(f64::from(f32::from_bits((bits as u32) << 16))),
            "float16" => Some(half(bits as u16)),
            _ => None,
        };
        Self { bits, value }
    }

    /// True if `self` is close enough to `want`.
    fn meets(self, want: Self, check: &Check) -> bool {
        let (Some(got), Some(value)) = (self.value, want.value) else {
            return self.bits == want.bits;
        };
        if got.is_nan() || value.is_nan() {
            return got.is_nan() && value.is_nan();
        }
        if check.relative == 0.0 && check.absolute == 0.0 {
            return self.bits == want.bits;
        }
        got == value || (got - value).abs() <= check.absolute + check.relative * value.abs()
    }

    fn show(self) -> String {
        match self.value {
            Some(value) => format!("{value:e} (0x{:x})", self.bits),
            None => format!("{} (0x{:x})", self.bits as i64, self.bits),
        }
    }
}

/// The value of a binary16.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Compares one check's bytes.
pub(crate) fn compare(check: &Check, got: &[u8], want: &[u8]) -> Result<(), String> {
    let size = data::size(&check.dtype)?;
    let elements = |bytes: &[u8]| {
        let mut list: Vec<Element> = bytes
            .chunks_exact(size)
            .map(|element| Element::read(&check.dtype, element))
            .collect();
        if check.unordered {
            list.sort_by_key(|element| element.bits);
        }
        list
    };
    let (got, want) = (elements(got), elements(want));
    if got.len() != want.len() || got.len() != check.count {
        return Err(format!("{} elements, {} wanted", got.len(), want.len()));
    }
    let mut wrong = Vec::new();
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        if !got.meets(*want, check) {
            wrong.push(format!(
                "  index {index}: got {}, wanted {}",
                got.show(),
                want.show()
            ));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let total = wrong.len();
    wrong.truncate(SHOWN);
    Err(format!(
        "buffer {}: {total} of {} {} differ (allowed: {:e} relative, {:e} absolute)\n{}",
        check.buffer,
        check.count,
        check.dtype,
        check.relative,
        check.absolute,
        wrong.join("\n")
    ))
}
