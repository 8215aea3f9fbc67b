//! Numbers as bytes, and comparison of results with references.

/// Allowed difference between a result and its reference: `absolute + relative * |expected|`.
///
/// Devices sum in another order than the reference and have their own exp and rsqrt. There must be
/// no other difference.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// In the units of the values.
    pub absolute: f32,
    /// As a fraction of the expected value.
    pub relative: f32,
}

impl Tolerance {
    /// Compares all values. Returns the first difference and the number of differences, if any. NaN
    /// is a difference.
    #[must_use]
    pub fn difference(self, what: &str, actual: &[f32], expected: &[f32]) -> Option<String> {
        if actual.len() != expected.len() {
            return Some(format!(
                "{what}: {} values, expected {}",
                actual.len(),
                expected.len()
            ));
        }
        let differs = |(&a, &e): (&f32, &f32)| {
            let near = (a - e).abs() <= self.absolute + self.relative * e.abs();
            !near
        };
        let pairs = || actual.iter().zip(expected);
        let first = pairs().position(differs)?;
        let count = pairs().filter(|&pair| differs(pair)).count();
        Some(format!(
            "{what}[{first}]: {} instead of {} ({count} of {} differ)",
            actual[first],
            expected[first],
            actual.len()
        ))
    }
}

/// The bytes of `values` in their device memory format.
pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The bytes of `words` in their device memory format.
pub(crate) fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Reads the values in `bytes` into `values` and reuses its capacity.
pub(crate) fn read_into(bytes: &[u8], values: &mut Vec<f32>) {
    values.clear();
    let words = bytes.as_chunks::<4>().0;
    values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
}

/// Product of two vectors of equal length, in eight partial sums: the compiler keeps them in one
/// vector register, and the rounding error stays small.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (left, right) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (x, y) in left.0.iter().zip(right.0) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let tail: f32 = left.1.iter().zip(right.1).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + tail
}

/// Product of `a` (m x k) and `b` (k x n), row-major. The inner loop runs along rows, so that the
/// compiler vectorises it.
pub(crate) fn matmul(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
    let mut c = vec![0.0f32; m * n];
    for (row, out) in c.chunks_exact_mut(n).enumerate().take(m) {
        for (&x, line) in a[row * k..(row + 1) * k].iter().zip(b.chunks_exact(n)) {
            for (sum, &y) in out.iter_mut().zip(line) {
                *sum += x * y;
            }
        }
    }
    c
}

/// The transpose of `a` (rows x columns), row-major.
pub(crate) fn transpose(a: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = vec![0.0f32; rows * columns];
    for row in 0..rows {
        for column in 0..columns {
            out[column * rows + row] = a[row * columns + column];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOSE: Tolerance = Tolerance {
        absolute: 1e-4,
        relative: 1e-4,
    };

    #[test]
    fn a_difference_is_found_wherever_it_is() {
        let expected: Vec<f32> = (0..100).map(|i| i as f32).collect();
        assert_eq!(CLOSE.difference("x", &expected, &expected), None);
        for wrong in [0, 50, 99] {
            let mut actual = expected.clone();
            actual[wrong] += 0.1;
            let text = CLOSE
                .difference("x", &actual, &expected)
                .expect("a difference");
            assert!(text.starts_with(&format!("x[{wrong}]")), "{text}");
            actual[wrong] = f32::NAN;
            assert!(CLOSE.difference("x", &actual, &expected).is_some());
        }
        assert!(CLOSE.difference("x", &expected[1..], &expected).is_some());
    }

    proptest! {
        #[test]
        fn products_agree_with_double_precision(seed: u64, m in 1usize..9, n in 1usize..9, k in 1usize..40) {
            let mut random = crate::SplitMix64::new(seed);
            let (a, b) = (random.vector(m * k, 1.0), random.vector(k * n, 1.0));
            let exact: Vec<f32> = (0..m * n)
                .map(|i| (0..k).map(|j| f64::from(a[i / n * k + j]) * f64::from(b[j * n + i % n])).sum::<f64>() as f32)
                .collect();
            prop_assert_eq!(CLOSE.difference("c", &matmul(&a, &b, m, n, k), &exact), None);
            let columns = transpose(&b, k, n);
            let dots: Vec<f32> = (0..m * n)
                .map(|i| dot(&a[i / n * k..(i / n + 1) * k], &columns[i % n * k..(i % n + 1) * k]))
                .collect();
            prop_assert_eq!(CLOSE.difference("c", &dots, &exact), None);
        }

        #[test]
        fn bytes_and_values_are_one(values in proptest::collection::vec(any::<f32>(), 0..40)) {
            let mut back = vec![1.0];
            read_into(&to_bytes(&values), &mut back);
            let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&values));
        }
    }
}
