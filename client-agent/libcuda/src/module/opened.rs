//! A library's text or machine code: whole, or split by kernel.

use std::string::FromUtf8Error;
use std::sync::{Arc, OnceLock};

use ptx::Outline;

/// Bytes of PTX from which an image with more than one kernel is split. A smaller one is sent
/// whole.
const LARGE: usize = 64 << 10;

/// A library's text or machine code.
pub(super) struct Opened {
    /// The image that is parsed and sent whole; `None` for a large text with several kernels.
    whole: Option<Arc<[u8]>>,
    /// The text that is split: a large one, or one that a device has refused as a whole.
    apart: OnceLock<(Outline, String)>,
    /// Maximum registers of a thread.
    registers: u32,
}

impl Opened {
    /// Splits a large text with several kernels; machine code stays whole. If the text is not
    /// supported, the parser reports why.
    pub(super) fn new(text: Vec<u8>, registers: u32) -> Self {
        let large = text.len() >= LARGE;
        let (whole, apart) = match if large { taken_apart(text) } else { Err(text) } {
            Ok(apart) => (None, OnceLock::from(apart)),
            Err(text) => (Some(text.into()), OnceLock::new()),
        };
        Self {
            whole,
            apart,
            registers,
        }
    }

    /// Maximum registers of a thread.
    pub(super) fn registers(&self) -> u32 {
        self.registers
    }

    /// The text with its outline, if it is split.
    pub(super) fn apart(&self) -> Option<(&Outline, &str)> {
        let apart = self.apart.get();
        apart.map(|(outline, text)| (outline, text.as_str()))
    }

    /// The image, if it is sent whole.
    pub(super) fn whole(&self) -> Option<&Arc<[u8]>> {
        self.whole.as_ref().filter(|_| self.apart.get().is_none())
    }

    /// Splits a whole text with several kernels; returns true if it did.
    pub(super) fn split(&self) -> bool {
        let whole = self.whole();
        let apart = whole.and_then(|it| taken_apart(it.to_vec()).ok());
        apart.is_some_and(|apart| self.apart.set(apart).is_ok())
    }
}

/// A text with its outline; the bytes themselves if they are not a text with several kernels, or
/// not supported.
fn taken_apart(mut text: Vec<u8>) -> Result<(Outline, String), Vec<u8>> {
    if ptx::is_machine_code(&text) {
        return Err(text);
    }
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(text.len()));
    let text = String::from_utf8(text).map_err(FromUtf8Error::into_bytes)?;
    match Outline::of(&text) {
        Ok(outline) if !outline.is_whole() => Ok((outline, text)),
        _ => Err(text.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 7.0\n.target sm_52\n.address_size 64\n";

    #[test]
    fn a_small_text_is_whole_until_it_is_split() {
        let text = format!("{HEAD}.entry a() {{ ret; }}\n.entry b() {{ ret; }}\n\0behind");
        let opened = Opened::new(text.into_bytes(), 32);
        assert!(opened.apart().is_none() && opened.whole().is_some());
        assert!(opened.split() && !opened.split());
        let (outline, text) = opened.apart().expect("it is apart");
        assert_eq!((outline.len(), opened.registers()), (2, 32));
        assert!(opened.whole().is_none() && text.ends_with("}\n"));
    }

    #[test]
    fn what_has_one_kernel_or_is_no_text_stays_whole() {
        let one = format!("{HEAD}.entry a() {{ ret; }}\n");
        for bytes in [one.into_bytes(), b"\x7fELF\x02".to_vec(), vec![0xff; 8]] {
            let opened = Opened::new(bytes, 32);
            assert!(!opened.split() && opened.whole().is_some());
        }
    }

    #[test]
    fn a_large_text_is_apart_at_once() {
        let kernels = (0..4_000).map(|at| format!(".entry k{at}() {{ ret; }}\n"));
        let text = HEAD.to_owned() + &kernels.collect::<String>();
        let opened = Opened::new(text.into_bytes(), 32);
        assert_eq!(opened.apart().map(|it| it.0.len()), Some(4_000));
        assert!(opened.whole().is_none() && !opened.split());
    }
}
