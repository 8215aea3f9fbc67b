//! Files of weights: their tensors, with offsets.

mod extent;
mod gguf;
mod safetensors;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use extent::{Extent, NAME_BYTES, malformed};

/// The reason that a file cannot be read as weights.
#[derive(Debug, thiserror::Error)]
pub enum WeightsFileError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// It is no file of weights, or a damaged one.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTensor {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its offset in the file.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The tensors of a safetensors or GGUF file, in the order of their offsets.
///
/// # Errors
/// [`WeightsFileError`].
pub fn tensors(path: &Path) -> Result<Vec<FileTensor>, WeightsFileError> {
    let io = |error| WeightsFileError::Io {
        path: path.to_owned(),
        error,
    };
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut extents = match read_extents(&mut file, length) {
        Ok(extents) => extents,
        // The parsers' errors about the contents.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof
            ) =>
        {
            let path = path.to_owned();
            let why = match error.kind() {
                ErrorKind::UnexpectedEof => "it ends within its head".into(),
                _ => error.to_string(),
            };
            return Err(WeightsFileError::Malformed { path, why });
        }
        Err(error) => return Err(io(error)),
    };
    extents.sort_by(|one, other| (one.offset, &one.name).cmp(&(other.offset, &other.name)));
    let tensors = extents.into_iter().map(|extent| FileTensor {
        name: extent.name,
        path: path.to_owned(),
        offset: extent.offset,
        bytes: extent.bytes,
    });
    Ok(tensors.collect())
}

fn read_extents(file: &mut (impl Read + Seek), length: u64) -> std::io::Result<Vec<Extent>> {
    let mut magic = [0; 4];
    file.read_exact(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    let extents = match &magic == gguf::MAGIC {
        true => gguf::extents(file)?,
        false => safetensors::extents(file, length)?,
    };
    for extent in &extents {
        let name = &extent.name;
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(malformed(format!(
                "a tensor's name has {} bytes",
                name.len()
            )));
        }
        let end = extent.offset.checked_add(extent.bytes);
        if end.is_none_or(|end| end > length) {
            return Err(malformed(format!(
                "tensor {name} ends behind the file's end"
            )));
        }
    }
    Ok(extents)
}

#[cfg(test)]
mod tests;
