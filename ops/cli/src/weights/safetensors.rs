//! Safetensors: eight bytes with the length of the head, a head in JSON, the tensors.

use std::io::Read;

use ::safetensors::tensor::Metadata;

use super::extent::{Extent, HEAD_BYTES, TENSORS, malformed};

/// The tensors of a file of `length` bytes.
pub(super) fn extents(file: &mut impl Read, length: u64) -> std::io::Result<Vec<Extent>> {
    let mut head_bytes = [0; 8];
    file.read_exact(&mut head_bytes)?;
    let head_bytes = u64::from_le_bytes(head_bytes);
    if head_bytes > HEAD_BYTES.min(length.saturating_sub(8)) {
        return Err(malformed("it is neither a safetensors nor a GGUF file"));
    }
    let mut head = vec![0; head_bytes as usize];
    file.read_exact(&mut head)?;
    let metadata: Metadata = serde_json::from_slice(&head)
        .map_err(|error| malformed(format!("its head is no safetensors head: {error}")))?;
    let start = 8 + head_bytes;
    if start.checked_add(metadata.data_len() as u64) != Some(length) {
        return Err(malformed("its tensors are not as long as the file"));
    }
    let tensors = metadata.tensors();
    if tensors.len() > TENSORS {
        return Err(malformed(format!("it has {} tensors", tensors.len())));
    }
    let extents = tensors.into_iter().map(|(name, info)| Extent {
        name,
        offset: start + info.data_offsets.0 as u64,
        bytes: (info.data_offsets.1 - info.data_offsets.0) as u64,
    });
    Ok(extents.collect())
}
