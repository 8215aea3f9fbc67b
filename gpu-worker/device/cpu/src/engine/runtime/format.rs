//! `printf` conversions as C defines them, for a packed list of arguments.

/// Maximum length of a field with a width or a precision.
const FIELD: usize = 4096;

/// Maximum bytes of a record; the rest is cut off.
const RECORD: usize = 64 << 10;

/// Source of the arguments. `None` ends the record: a fault has been recorded.
pub(super) trait Arguments {
    /// The next `size` bytes, at their natural alignment.
    fn next(&mut self, size: u64) -> Option<u64>;
    /// The string at a device address.
    fn text(&mut self, address: u64) -> Option<Vec<u8>>;
}

/// One conversion's flags and lengths.
#[derive(Clone, Copy, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// True if the argument has 64 bits.
    long: bool,
    /// Bits that an argument of `h` and `hh` is truncated to.
    bits: u32,
}

/// Reads a decimal number at `at`.
fn number(template: &[u8], at: &mut usize) -> usize {
    let mut value = 0_usize;
    while let Some(digit) = template.get(*at).filter(|byte| byte.is_ascii_digit()) {
        value = value
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'));
        *at += 1;
    }
    value.min(FIELD)
}

/// Formats a record; also returns the number of arguments used.
pub(super) fn format(template: &[u8], arguments: &mut impl Arguments) -> Option<(Vec<u8>, i32)> {
    let (mut out, mut count, mut at) = (Vec::new(), 0, 0);
    while let Some(&byte) = template.get(at)
        && out.len() < RECORD
    {
        at += 1;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let start = at - 1;
        let spec = spec(template, &mut at, arguments, &mut count)?;
        let Some(&kind) = template.get(at) else {
            out.extend_from_slice(&template[start..]);
            break;
        };
        at += 1;
        if kind == b'%' {
            out.push(b'%');
        } else if b"diouxXcpsfFeEgGaA".contains(&kind) {
            count += 1;
            convert(&mut out, spec, kind, arguments)?;
        } else {
            // Text that is not a conversion is printed unchanged.
            out.extend_from_slice(&template[start..at]);
        }
    }
    Some((out, count))
}

fn spec(
    template: &[u8],
    at: &mut usize,
    arguments: &mut impl Arguments,
    count: &mut i32,
) -> Option<Spec> {
    let mut spec = Spec {
        bits: 32,
        ..Spec::default()
    };
    while let Some(flag) = template.get(*at) {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        *at += 1;
    }
    let mut star = |at: &mut usize| -> Option<Option<i32>> {
        if template.get(*at) != Some(&b'*') {
            return Some(None);
        }
        *at += 1;
        *count += 1;
        Some(Some(arguments.next(4)? as u32 as i32))
    };
    spec.width = match star(at)? {
        Some(width) => {
            spec.left |= width < 0;
            (width.unsigned_abs() as usize).min(FIELD)
        }
        None => number(template, at),
    };
    if template.get(*at) == Some(&b'.') {
        *at += 1;
        spec.precision = match star(at)? {
            Some(precision) => usize::try_from(precision).ok().map(|n| n.min(FIELD)),
            None => Some(number(template, at)),
        };
    }
    while let Some(size) = template.get(*at) {
        match size {
            b'l' | b'j' | b'z' | b't' => (spec.long, spec.bits) = (true, 64),
            b'h' => spec.bits = (spec.bits / 2).max(8),
            _ => break,
        }
        *at += 1;
    }
    Some(spec)
}

fn convert(out: &mut Vec<u8>, spec: Spec, kind: u8, arguments: &mut impl Arguments) -> Option<()> {
    let word = if spec.long { 8 } else { 4 };
    match kind {
        b'c' => {
            let byte = arguments.next(4)? as u8;
            pad(out, spec, b"", &[byte], false);
        }
        b's' => {
            let address = arguments.next(8)?;
            let mut text = if address == 0 {
                b"(null)".to_vec()
            } else {
                arguments.text(address)?
            };
            text.truncate(spec.precision.unwrap_or(usize::MAX));
            pad(out, spec, b"", &text, false);
        }
        b'p' => {
            let address = arguments.next(8)?;
            pad(out, spec, b"", format!("{address:#x}").as_bytes(), false);
        }
        b'd' | b'i' => {
            let unused = 64 - spec.bits;
            let value = (arguments.next(word)? << unused) as i64 >> unused;
            integer(
                out,
                spec,
                sign(spec, value < 0),
                value.unsigned_abs(),
                10,
                false,
            );
        }
        b'o' | b'u' | b'x' | b'X' => {
            let value = arguments.next(word)? & (u64::MAX >> (64 - spec.bits));
            let radix = match kind {
                b'o' => 8,
                b'u' => 10,
                _ => 16,
            };
            let prefix: &[u8] = match kind {
                b'x' if spec.alternate && value != 0 => b"0x",
                b'X' if spec.alternate && value != 0 => b"0X",
                _ => b"",
            };
            integer(out, spec, prefix, value, radix, kind == b'X');
        }
        _ => float(out, spec, kind, f64::from_bits(arguments.next(8)?)),
    }
    Some(())
}

