//! Files in a directory of evidence besides the standard ones: the record and logs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::file_sum::{FILES, FileSum, MANIFEST, SIGNATURE};
use crate::errors::ErrorCode;

/// The checksums of all files in a directory and its subdirectories, except the manifest's own
/// files and [`FILES`]. They are sorted by name; in a subdirectory the name is the path from the
/// top.
pub(super) fn beside(dir: &Path) -> Result<Vec<FileSum>> {
    let mut found = BTreeMap::new();
    walk(dir, "", &mut found)?;
    Ok(found.into_values().collect())
}

fn walk(dir: &Path, prefix: &str, found: &mut BTreeMap<String, FileSum>) -> Result<()> {
    let shown = dir.display();
    let entries = fs::read_dir(dir)
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("reading {shown}")))?;
    for entry in entries {
        let entry =
            entry.with_context(|| ErrorCode::EvidenceFile.failed(format!("reading {shown}")))?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str().map(|name| format!("{prefix}{name}")) else {
            bail!(
                ErrorCode::EvidenceFile
                    .failed(format!("the name of {} is no text", path.display()))
            );
        };
        // A link may have another target later.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&path, &format!("{name}/"), found)?;
        } else if !kind.is_file() {
            bail!(
                ErrorCode::EvidenceFile
                    .failed(format!("{} is neither a file nor a folder", path.display()))
            );
        } else if ![MANIFEST, SIGNATURE].contains(&&*name) && !FILES.contains(&&*name) {
            let sum = sum(&path, &name);
            let sum = sum.with_context(|| {
                ErrorCode::EvidenceFile.failed(format!("reading {}", path.display()))
            })?;
            found.insert(name, sum);
        }
    }
    Ok(())
}

fn sum(path: &Path, name: &str) -> std::io::Result<FileSum> {
    let mut file = fs::File::open(path)?;
    let (mut hasher, mut lines, mut bytes) = (blake3::Hasher::new(), 0, 0);
    let mut part = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut part)?;
        let Some(part) = part.get(..read).filter(|part| !part.is_empty()) else {
            break;
        };
        hasher.update(part);
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        bytes += read as u64;
    }
    Ok(FileSum {
        name: name.to_owned(),
        lines,
        bytes,
        blake3: hasher.finalize().to_string(),
    })
}

/// Refuses a directory with other files than these.
///
/// # Errors
/// `E-EVIDENCE-MANIFEST` with the first file that is missing, unexpected, or different from the
/// manifest.
pub(super) fn compare(dir: &Path, named: &[FileSum]) -> Result<()> {
    let named: BTreeMap<_, _> = named.iter().map(|sum| (&sum.name, sum)).collect();
    let found = beside(dir)?;
    for sum in &found {
        let path = dir.join(&sum.name);
        match named.get(&sum.name) {
            None => bail!(
                ErrorCode::EvidenceManifest
                    .failed(format!("the manifest names no {}", path.display()))
            ),
            Some(named) => sum.same_as(named, &path)?,
        }
    }
    let mut missing = named.keys();
    match missing.find(|name| !found.iter().any(|sum| sum.name == ***name)) {
        Some(name) => bail!(
            ErrorCode::EvidenceManifest.failed(format!("{} is missing", dir.join(name).display()))
        ),
        None => Ok(()),
    }
}
