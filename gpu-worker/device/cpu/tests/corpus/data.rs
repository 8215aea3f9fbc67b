//! Contents of buffers, generated from a seed exactly as `tests/corpus/harness` does.

use crate::manifest::{Buffer, Fill};

/// Bytes of one element.
pub(crate) fn size(dtype: &str) -> Result<usize, String> {
    Ok(match dtype {
        "int8" | "uint8" | "bool" => 1,
        "int16" | "uint16" | "float16" | "bfloat16" => 2,
        "int32" | "uint32" | "float32" => 4,
        "int64" | "uint64" | "float64" => 8,
        other => return Err(format!("no such dtype: {other}")),
    })
}

/// The `index`th number of a stream (SplitMix64, with a counter as its state).
fn random(seed: u64, index: u64) -> u64 {
    let step = 0x9E37_79B9_7F4A_7C15_u64;
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(step));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The initial bytes of a buffer.
pub(crate) fn contents(buffer: &Buffer, data: &[u8]) -> Result<Vec<u8>, String> {
    let size = size(&buffer.dtype)?;
    let bytes = size * buffer.count;
    Ok(match buffer.fill {
        Fill::Zero => vec![0; bytes],
        Fill::Data(from) => data
            .get(from..from + bytes)
            .ok_or("the data file is too short")?
            .to_vec(),
        Fill::Integers { seed, low, high } => {
            let span = high.wrapping_sub(low) as u64;
            let number = |index| {
                let x = random(seed, index);
                let x = if span == 0 { x } else { x % span };
                x.wrapping_add(low as u64)
            };
            (0..buffer.count as u64)
                .flat_map(|index| number(index).to_le_bytes().into_iter().take(size))
                .collect()
        }
        Fill::Uniform { seed, low, high } => {
            let number = |index| {
                let unit = (random(seed, index) >> 11) as f64 * 2f64.powi(-53);
                low + (high - low) * unit
            };
            let all = (0..buffer.count as u64).map(number);
            match buffer.dtype.as_str() {
                "float32" => all.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                "float64" => all.flat_map(f64::to_le_bytes).collect(),
                other => return Err(format!("{other} is not generated, write it as data")),
            }
        }
    })
}

/// Parses bytes from hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|error| error.to_string())?;
            u8::from_str_radix(pair, 16).map_err(|error| format!("{pair}: {error}"))
        })
        .collect()
}
