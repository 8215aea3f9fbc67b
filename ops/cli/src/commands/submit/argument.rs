//! A kernel argument in the notation of the command line.

use std::fmt::Write as _;
use std::path::Path;

use admin::errors::UsageError;
use admin::table::size;
use anyhow::{Context, Result, bail};

/// Maximum number of bytes of one kernel's buffers.
const MOST: u64 = 8 << 30;

/// Type of a scalar or of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// Signed, of this many bytes.
    Signed(usize),
    /// Unsigned, of this many bytes.
    Unsigned(usize),
    /// IEEE 754, 4 or 8 bytes.
    Float(usize),
}

/// An argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    /// Passed by value: its little-endian bytes.
    Scalar(Vec<u8>),
    /// A device buffer with these contents; its address is passed.
    Buffer(Element, Vec<u8>),
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "i8" => Self::Signed(1),
            "i16" => Self::Signed(2),
            "i32" => Self::Signed(4),
            "i64" => Self::Signed(8),
            "u8" => Self::Unsigned(1),
            "u16" => Self::Unsigned(2),
            "u32" => Self::Unsigned(4),
            "u64" => Self::Unsigned(8),
            "f32" => Self::Float(4),
            "f64" => Self::Float(8),
            _ => return None,
        })
    }

    /// Bytes of one element.
    #[must_use]
    pub(super) fn bytes(self) -> usize {
        let (Self::Signed(bytes) | Self::Unsigned(bytes) | Self::Float(bytes)) = self;
        bytes
    }

    fn value(self, text: &str) -> Option<Vec<u8>> {
        let text = text.trim();
        let bytes = self.bytes();
        Some(match self {
            Self::Float(4) => text.parse::<f32>().ok()?.to_le_bytes().to_vec(),
            Self::Float(_) => text.parse::<f64>().ok()?.to_le_bytes().to_vec(),
            Self::Unsigned(_) => {
                let value: u64 = text.parse().ok()?;
                let fits = bytes == 8 || value >> (8 * bytes) == 0;
                fits.then(|| value.to_le_bytes()[..bytes].to_vec())?
            }
            Self::Signed(_) => {
                let value: i64 = text.parse().ok()?;
                let shift = 64 - 8 * bytes as u32;
                let fits = (value << shift) >> shift == value;
                fits.then(|| value.to_le_bytes()[..bytes].to_vec())?
            }
        })
    }

    /// The elements of a buffer as text, separated by spaces.
    #[must_use]
    pub(super) fn show(self, buffer: &[u8]) -> String {
        let mut shown = String::new();
        for bytes in buffer.chunks_exact(self.bytes()) {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let separator = if shown.is_empty() { "" } else { " " };
            let bits = u64::from_le_bytes(wide);
            let shift = 64 - 8 * bytes.len() as u32;
            // Writing to a string cannot fail.
            let _ = match self {
                Self::Float(4) => write!(shown, "{separator}{}", f32::from_bits(bits as u32)),
                Self::Float(_) => write!(shown, "{separator}{}", f64::from_bits(bits)),
                Self::Unsigned(_) => write!(shown, "{separator}{bits}"),
                Self::Signed(_) => {
                    write!(shown, "{separator}{}", ((bits << shift) as i64) >> shift)
                }
            };
        }
        shown
    }
}

impl Argument {
    /// Parses the arguments of one kernel.
    ///
    /// # Errors
    /// [`UsageError`] if one is invalid, or if all together take more than [`MOST`].
    pub(super) fn all(texts: &[String]) -> Result<Vec<Self>> {
        let (mut all, mut taken) = (Vec::new(), 0);
        for text in texts {
            let argument = Self::parse(text)?;
            if let Self::Buffer(_, bytes) = &argument {
                taken += bytes.len() as u64;
            }
            if taken > MOST {
                bail!(UsageError(format!(
                    "--arg {text}: buffers take {} together at most",
                    size(MOST)
                )));
            }
            all.push(argument);
        }
        Ok(all)
    }

    /// Parses `f32:2.5`, `f32*8=1.5`, `f32*8:FILE` or `f32[1,2,3]`.
    ///
    /// # Errors
    /// [`UsageError`] if it is none of these, or if a buffer takes more than [`MOST`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let end = text.find([':', '*', '[']).unwrap_or(text.len());
        let (kind, rest) = text.split_at(end);
        let complain = || UsageError(format!("argument {text:?}; see `warploom submit --help`"));
        let element = Element::parse(kind).with_context(complain)?;
        let value = |value: &str| element.value(value).with_context(complain);
        if let Some(scalar) = rest.strip_prefix(':') {
            return Ok(Self::Scalar(value(scalar)?));
        }
        if let Some(list) = rest
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let values: Result<Vec<_>> = list.split(',').map(value).collect();
            return Ok(Self::Buffer(element, values?.concat()));
        }
        let rest = rest.strip_prefix('*').with_context(complain)?;
        let at = rest.find(['=', ':']).with_context(complain)?;
        let count: usize = rest[..at].parse().ok().with_context(complain)?;
        let bytes = count.checked_mul(element.bytes());
        let bytes = bytes
            .filter(|bytes| *bytes as u64 <= MOST)
            .with_context(|| {
                let most = size(MOST);
                UsageError(format!(
                    "--arg {text}: {count} elements are too many: a buffer takes {most} at most"
                ))
            })?;
        let fill = &rest[at + 1..];
        let contents = match &rest[at..=at] {
            "=" => filled(&value(fill)?, bytes).with_context(|| {
                UsageError(format!("--arg {text}: this machine has no memory for it"))
            })?,
            _ => read(element, count, Path::new(fill))?,
        };
        Ok(Self::Buffer(element, contents))
    }

    /// Size among the parameters in bytes, which is also its alignment.
    #[must_use]
    pub(super) fn param_bytes(&self) -> usize {
        match self {
            Self::Scalar(bytes) => bytes.len(),
            Self::Buffer(..) => 8,
        }
    }
}