fn sign(spec: Spec, negative: bool) -> &'static [u8] {
    match (negative, spec.plus, spec.space) {
        (true, ..) => b"-",
        (false, true, _) => b"+",
        (false, false, true) => b" ",
        _ => b"",
    }
}

fn integer(out: &mut Vec<u8>, spec: Spec, prefix: &[u8], value: u64, radix: u64, upper: bool) {
    let mut digits = Vec::new();
    let mut left = value;
    while left != 0 {
        let digit = b"0123456789abcdef"[(left % radix) as usize];
        digits.push(if upper {
            digit.to_ascii_uppercase()
        } else {
            digit
        });
        left /= radix;
    }
    let mut least = spec.precision.unwrap_or(1);
    if radix == 8 && spec.alternate {
        least = least.max(digits.len() + 1);
    }
    digits.resize(digits.len().max(least), b'0');
    digits.reverse();
    // A precision disables the zero flag.
    pad(out, spec, prefix, &digits, spec.precision.is_none());
}

/// Pads to the width: blanks in front or behind, or zeros between prefix and digits.
fn pad(out: &mut Vec<u8>, spec: Spec, prefix: &[u8], body: &[u8], zeros: bool) {
    let fill = spec.width.saturating_sub(prefix.len() + body.len());
    let zeros = zeros && spec.zero && !spec.left;
    if !spec.left && !zeros {
        out.resize(out.len() + fill, b' ');
    }
    out.extend_from_slice(prefix);
    if zeros {
        out.resize(out.len() + fill, b'0');
    }
    out.extend_from_slice(body);
    if spec.left {
        out.resize(out.len() + fill, b' ');
    }
}

fn float(out: &mut Vec<u8>, spec: Spec, kind: u8, value: f64) {
    let mut prefix = sign(spec, value.is_sign_negative()).to_vec();
    let magnitude = value.abs();
    let mut body = if magnitude.is_nan() {
        "nan".to_owned()
    } else if magnitude.is_infinite() {
        "inf".to_owned()
    } else {
        match kind.to_ascii_lowercase() {
            b'f' => fixed(magnitude, spec.precision.unwrap_or(6), spec.alternate),
            b'e' => exponential(magnitude, spec.precision.unwrap_or(6), spec.alternate),
            b'g' => general(
                magnitude,
                spec.precision.unwrap_or(6).max(1),
                spec.alternate,
            ),
            _ => {
                prefix.extend_from_slice(b"0x");
                hexadecimal(magnitude, spec.precision, spec.alternate)
            }
        }
    };
    if kind.is_ascii_uppercase() {
        body.make_ascii_uppercase();
        prefix.make_ascii_uppercase();
    }
    pad(out, spec, &prefix, body.as_bytes(), magnitude.is_finite());
}

fn fixed(value: f64, precision: usize, point: bool) -> String {
    let mut text = format!("{value:.precision$}");
    if point && precision == 0 {
        text.push('.');
    }
    text
}

/// Rust writes `1.5e-7`; C requires two digits of exponent and a sign.
fn exponential(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if point && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
}

/// The shorter of `%e` and `%f` for that many significant digits, without trailing zeros.
fn general(value: f64, digits: usize, keep: bool) -> String {
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent: i32 = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let small = exponent < -4 || exponent >= digits as i32;
    let text = if small {
        exponential(value, digits - 1, keep)
    } else {
        fixed(value, (digits as i32 - 1 - exponent).max(0) as usize, keep)
    };
    if keep {
        return text;
    }
    let (number, exponent) = match text.split_once('e') {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text.as_str(), None),
    };
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    match exponent {
        Some(exponent) => format!("{number}e{exponent}"),
        None => number.to_owned(),
    }
}

