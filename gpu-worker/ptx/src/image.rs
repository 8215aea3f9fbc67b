//! Images of either kind: texts and machine code.

use crate::{ModuleInfo, ParsedModule, PtxError, cubin};

/// True if an image is machine code (a cubin) and no text.
#[must_use]
pub fn is_machine_code(image: &[u8]) -> bool {
    image.starts_with(cubin::MAGIC)
}

impl ModuleInfo {
    /// Parses an image and summarises it: PTX, or machine code.
    ///
    /// # Errors
    /// As [`ParsedModule::parse_bytes`]; also if parameters exceed a kernel's limit. Errors in machine code
    /// have no line.
    pub fn parse(image: &[u8]) -> Result<Self, PtxError> {
        if is_machine_code(image) {
            return cubin::summary(image);
        }
        Self::of(&ParsedModule::parse_bytes(image)?)
    }
}
