//! `nvidia-smi` for programs whose machine has none: this program, by another name.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::variable::{EnvVariable, joined, set};

/// What shows a machine's devices, and by which name this program shows a tenant's.
pub const SMI: &str = "nvidia-smi";
/// Where a folder has the programs that are found behind all others.
const PROGRAMS: &str = "bin";

/// Makes a place in the drop-in's folder in which this program is found as `nvidia-smi`, wherever it
/// lies now.
pub(super) fn link(folder: &Path) -> Result<()> {
    let programs = folder.join(PROGRAMS);
    let smi = programs.join(SMI);
    let linked = std::env::current_exe().and_then(|own| {
        if fs::read_link(&smi).is_ok_and(|there| there == own) {
            return Ok(());
        }
        fs::create_dir_all(&programs)?;
        // Another program of ours may look it up just now.
        let partial = programs.join(format!("{SMI}.{:016x}", bus::random_id()));
        std::os::unix::fs::symlink(own, &partial)?;
        fs::rename(&partial, &smi)
    });
    linked.with_context(|| format!("writing {}", smi.display()))
}

/// Where programs find our `nvidia-smi`: behind everything else, and only where there is no other.
pub(super) fn path(
    folder: &Path,
    present: &impl Fn(&str) -> Option<OsString>,
) -> Option<EnvVariable> {
    let before = present("PATH").unwrap_or_default();
    let programs = folder.join(PROGRAMS);
    let mut places = std::env::split_paths(&before);
    if places.any(|place| place == programs || place.join(SMI).is_file()) {
        return None;
    }
    let path = joined([before, programs.into_os_string()], ":");
    Some(set("PATH", path, "nvidia-smi shows the tenant's devices"))
}

#[cfg(test)]
mod tests {
    use super::super::without;
    use super::*;

    #[test]
    fn nvidia_smi_is_found_behind_everything_and_only_where_there_is_none() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let told = |before: OsString| {
            let present = |name: &str| (name == "PATH").then(|| before.clone());
            path("/f/x".as_ref(), &present).map(|it| it.value.to_string_lossy().into_owned())
        };
        let there = base.path().as_os_str().to_owned();
        let wanted = format!("{}:/f/x/bin", there.to_string_lossy());
        assert_eq!(told(there.clone()), Some(wanted.clone()));
        assert_eq!(told(wanted.clone().into()), None, "it is there already");
        assert_eq!(without(wanted.as_ref(), "/f/x".as_ref()), there);
        fs::write(base.path().join(SMI), "").expect("written");
        assert_eq!(told(there), None, "the machine has one");
    }
}