/// A value repeated to this many bytes; `None` if there is not enough memory.
fn filled(value: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    all.try_reserve_exact(bytes).ok()?;
    all.extend(value.iter().copied().cycle().take(bytes));
    Some(all)
}

fn read(element: Element, count: usize, path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let wrong = || UsageError(format!("cannot read {shown}"));
    let length = std::fs::metadata(path).with_context(wrong)?.len();
    if length > MOST {
        bail!(UsageError(format!("{shown} has more than {}", size(MOST))));
    }
    let bytes = std::fs::read(path).with_context(wrong)?;
    let contents = if path.extension().is_some_and(|extension| extension == "txt") {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let words = text
            .split([',', ' ', '\n', '\t', '\r'])
            .filter(|word| !word.is_empty());
        let values: Option<Vec<_>> = words.map(|word| element.value(word)).collect();
        values
            .with_context(|| UsageError(format!("{shown} holds something that is no number")))?
            .concat()
    } else {
        bytes
    };
    if contents.len() != count * element.bytes() {
        let have = contents.len() / element.bytes();
        bail!(UsageError(format!(
            "{shown} holds {have} elements, not {count}"
        )));
    }
    Ok(contents)
}

/// Packs parameters, each aligned to its own size; `addresses` are those of the buffers, in order.
#[must_use]
pub(super) fn pack(arguments: &[Argument], addresses: &[u64]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut addresses = addresses.iter();
    for argument in arguments {
        let size = argument.param_bytes();
        packed.resize(packed.len().next_multiple_of(size), 0);
        match argument {
            Argument::Scalar(bytes) => packed.extend_from_slice(bytes),
            Argument::Buffer(..) => {
                packed.extend_from_slice(&addresses.next().copied().unwrap_or(0).to_le_bytes());
            }
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_parse() {
        let float = |value: f32| value.to_le_bytes().to_vec();
        assert_eq!(
            Argument::parse("f32:2.5").unwrap(),
            Argument::Scalar(float(2.5))
        );
        assert_eq!(
            Argument::parse("i8:-1").unwrap(),
            Argument::Scalar(vec![255])
        );
        let buffer = Argument::parse("f32[1,2]").unwrap();
        assert_eq!(
            buffer,
            Argument::Buffer(Element::Float(4), [float(1.0), float(2.0)].concat())
        );
        let buffer = Argument::parse("u16*3=7").unwrap();
        assert_eq!(
            buffer,
            Argument::Buffer(Element::Unsigned(2), vec![7, 0, 7, 0, 7, 0])
        );
        for bad in [
            "", "f32", "f32:x", "u8:256", "i8:128", "q8:1", "f32*3", "f32*x=1", "f32[1",
        ] {
            let error = Argument::parse(bad).unwrap_err();
            assert_eq!(crate::exit::code(&error), crate::exit::USAGE, "{bad}");
        }
    }

    #[test]
    fn no_buffer_is_larger_than_all_may_be() {
        for text in [
            "f32*400000000000=1",
            "f64*18446744073709551615=1",
            "u8*8589934593=1",
            "i64*2305843009213693953:nowhere",
        ] {
            let error = Argument::parse(text).unwrap_err();
            assert_eq!(crate::exit::code(&error), crate::exit::USAGE, "{text}");
            assert!(error.to_string().contains("8.0 GiB at most"), "{error}");
        }
        assert_eq!(filled(&[1, 2], 6), Some(vec![1, 2, 1, 2, 1, 2]));
        assert_eq!(filled(&[1], isize::MAX as usize), None);
    }

    #[test]
    fn files_fill_buffers() {
        let dir = test_cluster::TempDir::new().unwrap();
        let text = dir.path().join("ones.txt");
        std::fs::write(&text, "1 2\n-3").unwrap();
        let argument = Argument::parse(&format!("i16*3:{}", text.display())).unwrap();
        let Argument::Buffer(element, bytes) = argument else {
            panic!("a buffer")
        };
        assert_eq!(element.show(&bytes), "1 2 -3");
        assert!(Argument::parse(&format!("i16*4:{}", text.display())).is_err());
    }

    #[test]
    fn parameters_are_aligned() {
        let arguments =
            ["u8:1", "f32[1]", "u16:2", "u32:3"].map(|text| Argument::parse(text).unwrap());
        let packed = pack(&arguments, &[0x1122]);
        let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0];
        expected.extend_from_slice(&0x1122_u64.to_le_bytes());
        expected.extend_from_slice(&[2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(packed, expected);
    }
}
