//! The manifest of a directory of evidence: the hash of each file, signed.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key::{EvidenceKey, check};
use super::model::{Evidence, WorkerEnd};

/// Name of the manifest.
const MANIFEST: &str = "manifest.json";
/// Name of its signature.
const SIGNATURE: &str = "manifest.sig";
/// The only version there is.
const VERSION: u32 = 1;
/// The files that a manifest names, in this order.
const FILES: [&str; 6] = [
    "submitted.jsonl",
    "started.jsonl",
    "order.jsonl",
    "kills.jsonl",
    "failures.jsonl",
    "faults.jsonl",
];
/// The most bytes of a file of evidence.
const LIMIT: u64 = 8 << 30;

/// What a directory of evidence holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// How it is written.
    pub version: u32,
    /// The public half of the key that signed it, as hexadecimal digits.
    pub key: String,
    /// The launch order's digest, as the record was replayed.
    pub digest: String,
    /// Every file.
    pub files: Vec<FileSum>,
    /// Where each worker's chain ends, as the record was replayed.
    pub workers: Vec<WorkerEnd>,
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub lines: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Their BLAKE3 hash, as hexadecimal digits.
    pub blake3: String,
}

impl FileSum {
    fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            bytes: bytes.len() as u64,
            blake3: blake3::hash(bytes).to_string(),
        }
    }
}

impl Evidence {
    /// Writes the files and the signed manifest, making the directory.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, dir: &Path, key: &EvidenceKey) -> Result<()> {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("E-EVIDENCE-FILE: cannot make {}", dir.display()))?;
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
            workers: self.workers.clone(),
        };
        let mut bytes = serde_json::to_vec_pretty(&manifest)?;
        bytes.push(b'\n');
        write(&dir.join(MANIFEST), &bytes)?;
        write(
            &dir.join(SIGNATURE),
            format!("{}\n", key.sign(&bytes)).as_bytes(),
        )
    }

    /// Reads the files, each as its manifest says, which is signed: by `key`, where one is expected.
    /// Gives the public half of the key as well.
    ///
    /// # Errors
    /// `E-EVIDENCE-FILE` when one is missing, `E-EVIDENCE-MANIFEST` when it is not what the manifest
    /// says, `E-EVIDENCE-LINE` when a line is not what it should be.
    pub fn read(dir: &Path, key: Option<&str>) -> Result<(Self, String)> {
        let manifest = signed(dir, key)
            .with_context(|| format!("E-EVIDENCE-MANIFEST: {}", dir.join(MANIFEST).display()))?;
        let named: Vec<_> = manifest.files.iter().map(|file| &*file.name).collect();
        if named != FILES {
            bail!("E-EVIDENCE-MANIFEST: it names the files {named:?} and not {FILES:?}");
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
        Ok((evidence, manifest.key))
    }
}

/// The manifest of a directory, if it is signed by this key, or by the one that it names.
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

/// The lines of a file that is what the manifest says.
fn parse<T: DeserializeOwned>(dir: &Path, sum: &FileSum) -> Result<Vec<T>> {
    let path = dir.join(&sum.name);
    let bytes = read(&path)?;
    let found = FileSum::of(&sum.name, &bytes);
    if found != *sum {
        bail!(
            "E-EVIDENCE-MANIFEST: {} has {} lines, {} bytes, hash {}; the manifest says {} lines, {} \
             bytes, hash {}",
            path.display(),
            found.lines,
            found.bytes,
            found.blake3,
            sum.lines,
            sum.bytes,
            sum.blake3
        );
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_slice(line).with_context(|| {
                format!("E-EVIDENCE-LINE: {}, line {}", path.display(), number + 1)
            })
        })
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| format!("E-EVIDENCE-FILE: cannot open {shown}"))?
        .len();
    ensure!(
        size <= LIMIT,
        "E-EVIDENCE-FILE: {shown} has {size} bytes, more than {LIMIT}"
    );
    std::fs::read(path).with_context(|| format!("E-EVIDENCE-FILE: cannot read {shown}"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes)
        .with_context(|| format!("E-EVIDENCE-FILE: cannot write {}", path.display()))
}

fn lines<T: Serialize>(lines: &[T]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
