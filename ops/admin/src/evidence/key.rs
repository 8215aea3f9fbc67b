//! The key that signs a cluster's evidence.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::errors::ErrorCode;

/// Name of the file in the state folder.
const FILE: &str = "evidence.key";
/// Bytes of a seed.
const SEED: usize = 32;

/// An Ed25519 key of a cluster's state folder.
pub struct EvidenceKey(Ed25519KeyPair);

impl EvidenceKey {
    /// The key of a state folder, created if it does not exist. Only its owner can read the file.
    ///
    /// # Errors
    /// `E-EVIDENCE-KEY` if it cannot be read or created, or is invalid.
    pub fn of(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(FILE);
        let shown = path.display();
        let made = make(state_dir, &path);
        made.with_context(|| ErrorCode::EvidenceKey.failed(format!("cannot make {shown}")))?;
        let mut text = String::new();
        // A seed and a line break; anything longer is invalid.
        File::open(&path)
            .and_then(|file| file.take(4 * SEED as u64).read_to_string(&mut text))
            .with_context(|| ErrorCode::EvidenceKey.failed(format!("cannot read {shown}")))?;
        let seed = unhex(text.trim()).filter(|seed| seed.len() == SEED);
        let pair = seed.and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok());
        pair.map(Self).with_context(|| {
            ErrorCode::EvidenceKey.failed(format!(
                "{shown} holds no key; without it, a new one is made"
            ))
        })
    }

    /// The public half, as hexadecimal digits.
    #[must_use]
    pub fn public(&self) -> String {
        hex(self.0.public_key().as_ref())
    }

    /// Signs the bytes; returns the signature as hexadecimal digits.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> String {
        hex(self.0.sign(bytes).as_ref())
    }
}

/// Creates the file, whole or not at all; another process may be creating it, too.
fn make(dir: &Path, path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut folder = DirBuilder::new();
    folder.recursive(true).mode(0o700).create(dir)?;
    let mut seed = [0; SEED];
    let filled = SystemRandom::new().fill(&mut seed);
    filled.map_err(|_| anyhow!("the system has no random bytes"))?;
    let partial = path.with_extension(format!("key.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(hex(&seed).as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    // Unlike a rename, this never replaces a key that may already have signed something.
    let linked = std::fs::hard_link(&partial, path);
    std::fs::remove_file(&partial)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Checks a signature.
///
/// # Errors
/// If it is not this key's signature of these bytes.
pub(super) fn check(public: &str, bytes: &[u8], signature: &str) -> Result<()> {
    let key = unhex(public).context("the key is not hexadecimal")?;
    let signature = unhex(signature.trim()).context("the signature is not hexadecimal")?;
    match UnparsedPublicKey::new(&ED25519, key).verify(bytes, &signature) {
        Ok(()) => Ok(()),
        Err(_) => bail!("the signature is not the key's of this manifest"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_keeps_its_key_and_nobody_else_reads_it() {
        let dir = test_cluster::TempDir::new().unwrap();
        let key = EvidenceKey::of(dir.path()).unwrap();
        let again = EvidenceKey::of(dir.path()).unwrap();
        assert_eq!(key.public(), again.public());
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        let elsewhere = test_cluster::TempDir::new().unwrap();
        let other = EvidenceKey::of(elsewhere.path()).unwrap();
        assert_ne!(key.public(), other.public());
        let signature = key.sign(b"so it was");
        check(&again.public(), b"so it was", &signature).unwrap();
        check(&other.public(), b"so it was", &signature).unwrap_err();
        check(&key.public(), b"so it was not", &signature).unwrap_err();
        check("zz", b"so it was", &signature).unwrap_err();
    }

    #[test]
    fn a_file_that_holds_no_key_is_not_replaced() {
        let dir = test_cluster::TempDir::new().unwrap();
        let path = dir.path().join(FILE);
        for text in ["", "no key", "00ff"] {
            std::fs::write(&path, text).unwrap();
            let error = EvidenceKey::of(dir.path()).err().expect("refused");
            assert!(format!("{error:#}").contains("E-EVIDENCE-KEY"), "{error:#}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
