//! The manifest of a directory of evidence: the hash of every file in it, signed.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::file_sum::{FILES, FileSum, MANIFEST, SIGNATURE};
use super::folder;
use super::key::{EvidenceKey, check};
use super::model::{Evidence, WorkerEnd};
use crate::errors::ErrorCode;

/// The only version so far.
const VERSION: u32 = 1;
/// Maximum size of a file of evidence.
const LIMIT: u64 = 8 << 30;

/// The contents of a directory of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub version: u32,
    /// The public half of the key that signed it, as hexadecimal digits.
    pub key: String,
    /// The launch order's digest, as the record was replayed.
    pub digest: String,
    /// The files of evidence.
    pub files: Vec<FileSum>,
    /// All other files in the directory and its subdirectories; `None` if an older build signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Vec<FileSum>>,
    /// The end of each worker's chain in the replayed record.
    pub workers: Vec<WorkerEnd>,
}

/// Signature of a directory: its key, and the files that it does not cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestSignature {
    /// The public half of the key, as hexadecimal digits.
    pub key: String,
    /// Files that are not signed: an older build covered only those of evidence.
    pub unsigned: Vec<String>,
}

impl Evidence {
    /// Creates the directory, writes the files, and signs a manifest of all files in it.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, dir: &Path, key: &EvidenceKey) -> Result<()> {
        std::fs::create_dir_all(dir).with_context(|| {
            ErrorCode::EvidenceFile.failed(format!("cannot make {}", dir.display()))
        })?;
        let contents = [
            lines(&self.submitted)?,
            lines(&self.started)?,
            lines(&self.order)?,
            lines(&self.kills)?,
            lines(&self.failures)?,
            lines(&self.faults)?,
        ];
        let mut files = Vec::new();
        for (name, bytes) in FILES.iter().zip(contents) {
            write(&dir.join(name), &bytes)?;
            files.push(FileSum::of(name, &bytes));
        }
        let manifest = Manifest {
            version: VERSION,
            key: key.public(),
            digest: self.digest.clone(),
            files,
            beside: Some(folder::beside(dir)?),
            workers: self.workers.clone(),
        };
        manifest.write(dir, key)
    }

    /// Reads the files and checks each against the signed manifest. If a `key` is given, it must be
    /// the one that signed. Also returns the signature.
    ///
    /// # Errors
    /// `E-EVIDENCE-FILE` if a file is missing, `E-EVIDENCE-MANIFEST` if a file of the directory
    /// differs from the manifest, `E-EVIDENCE-LINE` if a line is invalid.
    pub fn read(dir: &Path, key: Option<&str>) -> Result<(Self, ManifestSignature)> {
        let manifest = signed(dir, key)
            .with_context(|| ErrorCode::EvidenceManifest.failed(dir.join(MANIFEST).display()))?;
        let named: Vec<_> = manifest.files.iter().map(|file| &*file.name).collect();
        if named != FILES {
            bail!(
                ErrorCode::EvidenceManifest
                    .failed(format!("it names the files {named:?} and not {FILES:?}"))
            );
        }
        let mut sums = manifest.files.iter();
        let mut next = || sums.next().context("a file more");
        let evidence = Self {
            submitted: parse(dir, next()?)?,
            started: parse(dir, next()?)?,
            order: parse(dir, next()?)?,
            kills: parse(dir, next()?)?,
            failures: parse(dir, next()?)?,
            faults: parse(dir, next()?)?,
            digest: manifest.digest,
            workers: manifest.workers,
        };
        let unsigned = match &manifest.beside {
            Some(named) => folder::compare(dir, named).map(|()| Vec::new())?,
            None => folder::beside(dir)?.into_iter().map(|it| it.name).collect(),
        };
        let key = manifest.key;
        Ok((evidence, ManifestSignature { key, unsigned }))
    }
}

impl Manifest {
    /// Writes it and its signature.
    fn write(&self, dir: &Path, key: &EvidenceKey) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        write(&dir.join(MANIFEST), &bytes)?;
        let signature = format!("{}\n", key.sign(&bytes));
        write(&dir.join(SIGNATURE), signature.as_bytes())
    }
}

/// Signs a directory again after more files were added. A directory without a manifest stays
/// unsigned.
///
/// # Errors
/// If the manifest is not signed by this key, or if the files cannot be read or written.
pub fn sign_again(dir: &Path, key: &EvidenceKey) -> Result<()> {
    if !dir.join(MANIFEST).exists() {
        return Ok(());
    }
    let mut manifest = signed(dir, Some(&key.public()))?;
    manifest.beside = Some(folder::beside(dir)?);
    manifest.write(dir, key)
}

/// The manifest of a directory, if it is signed by this key, or else by the key that it names.
fn signed(dir: &Path, key: Option<&str>) -> Result<Manifest> {
    let bytes = read(&dir.join(MANIFEST))?;
    let manifest: Manifest = serde_json::from_slice(&bytes)?;
    let version = manifest.version;
    ensure!(version == VERSION, "version {version} is not {VERSION}");
    if let Some(key) = key.filter(|key| !manifest.key.eq_ignore_ascii_case(key)) {
        bail!(
            "it was signed with the key {}, not with {key}",
            manifest.key
        );
    }
    let signature = String::from_utf8(read(&dir.join(SIGNATURE))?)?;
    check(&manifest.key, &bytes, &signature)?;
    Ok(manifest)
}

/// The lines of a file, which must match the manifest.
fn parse<T: DeserializeOwned>(dir: &Path, sum: &FileSum) -> Result<Vec<T>> {
    let path = dir.join(&sum.name);
    let bytes = read(&path)?;
    let found = FileSum::of(&sum.name, &bytes);
    found.same_as(sum, &path)?;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_slice(line).with_context(|| {
                ErrorCode::EvidenceLine.failed(format!("{}, line {}", path.display(), number + 1))
            })
        })
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("cannot open {shown}")))?
        .len();
    ensure!(
        size <= LIMIT,
        ErrorCode::EvidenceFile.failed(format!("{shown} has {size} bytes, more than {LIMIT}"))
    );
    std::fs::read(path)
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("cannot read {shown}")))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes)
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("cannot write {}", path.display())))
}

fn lines<T: Serialize>(lines: &[T]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