/// A number such as `1.8p+3`; the caller adds the `0x`. Rounded to even if a precision drops
/// digits.
fn hexadecimal(value: f64, precision: Option<usize>, point: bool) -> String {
    let bits = value.to_bits();
    let (raw, mut mantissa) = ((bits >> 52) as i32 & 0x7ff, bits & ((1 << 52) - 1));
    let exponent = match (raw, mantissa) {
        (0, 0) => 0,
        (0, _) => -1022,
        _ => {
            mantissa |= 1 << 52;
            raw - 1023
        }
    };
    let mut digits = 13;
    if let Some(precision) = precision.filter(|n| *n < 13) {
        let cut = 4 * (13 - precision as u32);
        let (rest, half) = (mantissa & ((1 << cut) - 1), 1_u64 << (cut - 1));
        mantissa >>= cut;
        mantissa += u64::from(rest > half || rest == half && mantissa & 1 != 0);
        digits = precision;
    }
    let whole = mantissa >> (4 * digits);
    let fraction = mantissa & ((1_u64 << (4 * digits)) - 1);
    let mut text = if digits == 0 {
        String::new()
    } else {
        format!("{fraction:0digits$x}")
    };
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(precision) => text.extend(std::iter::repeat_n('0', precision.saturating_sub(13))),
    }
    let dot = if text.is_empty() && !point { "" } else { "." };
    format!("{whole:x}{dot}{text}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(Vec<u64>);

    impl Arguments for List {
        fn next(&mut self, size: u64) -> Option<u64> {
            let value = self.0.remove(0);
            Some(if size == 4 {
                value & 0xffff_ffff
            } else {
                value
            })
        }

        fn text(&mut self, address: u64) -> Option<Vec<u8>> {
            Some(format!("text{address}").into_bytes())
        }
    }

    fn printed(template: &str, arguments: &[u64]) -> String {
        let mut list = List(arguments.to_vec());
        let (out, count) = format(template.as_bytes(), &mut list).expect("no fault");
        assert_eq!(count as usize, arguments.len(), "{template}");
        String::from_utf8(out).expect("ASCII")
    }

    /// The expectations are the output of glibc.
    #[test]
    fn conversions_are_those_of_c() {
        let f = |x: f64| x.to_bits();
        for (template, arguments, wanted) in [
            ("plain 100%% %", vec![], "plain 100% %"),
            (
                "%d|%5d|%-5d|%05d|%+d|% d",
                vec![7; 6],
                "7|    7|7    |00007|+7| 7",
            ),
            (
                "%d %i",
                vec![u64::from(u32::MAX), 1 << 31],
                "-1 -2147483648",
            ),
            (
                "%lld %lu",
                vec![u64::MAX, u64::MAX],
                "-1 18446744073709551615",
            ),
            ("%hhd %hd", vec![0x1ff, 0x1_8000], "-1 -32768"),
            (
                "%u %o %#o %x %#X",
                vec![9, 9, 9, 255, 255],
                "9 11 011 ff 0XFF",
            ),
            ("%.3d|%8.3d|%08.3d", vec![5, 5, 5], "005|     005|     005"),
            ("%.0d|%c%c", vec![0, 72, 105], "|Hi"),
            ("%*d|%-*d|", vec![4, 1, 4, 1], "   1|1   |"),
            ("%s|%8s|%-8s|%.2s", vec![1; 4], "text1|   text1|text1   |te"),
            ("%p", vec![0x1000], "0x1000"),
            (
                "%f %.2f %10.3f|%-10.1f|%010.2f",
                vec![f(2.5); 5],
                "2.500000 2.50      2.500|2.5       |0000002.50",
            ),
            (
                "%e %.0e %E",
                vec![f(12345.678), f(0.5), f(1e-300)],
                "1.234568e+04 5e-01 1.000000E-300",
            ),
            (
                "%g %g %g %g",
                vec![f(0.0001), f(0.00001), f(1e6), f(123_456.0)],
                "0.0001 1e-05 1e+06 123456",
            ),
            (
                "%g %#g %.3g",
                vec![f(1.0), f(1.0), f(9999.0)],
                "1 1.00000 1e+04",
            ),
            (
                "%a %a %.1a %A",
                vec![f(1.0), f(10.5), f(1.96875), f(0.0)],
                "0x1p+0 0x1.5p+3 0x2.0p+0 0X0P+0",
            ),
            (
                "%f %F %5f %-5e|",
                vec![
                    f(f64::INFINITY),
                    f(f64::NEG_INFINITY),
                    f(f64::NAN),
                    f(f64::NAN),
                ],
                "inf -INF   nan nan  |",
            ),
            ("%y %", vec![], "%y %"),
        ] {
            assert_eq!(printed(template, &arguments), wanted, "{template}");
        }
    }
}
