//! GGUF, versions 2 and 3: a head of keys with values, a list of tensors, the tensors.
//!
//! The format is described by the ggml project. All values except the alignment are skipped.

use std::io::{BufReader, Read, Seek};

use super::extent::{Extent, HEAD_BYTES, NAME_BYTES, TENSORS, malformed};

/// The magic number of such a file.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";
/// Default alignment of tensors.
const ALIGNMENT: u64 = 32;
/// Maximum nesting of arrays.
const DEPTH: u32 = 4;

/// A head being read, with a limit on its length.
struct Head<R> {
    from: R,
    at: u64,
}

impl<R: Read> Head<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        self.at += bytes.len() as u64;
        if self.at > HEAD_BYTES {
            return Err(malformed("its head has more than 100 MB"));
        }
        self.from.read_exact(bytes)
    }

    fn u32(&mut self) -> std::io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn skip(&mut self, bytes: u64) -> std::io::Result<()> {
        if bytes > HEAD_BYTES {
            return Err(malformed("its head has more than 100 MB"));
        }
        let (mut buffer, mut left) = ([0; 4_096], bytes);
        while left > 0 {
            let now = left.min(buffer.len() as u64);
            self.read(&mut buffer[..now as usize])?;
            left -= now;
        }
        Ok(())
    }

    /// A text of the length of a name; a longer one is skipped and gives `None`.
    fn name(&mut self) -> std::io::Result<Option<String>> {
        let length = self.u64()?;
        if length > NAME_BYTES as u64 {
            self.skip(length)?;
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        self.read(&mut bytes)?;
        Ok(String::from_utf8(bytes).ok())
    }

    /// Reads a value of a type; returns it if it is an unsigned integer of 32 bits.
    fn value(&mut self, of: u32, depth: u32) -> std::io::Result<Option<u64>> {
        match of {
            // Integers of 8 bits and booleans.
            0 | 1 | 7 => self.skip(1)?,
            2 | 3 => self.skip(2)?,
            4 => return self.u32().map(|number| Some(u64::from(number))),
            5 | 6 => self.skip(4)?,
            10..=12 => self.skip(8)?,
            8 => {
                let length = self.u64()?;
                self.skip(length)?;
            }
            9 if depth < DEPTH => {
                let (of, count) = (self.u32()?, self.u64()?);
                for _ in 0..count {
                    self.value(of, depth + 1)?;
                }
            }
            _ => return Err(malformed(format!("its head has a value of type {of}"))),
        }
        Ok(None)
    }
}

/// Elements per block and bytes per block of a tensor type.
fn block(of: u32) -> Option<(u64, u64)> {
    Some(match of {
        0 | 26 => (1, 4),
        1 | 25 | 30 => (1, 2),
        24 => (1, 1),
        27 | 28 => (1, 8),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        9 => (32, 36),
        39 => (32, 17),
        10 => (256, 84),
        11 | 21 => (256, 110),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        15 => (256, 292),
        16 | 35 => (256, 66),
        17 => (256, 74),
        18 => (256, 98),
        19 => (256, 50),
        22 => (256, 82),
        23 => (256, 136),
        29 => (256, 56),
        34 => (256, 54),
        40 => (64, 36),
        41 => (128, 18),
        _ => return None,
    })
}

/// The tensors of a file.
pub(super) fn extents(file: &mut (impl Read + Seek)) -> std::io::Result<Vec<Extent>> {
    let mut head = Head {
        from: BufReader::new(file),
        at: 0,
    };
    head.skip(MAGIC.len() as u64)?;
    let version = head.u32()?;
    if !(2..=3).contains(&version) {
        return Err(malformed(format!(
            "it is GGUF of version {version}, not 2 or 3"
        )));
    }
    let (tensors, values) = (head.u64()?, head.u64()?);
    if tensors > TENSORS as u64 {
        return Err(malformed(format!("it has {tensors} tensors")));
    }
    let mut alignment = ALIGNMENT;
    for _ in 0..values {
        let key = head.name()?;
        let of = head.u32()?;
        let value = head.value(of, 0)?;
        if key.as_deref() == Some("general.alignment") {
            alignment = value.unwrap_or(0);
        }
    }
    if !alignment.is_power_of_two() {
        return Err(malformed(format!("its alignment is {alignment}")));
    }
    let mut extents = Vec::new();
    for _ in 0..tensors {
        extents.push(tensor(&mut head)?);
    }
    let start = head.at.next_multiple_of(alignment);
    for extent in &mut extents {
        let offset = extent.offset.checked_add(start);
        extent.offset = offset.ok_or_else(|| malformed("a tensor begins behind the file's end"))?;
    }
    Ok(extents)
}

/// A tensor of the list; its offset is relative to the first tensor.
fn tensor(head: &mut Head<impl Read>) -> std::io::Result<Extent> {
    let name = head.name()?;
    let name = name.ok_or_else(|| malformed("a tensor's name is too long, or no text"))?;
    let dimensions = head.u32()?;
    if dimensions > 8 {
        return Err(malformed(format!(
            "tensor {name} has {dimensions} dimensions"
        )));
    }
    let mut elements = Some(1_u64);
    for _ in 0..dimensions {
        let size = head.u64()?;
        elements = elements.and_then(|elements| elements.checked_mul(size));
    }
    let (of, offset) = (head.u32()?, head.u64()?);
    let Some((each, size)) = block(of) else {
        return Err(malformed(format!(
            "tensor {name} has the unknown type {of}"
        )));
    };
    let whole = elements.filter(|elements| elements.is_multiple_of(each));
    let bytes = whole.and_then(|elements| (elements / each).checked_mul(size));
    let bytes = bytes.ok_or_else(|| malformed(format!("tensor {name} has no such shape")))?;
    Ok(Extent {
        name,
        offset,
        bytes,
    })
}
